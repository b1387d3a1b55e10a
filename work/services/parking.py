"""Parking: what idles gives its GPUs back and may go on where it was. Nothing of it is deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.utils.translation import gettext as _

from common.errors import Conflict
from projects.others import reason_for
from work import kinds
from work.choices import StopReason
from work.services.base import lock, locked, require_end
from work.services.edit import workload_edit
from work.services.ending import request_stop
from work.services.tickets import issue_ticket, ticket_return
from work.standard_fields import GPU_FLAVOR

if TYPE_CHECKING:
    from accounts.principal import Principal
    from work.models import Workload


@transaction.atomic
def workload_park(*, principal: Principal, row: Workload, said: str = "") -> Any:
    """Park it for a person. ``said`` is why, where it is somebody else's (``projects.others``)."""
    require_end(principal, row)
    found = lock(row)
    said = reason_for(principal, found.owner, said)
    if not park(found, actor=principal, note=said):
        raise Conflict(_("It does not run: there is nothing to park."), code="not-running")
    found.refresh_from_db()
    return found


@transaction.atomic
def park(
    row: Workload,
    *,
    actor: Principal | None,
    reason: str = StopReason.PARKED,
    note: str = "",
) -> bool:
    """Park it: it is told why and until when, as one whose GPUs are asked back, then it ends.

    No right is checked: the caller has decided. False: it was told to end before, has ended, or
    is of a kind that is never parked. What held GPUs keeps a ticket for its way back; what only
    waited for them does not.
    """
    found = locked(row)
    kind = kinds.kind_of(found.kind)
    if reason not in kind.stop_reasons.values or not found.is_on_its_way:
        return False
    held = not found.is_waiting and not found.is_held_back
    if not request_stop(found, reason=reason, actor=actor, said=note):
        return False
    if held:
        issue_ticket(found)
    return True


def workload_start_plain(*, principal: Principal, row: Workload) -> Any:
    """Go on at once without GPUs, at the same address; what it asked for stays as a wish.

    So does its ticket. One that waits for GPUs leaves the line.
    """

    def keep_wish(found: Any) -> None:
        if not found.gpus:
            raise Conflict(_("It asks for no GPU: start it as it is."), code="no-gpus")
        if found.is_on_its_way and not (found.is_waiting or found.is_held_back):
            raise Conflict(_("It has its GPUs already."), code="running")
        ticket_return(found)
        found.wish_gpus, found.wish_flavor = found.gpus, found.gpu_flavor

    return workload_edit(
        principal=principal, row=row, said={"gpus": 0}, start=True, check=keep_wish
    )


def workload_regain(*, principal: Principal, row: Workload) -> Any:
    """Ask for the GPUs again that it went on without, by its ticket; one that runs restarts."""
    before = row.wish_gpus, row.wish_flavor

    def same_wish(found: Any) -> None:
        if not found.wish_gpus or (found.wish_gpus, found.wish_flavor) != before:
            raise Conflict(_("It has no GPUs to get back."), code="no-wish")

    same_wish(row)
    said = {"gpus": row.wish_gpus, GPU_FLAVOR.name: row.wish_flavor}
    return workload_edit(principal=principal, row=row, said=said, start=True, check=same_wish)
