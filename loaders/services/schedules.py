"""Loads that start by themselves, and what happens when one can't."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.db import transaction
from django.utils import translation
from django.utils.translation import gettext as _

from accounts.principal import Principal
from common.clock import now
from common.errors import BerthError
from events import services as events
from loaders import cron
from loaders.choices import StopReason, Task
from loaders.models import Load
from loaders.notices import tell_not_started
from loaders.selectors import RELATED
from loaders.services.runs import begin, require_runnable
from projects.access import Permission, require
from runtime.protocol import Desired
from work.services.base import changed

BATCH = 100


def next_run(schedule: str, time_zone: str) -> datetime | None:
    """Return when it starts by itself the next time; None: never.

    How far apart two runs must be is asked when somebody writes a schedule, not each time.
    """
    if not schedule:
        return None
    at = now()
    return cron.parse(schedule, time_zone, now=at, shortest=timedelta()).next_after(at)


def schedules_run() -> int:
    """Start what is due; return how many were started. One question when nothing is due.

    However long nobody looked, one run follows: a load makes the target as the source is now.
    """
    due = Load.objects.filter(next_run_at__lte=now(), deleted_at__isnull=True).exclude(
        desired=Desired.ABSENT
    )
    pks = list(due.order_by("next_run_at").values_list("pk", flat=True)[:BATCH])
    return sum(_run(pk) for pk in pks)


@transaction.atomic
def _run(pk: int) -> bool:
    row = Load.objects.select_for_update(of=("self",)).select_related(*RELATED).get(pk=pk)
    if row.next_run_at is None or row.next_run_at > now() or row.desired == Desired.ABSENT:
        return False  # another worker was faster
    said = row.schedule_note
    with translation.override(row.owner.reads_in):
        try:
            row.next_run_at = next_run(row.schedule, row.time_zone)
        except BerthError as error:  # its time zone is gone: it rests until somebody edits it
            Load.objects.filter(pk=pk).update(next_run_at=None, updated_at=now())
            return _not_now(row, error.message, said=said, tell=True)
        row.save(update_fields=["next_run_at", "updated_at"])
        if row.desired == Desired.STOPPED and row.stop_reason == StopReason.PAUSED:
            return _not_now(row, _("It is paused."), said=said)
        if row.is_active:
            return _not_now(row, _("The run before it was not over."), said=said)
        try:
            with transaction.atomic():
                _start(row)
        except BerthError as error:
            return _not_now(row, error.message, said=said, tell=True)
    return True


def _start(row: Load) -> None:
    who = Principal(user=row.owner)
    require(who, row.project, Permission.LOAD_CREATE)
    require_runnable(who, row)
    row.schedule_note = ""
    begin(who, row, task=Task.LOAD, scheduled=True)
    changed(row)


def _not_now(row: Load, sentence: str, *, said: str, tell: bool = False) -> bool:
    """Say why nothing started; the same reason is told to people once, not each time."""
    Load.objects.filter(pk=row.pk).update(schedule_note=sentence[:300])
    if tell and said != sentence[:300]:
        events.record(
            actor=None,
            verb="load.not-started",
            target=row,
            project_uid=row.project.uid,
            message=sentence,
        )
        tell_not_started(row, sentence)
    return False
