"""Cancelling a load; what else changes in one that is told to stop or to go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import transaction

from events import services as events
from loaders.choices import Result, StopReason
from loaders.services.uploads import COLUMNS, begin_closing
from projects.others import reason_for, tell_owner
from runtime.protocol import Desired
from work.services import workload_stop
from work.services.base import changed, lock, require_end

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from django.db.models import QuerySet

    from accounts.principal import Principal
    from loaders.models import Load

VERBS: Mapping[str, str] = {StopReason.PAUSED: "paused", StopReason.CANCELLED: "cancelled"}
NOTICES: Mapping[str, str] = {
    StopReason.PAUSED: "load.paused-by",
    StopReason.CANCELLED: "load.cancelled-by",
}
_RESULTS = {StopReason.PAUSED: Result.PAUSED, StopReason.CANCELLED: Result.CANCELLED}


@transaction.atomic
def load_cancel(*, principal: Principal, row: Load, said: str = "") -> Load:
    """End it for good, also what is paused. Files that are copied already stay where they are."""
    require_end(principal, row)
    row = lock(row)
    reason = StopReason.CANCELLED
    if row.desired == Desired.RUNNING:
        workload_stop(principal=principal, row=row, said=said, reason=reason)
    elif row.stop_reason != reason:
        said = reason_for(principal, row.owner, said)
        row.stop_reason = reason
        row.generation += 1
        if row.result == Result.PAUSED:
            row.result = Result.CANCELLED
            begin_closing(row)  # a run that still ends does it when it is seen to have ended
        row.save(update_fields=["stop_reason", "result", *COLUMNS, "updated_at"])
        events.record(
            actor=principal,
            verb="load.cancelled",
            target=row,
            project_uid=row.project.uid,
            message=said,
            data={"reason": reason.value},
        )
        tell_owner(principal, row.owner, NOTICES[reason], row, said)
        changed(row)
    return row


def stopping(row: Load, reason: str) -> Collection[str]:
    """Set what changes with the wish that it stops, or goes (""); return which columns."""
    if not reason:
        row.next_run_at = row.retry_at = None
        begin_closing(row)
    elif row.goes_on:  # nothing of it runs that could end so
        row.result = _RESULTS.get(StopReason(reason), Result.STOPPED)
        row.retry_at = None
        if reason == StopReason.CANCELLED:
            begin_closing(row)
    return ("next_run_at", "retry_at", "result", *COLUMNS)


def rest_schedules(rows: QuerySet[Any], reason: str) -> None:
    """Start none of them by its schedule any more, and say why."""
    note = str(StopReason(reason).label)[:300]
    rows.filter(next_run_at__isnull=False).update(next_run_at=None, schedule_note=note)
