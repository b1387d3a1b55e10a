"""Reading webhooks: those that somebody may manage, and what was sent to one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _

from common.errors import NotFound
from notifications.kinds import KINDS, Kind, text_of
from projects.access import Permission, scoped
from webhooks.models import Delivery, Webhook

if TYPE_CHECKING:
    from uuid import UUID

    from django.db.models import QuerySet

    from accounts.principal import Principal
    from projects.models import Project


def webhooks_of(who: Principal, project: Project | None) -> QuerySet[Webhook]:
    """Return a project's, or (None) one's own; the sealed column is never loaded."""
    rows = Webhook.objects.select_related("project", "user").defer("sealed").order_by("name", "id")
    if project is None:
        return rows.filter(project__isnull=True, user=who.user)
    return scoped(rows.filter(project=project), who, Permission.WEBHOOK_MANAGE)


def webhook_get(who: Principal, uid: UUID, project: Project | None) -> Webhook:
    row = webhooks_of(who, project).filter(uid=uid).first()
    if row is None:
        raise NotFound(_("There is no such webhook."))
    return row


def deliveries_of(row: Webhook) -> QuerySet[Delivery]:
    """Return what was sent or will be, the newest first."""
    return Delivery.objects.filter(webhook=row).order_by("-id")


def kinds_for(project: Any) -> list[Kind]:
    """Return what a webhook can hear of: of a project, or (None) of a person."""
    return [k for k in KINDS.values() if k.is_for_people and (project is None or k.is_of_projects)]


def text_for(row: Delivery) -> str:
    return text_of(row.kind, row.params)
