"""A run that was cut off (killed, its machine gone) goes on by itself, a bounded number of times.

It reads nothing again: the journal in the volume says what is there. What a store refused, or a
person ended, is not tried again.
"""

from __future__ import annotations

from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.utils.translation import override

from accounts.principal import Principal
from common.clock import now
from common.disk import DiskFull
from common.errors import BerthError, LimitExceeded
from events import services as events
from loaders.choices import Result, Task
from loaders.models import Load
from loaders.notices import tell_ended
from loaders.selectors import RELATED
from loaders.services.runs import begin, require_runnable
from projects.access import Permission, require
from runtime.reasons import Reason
from work.services.base import changed

BATCH = 100
FIRST_PAUSE = timedelta(seconds=5)
LONGEST_PAUSE = timedelta(minutes=10)
# What only the portal lacks (room on its disk, in a limit) is no try of a load's own, for so long.
WAITS_FOR_PORTAL = timedelta(days=1)
# How runs end that nobody ended and no store refused. "stopped": it was asked to, not by us.
CUT = frozenset(
    {Reason.KILLED, Reason.VANISHED, Reason.NODE_LOST, Reason.EVICTED, Reason.PREEMPTED, "stopped"}
)


def pause_after(tries: int) -> timedelta:
    return min(LONGEST_PAUSE, FIRST_PAUSE * 4 ** min(tries, 8))


def retry_later(row: Load) -> bool:
    """Plan the next try of what was cut off; False: it stays as it ended. The caller saves."""
    if row.result != Result.FAILED or row.result_code not in CUT:
        return False
    if row.tries >= settings.BERTH_LOAD_RETRIES:
        return False
    row.retry_at = now() + pause_after(row.tries)
    return True


def retries_run() -> int:
    """Start what is due again; return how many. One question when nothing is due."""
    due = Load.objects.filter(retry_at__lte=now(), deleted_at__isnull=True)
    pks = list(due.order_by("retry_at").values_list("pk", flat=True)[:BATCH])
    return sum(_run(pk) for pk in pks)


@transaction.atomic
def _run(pk: int) -> bool:
    row = Load.objects.select_for_update(of=("self",)).select_related(*RELATED).get(pk=pk)
    if not row.goes_on or row.retry_at is None or row.retry_at > now():
        return False  # another worker was faster, or a person
    who = Principal(user=row.owner)
    with override(row.owner.reads_in):  # why it can't is told to them
        try:
            with transaction.atomic():
                require(who, row.project, Permission.LOAD_CREATE)
                require_runnable(who, row)
                begin(who, row, task=Task(row.task), tries=row.tries + 1)
                changed(row)
        except BerthError as error:
            _not_now(row.pk, error)
            return False
    return True


def _wait_for_portal(row: Load, error: BerthError) -> bool:
    """Plan the next look when only the portal lacks something; False: it counts as a try."""
    waited = now() - (row.stopped_at or now())
    if not isinstance(error, DiskFull | LimitExceeded) or waited > WAITS_FOR_PORTAL:
        return False
    row.retry_at = now() + min(LONGEST_PAUSE, max(FIRST_PAUSE, waited))
    return True


def _not_now(pk: int, error: BerthError) -> None:
    """It may not start, as somebody who presses the button may not; this may pass."""
    row = Load.objects.select_related(*RELATED).get(pk=pk)
    sentence = error.message
    row.retry_at = None
    row.result_message = sentence[:500]
    waits = _wait_for_portal(row, error)
    if not waits:
        row.tries += 1
    if not waits and not retry_later(row):
        events.record(
            actor=None,
            verb="load.not-resumed",
            target=row,
            project_uid=row.project.uid,
            message=sentence,
        )
        tell_ended(row)
    row.save(update_fields=["tries", "retry_at", "result_message", "updated_at"])
