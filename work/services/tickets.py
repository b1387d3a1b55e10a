"""The way back of work that was parked: a ticket keeps what it held, and since when it waits."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.utils.translation import gettext as _

from common.clock import now
from placement.clusters import known_cluster
from queues.standing import is_guaranteed
from work.choices import Void
from work.models import Ticket

if TYPE_CHECKING:
    from datetime import datetime

    from accounts.models import User
    from projects.models import Project
    from work.models import Workload


def issue_ticket(row: Workload) -> None:
    """Keep what a workload holds that is being parked; one without GPUs keeps what it has."""
    if not row.gpus:
        return
    at = now()
    Ticket.objects.update_or_create(
        workload_id=row.pk,
        used_at=None,
        void="",
        defaults={
            "gpus": row.gpus,
            "gpu_flavor": row.gpu_flavor,
            "parked_at": at,
            "valid_until": at + timedelta(days=settings.BERTH_RETURN_TICKET_DAYS),
        },
    )


def void_tickets(
    kind: str, reason: str, *, project: Project | None = None, owner: User | None = None
) -> None:
    """Void what a project that is archived had, or a person who left or was disabled."""
    rows = Ticket.objects.filter(workload__kind=kind, used_at=None, void="")
    if project is not None:
        rows = rows.filter(workload__project=project)
    if owner is not None:
        rows = rows.filter(workload__owner=owner)
    if reason in Void.values:
        rows.update(void=reason)


def ticket_of(row: Workload) -> Ticket | None:
    """Return the ticket that nobody has used yet."""
    return Ticket.objects.filter(workload_id=row.pk, used_at=None, void="").first()


def why_void(ticket: Ticket, row: Any) -> str:
    """Return why a ticket is of no use to what a row asks for now (a word of ``Void``); '': it is.

    What is over its guarantee was lent, and is asked for like all that is lent.
    """
    if ticket.valid_until <= now():
        return Void.EXPIRED
    if row.gpus > ticket.gpus or row.gpu_flavor != ticket.gpu_flavor:
        return Void.LARGER
    cluster = known_cluster(row.cluster_key)
    if cluster.runs_images:
        return Void.ELSEWHERE
    if not is_guaranteed(cluster, str(row.project.uid), row.resources):
        return Void.LOWERED
    return ""


def ticket_use(row: Any) -> datetime | None:
    """Use the ticket of a locked row that asks for GPUs; return as of when it stands in line.

    It is used once. What waits by one, and starts anew with no more than that, keeps its place.
    """
    if not row.gpus:
        return None
    ticket = ticket_of(row)
    if ticket is None:
        if row.ticket_at is None or not (row.is_waiting or row.is_held_back):
            return None
        used = Ticket.objects.filter(workload_id=row.pk, parked_at=row.ticket_at).first()
        return None if used is None or why_void(used, row) else used.parked_at
    row.just_void = ticket.void = why_void(ticket, row)
    ticket.used_at = None if ticket.void else now()
    ticket.save(update_fields=["void", "used_at"])
    return None if ticket.void else ticket.parked_at


def ticket_return(row: Any) -> None:
    """Give the ticket back of one that leaves the line: it has got nothing for it."""
    if row.ticket_at is not None and (row.is_waiting or row.is_held_back):
        used = Ticket.objects.filter(workload_id=row.pk, parked_at=row.ticket_at, void="")
        used.update(used_at=None)


def ticket_note(row: Any) -> str:
    """Return what the timeline says of a ticket that did not count."""
    if not row.just_void:
        return ""
    return _("It stands in line like all others: %(why)s") % {"why": Void(row.just_void).label}
