"""The way back of work that was parked: a ticket keeps what it held, and since when it waits."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from django.conf import settings

from common.clock import now
from work.choices import Void
from work.models import Ticket

if TYPE_CHECKING:
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
