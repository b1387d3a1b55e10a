"""Reading volumes. A home is private: others see that it is there and how large, not inside."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.utils.translation import gettext as _

from common.errors import NotFound
from projects.access import Permission, scoped
from volumes.models import Volume

if TYPE_CHECKING:
    from uuid import UUID

    from django.db.models import QuerySet

    from accounts.principal import Principal
    from projects.models import Project


def volumes_visible_to(who: Principal, project: Project | None = None) -> QuerySet[Volume]:
    """Return the volumes ``who`` may see, newest first, with project and owner joined."""
    rows = Volume.objects.filter(deleted_at__isnull=True).select_related("project", "owner")
    if project is not None:
        rows = rows.filter(project=project)
    return scoped(rows, who, Permission.VOLUME_READ).order_by("-id")


def volume_get(who: Principal, uid: UUID, project: Project | None = None) -> Volume:
    """Return one volume, or NotFound (the same for "not yours")."""
    volume = volumes_visible_to(who, project).filter(uid=uid).first()
    if volume is None:
        raise NotFound(_("There is no such volume, or you may not see it."))
    return volume
