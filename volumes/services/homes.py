"""Volumes that nobody asks for: a home for each person, a shared one for each project."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import structlog
from django.db import IntegrityError, transaction
from django.db.models import Exists, OuterRef

from accounts.models import User
from clusters.models import Cluster
from clusters.usable import usable_clusters
from common.clock import now
from common.errors import BerthError
from projects.choices import Role
from projects.models import Membership, Project, ProjectPlace
from runtime.models import ONE_MACHINE
from runtime.protocol import Desired, Phase
from volumes.choices import VolumeKind
from volumes.models import Volume
from volumes.services.base import reserve, tell
from volumes.services.classes import default_class

if TYPE_CHECKING:
    from accounts.principal import Principal
    from volumes.models import VolumeClass

log = structlog.get_logger(__name__)

SHARED = "shared"
RESERVED = frozenset({"home", SHARED})  # names of folders that are there unasked
REPAIRED = 200  # projects in one turn


def home_find(*, project: Project, owner: User, cluster_key: str) -> Volume | None:
    """Return the home of ``owner`` in ``project`` on a cluster, where there is one."""
    return _live(project, cluster_key, {"kind": VolumeKind.HOME, "owner": owner})


def home_ensure(
    *,
    principal: Principal | None,
    project: Project,
    owner: User,
    cluster_key: str = ONE_MACHINE,
) -> Volume:
    """Return the home of ``owner`` in ``project`` on a cluster; the first call makes the row."""
    existing = home_find(project=project, owner=owner, cluster_key=cluster_key)
    if existing is not None:
        return existing
    wanted: dict[str, Any] = {"kind": VolumeKind.HOME, "owner": owner}
    name = f"home-{owner.username}"[:63]
    return _make(principal, project, cluster_key, {**wanted, "name": name}, payer=owner)


def project_volume_ensure(
    *, principal: Principal | None, project: Project, cluster_key: str = ONE_MACHINE
) -> Volume:
    """Return the volume that the project's members share there; the first call makes the row."""
    existing = _live(project, cluster_key, {"kind": VolumeKind.PROJECT})
    if existing is not None:
        return existing
    payer = principal.user if principal else _first_owner(project)
    wanted = {"kind": VolumeKind.PROJECT, "name": SHARED}
    return _make(principal, project, cluster_key, wanted, payer=payer)


def project_volumes_ensure(project: Project, principal: Principal | None = None) -> None:
    """Make the shared volume of a new project on every single machine that it may use.

    On clusters it is made with the first place there (``volumes.rules``).
    """
    for cluster in usable_clusters(project.uid):
        if not cluster.runs_images:
            project_volume_try(project, cluster.key, principal)


def project_volume_try(
    project: Project, cluster_key: str, principal: Principal | None = None
) -> bool:
    """Make it where limits leave room for it. Nobody waits for a volume that nobody asked for:
    a project without one gets it later, from housekeeping.
    """
    try:
        project_volume_ensure(principal=principal, project=project, cluster_key=cluster_key)
    except BerthError as error:
        log.info("volumes.shared_refused", project=str(project.uid), error=error.message)
        return False
    return True


def shared_volumes_repair() -> int:
    """Make shared volumes that are missing: of projects from before there were any.

    A safety net for periodic housekeeping; returns how many were made.
    """
    made = 0
    for cluster in Cluster.objects.filter(enabled=True):
        shared = Volume.objects.filter(
            project=OuterRef("pk"),
            cluster_key=cluster.key,
            kind=VolumeKind.PROJECT,
            deleted_at__isnull=True,
        )
        rows = Project.objects.filter(
            ~Exists(shared),
            desired=Desired.RUNNING,
            deleted_at__isnull=True,
            archived_at__isnull=True,
        )
        if cluster.runs_images:
            there = ProjectPlace.objects.filter(
                project=OuterRef("pk"),
                cluster_key=cluster.key,
                phase=Phase.RUNNING,
                deleted_at=None,
            )
            rows = rows.filter(Exists(there))
        for project in rows.order_by("pk")[:REPAIRED]:
            made += _repair(project, cluster.key)
    return made


def _repair(project: Project, cluster_key: str) -> int:
    if cluster_key not in {cluster.key for cluster in usable_clusters(project.uid)}:
        return 0
    return int(project_volume_try(project, cluster_key))


def _make(
    principal: Principal | None,
    project: Project,
    cluster_key: str,
    wanted: dict[str, Any],
    *,
    payer: User | None,
) -> Volume:
    chosen = default_class(cluster_key)
    size = chosen.default_size_mib if chosen else None
    try:
        with transaction.atomic():
            volume = Volume.objects.create(
                project=project,
                cluster_key=cluster_key,
                volume_class=chosen,
                size_limit_mib=size,
                phase_since=now(),
                **backing_columns(chosen),
                **wanted,
            )
            if size is not None and payer is not None:
                reserve(principal, project=project, payer=payer, uid=volume.uid, size_mib=size)
            tell(principal, "volume.created", volume)
    except IntegrityError:  # somebody else made it at the same moment
        wanted.pop("name")
        raced = _live(project, cluster_key, wanted)
        if raced is None:
            raise
        return raced
    return volume


def backing_columns(chosen: VolumeClass | None) -> dict[str, Any]:
    """Return what a new volume keeps of its class for good."""
    if chosen is None:
        return {"backing_kind": "", "backing_options": {}}
    return {"backing_kind": chosen.backing_kind, "backing_options": dict(chosen.options)}


def _first_owner(project: Project) -> User | None:
    found = (
        Membership.objects.filter(project=project, role=Role.OWNER)
        .select_related("user")
        .order_by("pk")
        .first()
    )
    return found.user if found else None


def _live(project: Project, cluster_key: str, wanted: dict[str, Any]) -> Volume | None:
    return Volume.objects.filter(
        project=project, cluster_key=cluster_key, deleted_at__isnull=True, **wanted
    ).first()
