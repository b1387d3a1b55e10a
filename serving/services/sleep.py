"""Sleep and wake: an endpoint that nobody calls gives all it holds back until somebody does."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from django.db import transaction
from django.db.models import Exists, Max, OuterRef, Q
from django.utils.translation import gettext as _

from accounts.principal import Principal
from common.clock import now
from common.errors import BerthError, Conflict, Forbidden, LimitExceeded, NotFound
from runtime.protocol import Desired, Phase
from serving.choices import Files, State
from serving.gateway.tallies import some_gateway_tells
from serving.models import Endpoint
from serving.selectors import pressed
from serving.services.base import for_each
from serving.states import STATES, failed_says, stopped_says
from work.choices import StopReason
from work.services.base import locked, require_end
from work.services.ending import request_stop, workload_stop
from work.services.launch import launch_again

if TYPE_CHECKING:
    from datetime import datetime

COUNTED_WITHIN = timedelta(seconds=10)  # what was called is in the rows


def endpoints_sleep() -> int:
    """Let those sleep that nobody called for as long as they say; return how many.

    A request that comes at this very moment wakes it again: nothing is refused. Nothing sleeps
    while no gateway tells what it carries.
    """
    at = now()
    busy = pressed(at)
    rows = Endpoint.objects.filter(
        desired=Desired.RUNNING,
        phase=Phase.RUNNING,
        sleep_after_minutes__gt=0,
        canary_of=None,
        promoting=False,
        deleted_at=None,
    ).filter(Q(version=None) | Q(version__files=Files.THERE))  # else nothing would wake it
    rows = rows.exclude(Exists(busy.filter(endpoint=OuterRef("pk"))))
    rows = rows.exclude(Exists(busy.filter(endpoint__canary_of=OuterRef("pk"))))
    rows = rows.annotate(called_beside=Max("canaries__called_at"))
    due = [row for row in rows if _is_due(row, row.called_beside, at)]
    if not due or not some_gateway_tells(at):
        return 0
    return for_each(due, _sleep)


def _is_due(row: Endpoint, called_beside: datetime | None, at: datetime) -> bool:
    if row.ready_at is None:
        return False
    quiet_since = max(filter(None, [row.ready_at, row.called_at, called_beside]))
    return at - quiet_since >= timedelta(minutes=row.sleep_after_minutes) + COUNTED_WITHIN


@transaction.atomic
def _sleep(found: Endpoint) -> bool:
    """Look again under the lock: it may have been called, or changed, a moment ago."""
    row = locked(found)
    if row.phase != Phase.RUNNING or row.promoting or not row.sleep_after_minutes:
        return False
    at = now()
    of_it = Q(endpoint=row) | Q(endpoint__canary_of=row)
    beside = row.canaries.aggregate(called_at=Max("called_at"))["called_at"]
    if not _is_due(row, beside, at) or pressed(at).filter(of_it).exists():
        return False
    return request_stop(row, reason=StopReason.ASLEEP, actor=None)


@transaction.atomic
def endpoint_sleep(*, principal: Principal, row: Endpoint, said: str = "") -> Endpoint:
    """Put it to sleep for a person, whatever it was told of when. What it is asked meanwhile is
    answered, and the next request wakes it.
    """
    require_end(principal, row)
    found: Endpoint = locked(row)
    if found.promoting:
        raise Conflict(_("Its canary is being promoted: wait, or roll back."), code="promoting")
    if STATES.of(found) != State.READY:
        raise Conflict(_("It does not answer now: there is nothing to put to sleep."))
    stopped: Endpoint = workload_stop(
        principal=principal, row=found, said=said, reason=StopReason.ASLEEP
    )
    return stopped


def endpoint_wake(pk: int) -> str:
    """Launch one that sleeps, for a request of somebody who may call it.

    Any number at once make one launch. It begins with the rights, limits and budgets that its
    owner has now. Returns why it can't; "" where it is on its way or answers.
    """
    found = Endpoint.objects.select_related("canary_of").filter(pk=pk, deleted_at=None).first()
    if found is None:
        return _("There is no such endpoint any more.")
    found = found.canary_of or found
    try:
        with transaction.atomic():
            row = locked(found)
            if row.desired == Desired.STOPPED and row.stop_reason == StopReason.ASLEEP:
                launch_again(principal=Principal(row.owner), row=row, cause="called")
                Endpoint.objects.filter(pk=row.pk).update(scaling_problem="")
                return ""
    except BerthError as error:
        for_callers, for_its_page = _why_not(found, error)
        Endpoint.objects.filter(pk=found.pk).update(scaling_problem=for_its_page[:500])
        return for_callers
    if row.desired != Desired.RUNNING:
        return stopped_says(row)
    return failed_says(row) if STATES.of(row) == State.FAILED else ""


def _why_not(row: Endpoint, error: BerthError) -> tuple[str, str]:
    """Return what its callers read, which names no person, volume or cluster, and what its page
    says.
    """
    if isinstance(error, Forbidden | NotFound):
        said = _(
            "%(owner)s may not run it here any more. Whoever manages the project gives that right "
            "back, or takes it over."
        )
        name = row.owner.label
        return _("Its owner may not run it here any more."), said % {"owner": name}
    if isinstance(error, LimitExceeded):
        return _("A limit of its project or its owner is reached."), str(error)
    return _("It can't start now; its page says why."), str(error)
