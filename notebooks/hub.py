"""What the Hub side asks about workspaces: who they are and who may open them now."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from django.conf import settings

from hubapi.registry import AccessLevel, WorkloadInfo, WorkloadLookup, workload_url
from hubapi.services import port_short_id, port_uid
from notebooks.models import Workspace
from projects.models import Membership
from runtime.protocol import Desired, Phase
from work.selectors import access_of

if TYPE_CHECKING:
    from collections.abc import Sequence
    from uuid import UUID

    from django.db.models import QuerySet

    from accounts.models import User


def open_url(row: Workspace) -> str:
    """Return what Open opens: JupyterLab, or the first port of a container; '' if there is none."""
    if not row.is_container:
        return workload_url(row.short_id)
    ports = row.web_ports
    return workload_url(port_short_id(row.short_id, ports[0]["port"])) if ports else ""


def info_of(row: Workspace) -> WorkloadInfo:
    page = row.get_absolute_url()
    return WorkloadInfo(
        uid=row.uid,
        kind=row.KIND,
        short_id=row.short_id,
        name=row.name,
        owner_pk=row.owner.pk,
        owner_uid=row.owner.uid,
        owner_username=row.owner.username,
        owner_label=row.owner.label,
        project_uid=row.project.uid,
        phase=Phase(row.phase),
        launch=row.launch,
        page_url=page,
        public_url=open_url(row) or f"{settings.BERTH_PUBLIC_URL}{page}",
        resume_url=f"{page}start/",
    )


def port_info_of(info: WorkloadInfo, port: int) -> WorkloadInfo:
    """Return one web port of a container as the Hub side sees it: a place of its own."""
    short_id = port_short_id(info.short_id, port)
    return replace(
        info,
        uid=port_uid(info.uid, port),
        parent=info.uid,
        short_id=short_id,
        public_url=workload_url(short_id),
    )


class WorkspaceLookup(WorkloadLookup):
    """Asks the database at every question: access that was taken away is gone at once."""

    def by_uid(self, uid: UUID) -> WorkloadInfo | None:
        row = _rows().filter(uid=uid).first()
        return None if row is None else info_of(row)

    def by_short_id(self, short_id: str) -> WorkloadInfo | None:
        row = _rows().filter(short_id=short_id).first()
        return None if row is None else info_of(row)

    def access(self, user: User, uid: UUID) -> AccessLevel:
        row = _rows().filter(uid=uid).first()
        if row is None:
            return AccessLevel.NONE
        access = access_of(user, row)
        if access.owner:
            return AccessLevel.OWNER
        return AccessLevel.VISITOR if access.visitor else AccessLevel.NONE

    def visitors(self, uid: UUID) -> Sequence[User]:
        row = _rows().filter(uid=uid).first()
        if row is None:
            return ()
        members = Membership.objects.filter(project=row.project_id).values("user_id")
        return list(row.visitors.filter(pk__in=members, is_active=True).order_by("username"))

    def beside(self, uid: UUID) -> Sequence[UUID]:
        row = _rows().filter(uid=uid).first()
        if row is None:
            return ()
        mine = _rows().filter(project=row.project_id, owner=row.owner_id)
        return list(mine.values_list("uid", flat=True))

    def openable_by(self, user: User) -> Sequence[WorkloadInfo]:
        """Running workspaces, own ones first, the one used last first."""
        rows = _rows().filter(phase=Phase.RUNNING, desired=Desired.RUNNING)
        own = list(rows.filter(owner=user).order_by("-last_used_at")[:50])
        shared = list(rows.filter(shares__user=user).order_by("-last_used_at")[:50])
        found = [row for row in (*own, *shared) if access_of(user, row)]
        return [info_of(row) for row in found]


def _rows() -> QuerySet[Workspace]:
    return Workspace.objects.filter(deleted_at__isnull=True).select_related("project", "owner")
