"""Stop and delete, by a person or by what happened to a person or a project."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.db.models import F, Q
from django.utils.text import format_lazy
from django.utils.translation import gettext as _

from common.clock import now
from common.errors import Conflict, Invalid
from events import services as events
from notifications.services import notify_owner
from projects.others import reason_for, tell_owner
from runtime.protocol import Desired, Phase
from work import kinds
from work.choices import StopReason
from work.services.base import changed, lock, locked, require_end, step
from work.services.tickets import ticket_return, void_tickets

if TYPE_CHECKING:
    from collections.abc import Iterable

    from django.db.models import QuerySet

    from accounts.models import User
    from accounts.principal import Principal
    from projects.models import Project
    from work.kinds import Kind
    from work.models import Workload

# What ran to its end, or failed, in the launch that is wanted: nothing of it is there to stop.
OVER = Q(phase__in=[Phase.STOPPED, Phase.FAILED], observed_generation__gte=F("generation"))
_STOPPED = ("desired", "generation", "stop_reason", "stop_requested_at", "ends_at", "updated_at")
_GOES = ("desired", "generation", "ends_at", "stop_requested_at", "updated_at")


@transaction.atomic
def workload_stop(*, principal: Principal, row: Workload, said: str = "", reason: str = "") -> Any:
    """Ask it to stop; its settings and address stay. A second time changes nothing.

    ``said`` is why, where it is somebody else's (``projects.others``). ``reason``: a word of its
    kind, where it is not the usual one.
    """
    kind = kinds.kind_of(row.kind)
    require_end(principal, row)
    row = lock(row)
    said = reason_for(principal, row.owner, said)
    if kind.is_over(row):
        raise Conflict(_("It is over: there is nothing to stop."), code="not-running")
    reason = reason or (kind.asked_by(principal, row) if kind.asked_by else kind.asked)
    request_stop(row, reason=reason, actor=principal, said=said)
    return row


def request_stop(row: Any, *, reason: str, actor: Principal | None, said: str = "") -> bool:
    """Write the intent to stop; False when it was written before, or it has run to its end."""
    kind = kinds.kind_of(row.kind)
    ends_rest = kind.is_resting(row) and reason not in kind.rests
    if not (row.desired == Desired.RUNNING or ends_rest) or kind.is_over(row):
        return False
    own = kind.stopping(row, reason) if kind.stopping else ()
    ticket_return(row)
    row.desired = Desired.STOPPED
    row.generation += 1
    row.stop_reason = reason
    row.stop_requested_at = now()
    row.ends_at = None
    row.save(update_fields=(*_STOPPED, *own))
    label = str(kind.stop_reasons(reason).label)
    step(row, "stop-asked", f"{label}: {said}" if said else label)
    usual = "parked" if reason == StopReason.PARKED else "stopped"
    events.record(
        actor=actor,
        verb=f"{kind.word}.{kind.stopped.get(reason, usual)}",
        target=row,
        project_uid=row.project.uid,
        message=said,
        data={"reason": reason},
    )
    if reason == StopReason.PARKED:
        if actor is None:
            notify_owner(row, "work.parked")
        elif actor.user.pk != row.owner_id:
            _tell_stopped(kind, row, actor, said)
    elif reason in kind.stop_notices:
        if actor is not None:
            tell_owner(actor, row.owner, kind.stop_notices[reason], row, said)
    elif actor is None or actor.user.pk != row.owner_id or reason != kind.asked:
        _tell_stopped(kind, row, actor, said)
    changed(row)
    return True


def _tell_stopped(kind: Kind, row: Any, by: Principal | None, said: str) -> None:
    if not kind.stop_notice or row.phase in {Phase.STOPPED, Phase.FAILED}:
        return
    reason: Any = kind.stop_reasons(row.stop_reason).label
    if by is not None and said:
        reason = format_lazy("{} ({}: {})", reason, by.user.label, said)
    notify_owner(row, kind.stop_notice, reason=reason)


@transaction.atomic
def workloads_stop_for(
    *,
    reason: str,
    project: Project | None = None,
    owner: User | None = None,
    actor: Principal | None = None,
    of: Iterable[Kind] | None = None,
) -> int:
    """Stop all of a project, of a person, or of a person in a project, of every kind.

    No right is checked: the caller is a service that already decided (archive, disabled account,
    lost membership).
    """
    done = 0
    for kind in kinds.kinds() if of is None else of:
        rows = _all_of(kind).exclude(desired=Desired.ABSENT)
        if project is not None:
            rows = rows.filter(project=project)
        if owner is not None:
            rows = rows.filter(owner=owner)
        if kind.rest is not None:
            kind.rest(rows, reason)
        rests = Q(desired=Desired.STOPPED, stop_reason__in=kind.rests)  # a call would go on with it
        rows = rows.filter(Q(desired=Desired.RUNNING) | rests)
        if kind.alive is not None:
            rows = rows.filter(kind.alive)
        elif kind.once:
            rows = rows.exclude(OVER)
        shown = rows if kind.hidden is None else rows.exclude(kind.hidden)
        done += sum(request_stop(row, reason=reason, actor=actor) for row in shown)
        if kind.hidden is not None:  # those that did not go with what they belong to
            for row in rows.filter(kind.hidden):
                request_stop(row, reason=reason, actor=actor)
        # last: who waited by a ticket gets it back from the stop
        void_tickets(kind.word, reason, project=project, owner=owner)
    return done


@transaction.atomic
def workload_delete(
    *, principal: Principal, row: Workload, typed_name: str | None = None, said: str = ""
) -> Any:
    """Ask for its removal. ``typed_name`` None: the door itself is explicit (API, CLI).

    ``said`` is why, where it is somebody else's (``projects.others``).
    """
    require_end(principal, row)
    found = locked(row)
    if typed_name is not None and typed_name.strip() != found.name:
        message = _("This is not its name. Nothing was deleted.")
        raise Invalid(message, fields={"typed_name": [message]})
    said = reason_for(principal, found.owner, said)
    if request_delete(found, actor=principal, said=said):
        tell_owner(principal, found.owner, "work.deleted", found, said)
    return found


def request_delete(row: Any, *, actor: Principal | None, said: str = "") -> bool:
    """Write the intent to remove; False when it was written before."""
    if row.desired == Desired.ABSENT:
        return False
    row.desired = Desired.ABSENT
    row.generation += 1
    row.ends_at = None
    row.stop_requested_at = row.stop_requested_at or now()
    kind = kinds.kind_of(row.kind)
    own = kind.stopping(row, "") if kind.stopping else ()
    row.save(update_fields=[*_GOES, *own])
    row.shares.all().delete()
    events.record(
        actor=actor,
        verb=f"{row.kind}.deleted",
        target=row,
        project_uid=row.project.uid,
        message=said,
    )
    changed(row)
    return True


@transaction.atomic
def workloads_request_delete(*, actor: Principal | None, project: Project) -> int:
    """Ask for the removal of all of a project that is being deleted, of every kind."""
    rows = (row for kind in kinds.kinds() for row in _all_of(kind).filter(project=project))
    return sum(request_delete(row, actor=actor) for row in rows)


def _all_of(kind: Kind) -> QuerySet[Any]:
    rows = kind.model.objects.select_for_update(of=("self",)).select_related("project", "owner")
    found: QuerySet[Any] = rows.filter(deleted_at__isnull=True)
    return found
