"""Pause, cancel, delete; and what stops loads for people who did not ask."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import transaction
from django.utils.translation import gettext as _

from common.errors import Conflict, Invalid
from events import services as events
from loaders.choices import Result, StopReason
from loaders.models import Load
from loaders.selectors import RELATED
from loaders.services.base import changed, lock, require_end
from loaders.services.uploads import COLUMNS, begin_closing
from projects.others import reason_for, tell_owner
from runtime.protocol import Desired
from work import needs

if TYPE_CHECKING:
    from accounts.models import User
    from accounts.principal import Principal
    from projects.models import Project

_VERBS = {StopReason.PAUSED: "load.paused", StopReason.CANCELLED: "load.cancelled"}

_RESULTS = {StopReason.PAUSED: Result.PAUSED, StopReason.CANCELLED: Result.CANCELLED}


@transaction.atomic
def load_pause(*, principal: Principal, load: Load, said: str = "") -> Load:
    """Stop it where it is; resuming goes on there. What waits in line leaves the line.

    ``said`` is why, where it is somebody else's (``projects.others``).
    """
    require_end(principal, load)
    row = lock(load)
    said = reason_for(principal, row.owner, said)
    if row.desired == Desired.RUNNING and not row.is_on_its_way:
        raise Conflict(_("It is over: there is nothing to pause."), code="not-running")
    if row.desired == Desired.RUNNING:
        request_stop(row, reason=StopReason.PAUSED, actor=principal, said=said)
        tell_owner(principal, row.owner, "load.paused-by", row, said)
    return row


@transaction.atomic
def load_cancel(*, principal: Principal, load: Load, said: str = "") -> Load:
    """End it for good. Files that are copied already stay where they are."""
    require_end(principal, load)
    row = lock(load)
    said = reason_for(principal, row.owner, said)
    if row.desired == Desired.RUNNING:
        if not row.is_on_its_way:
            raise Conflict(_("It is over: there is nothing to cancel."), code="not-running")
        request_stop(row, reason=StopReason.CANCELLED, actor=principal, said=said)
    elif row.stop_reason != StopReason.CANCELLED:
        _cancel_paused(row, principal, said)
    else:
        return row
    tell_owner(principal, row.owner, "load.cancelled-by", row, said)
    return row


def _cancel_paused(row: Load, principal: Principal, said: str) -> None:
    row.stop_reason = StopReason.CANCELLED
    row.generation += 1
    if row.result == "paused":
        row.result = "cancelled"
        begin_closing(row)  # a run that still ends does it when it is seen to have ended
    row.save(update_fields=["stop_reason", "result", *COLUMNS, "updated_at"])
    _tell(row, StopReason.CANCELLED, principal, said)


def request_stop(row: Load, *, reason: StopReason, actor: Principal | None, said: str = "") -> bool:
    """Write the intent to stop; False when it was written before."""
    if row.desired != Desired.RUNNING:
        return False
    row.generation += 1
    row.stop_reason = reason
    if row.goes_on:  # nothing of it runs that could end so
        row.retry_at = None
        row.result = _RESULTS.get(reason, Result.STOPPED)
        if reason == StopReason.CANCELLED:
            begin_closing(row)
    row.desired = Desired.STOPPED
    row.save(
        update_fields=[*("desired", "stop_reason", "retry_at", "result"), *COLUMNS, "updated_at"]
    )
    _tell(row, reason, actor, said)
    return True


def _tell(row: Load, reason: StopReason, actor: Principal | None, said: str) -> None:
    events.record(
        actor=actor,
        verb=_VERBS.get(reason, "load.stopped"),
        target=row,
        project_uid=row.project.uid,
        message=said,
        data={"reason": reason.value},
    )
    needs.changed([row.uid])
    changed(row)


@transaction.atomic
def loads_stop_for(
    *,
    reason: StopReason,
    project: Project | None = None,
    owner: User | None = None,
    actor: Principal | None = None,
) -> int:
    """Stop all of a project, of a person, or of a person in a project, and their schedules.

    No right is checked: the caller is a service that already decided.
    """
    rows = Load.objects.filter(deleted_at__isnull=True).exclude(desired=Desired.ABSENT)
    if project is not None:
        rows = rows.filter(project=project)
    if owner is not None:
        rows = rows.filter(owner=owner)
    rows.filter(next_run_at__isnull=False).update(
        next_run_at=None, schedule_note=str(reason.label)[:300]
    )
    running = rows.filter(desired=Desired.RUNNING).select_for_update(of=("self",))
    found = [row for row in running.select_related(*RELATED) if row.is_active]
    return sum(request_stop(row, reason=reason, actor=actor) for row in found)


@transaction.atomic
def load_delete(
    *, principal: Principal, load: Load, typed_name: str | None = None, said: str = ""
) -> Load:
    """Ask for its removal. No data is deleted: neither in the volume nor in the store.

    ``typed_name`` None: the door itself is explicit (API, CLI).
    """
    require_end(principal, load)
    row = Load.objects.select_for_update(of=("self",)).select_related(*RELATED).get(pk=load.pk)
    if typed_name is not None and typed_name.strip() != row.name:
        message = _("This is not its name. Nothing was deleted.")
        raise Invalid(message, fields={"typed_name": [message]})
    said = reason_for(principal, row.owner, said)
    if request_delete(row, actor=principal, said=said):
        tell_owner(principal, row.owner, "work.deleted", row, said)
    return row


def request_delete(row: Load, *, actor: Principal | None, said: str = "") -> bool:
    """Write the intent to remove; False when it was written before."""
    if row.desired == Desired.ABSENT:
        return False
    row.desired = Desired.ABSENT
    row.generation += 1
    row.next_run_at = row.retry_at = None
    begin_closing(row)
    row.save(update_fields=["desired", "next_run_at", "retry_at", *COLUMNS, "updated_at"])
    events.record(
        actor=actor, verb="load.deleted", target=row, project_uid=row.project.uid, message=said
    )
    needs.changed([row.uid])
    changed(row)
    return True


@transaction.atomic
def loads_request_delete(*, actor: Principal | None, project: Project) -> int:
    """Ask for the removal of all loads of a project that is being deleted."""
    rows = Load.objects.select_for_update(of=("self",)).select_related(*RELATED)
    rows = rows.filter(project=project, deleted_at__isnull=True)
    return sum(request_delete(row, actor=actor) for row in rows)
