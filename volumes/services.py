"""Writing intent of volumes. The reconciler makes the folder; nothing here touches a disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db import IntegrityError, transaction
from django.db.models import F

from common.clock import now
from events import services as events
from projects.access import Permission, require
from runtime.hints import hint
from runtime.protocol import Desired
from volumes.choices import VolumeKind
from volumes.models import Volume

if TYPE_CHECKING:
    from accounts.models import User
    from accounts.principal import Principal
    from projects.models import Project

LOCAL = "local"


def home_ensure(
    *,
    principal: Principal | None,
    project: Project,
    owner: User,
    cluster_key: str = LOCAL,
) -> Volume:
    """Return the home of ``owner`` in ``project`` on a cluster; the first call makes the row."""
    existing = _home(project, owner, cluster_key)
    if existing is not None:
        return existing
    try:
        with transaction.atomic():
            volume = Volume.objects.create(
                project=project,
                owner=owner,
                cluster_key=cluster_key,
                kind=VolumeKind.HOME,
                name=f"home-{owner.username}"[:63],
                phase_since=now(),
            )
    except IntegrityError:  # somebody else made it at the same moment
        raced = _home(project, owner, cluster_key)
        if raced is None:
            raise
        return raced
    events.record(actor=principal, verb="volume.created", target=volume, project_uid=project.uid)
    hint(volume)
    return volume


@transaction.atomic
def volume_set_limit(*, principal: Principal, volume: Volume, size_limit_mib: int | None) -> Volume:
    """Change the size limit. Below what is used is allowed: nothing is deleted, it only shows."""
    require(principal, volume.project, Permission.VOLUME_MANAGE)
    row = Volume.objects.select_for_update().get(pk=volume.pk)
    if row.size_limit_mib == size_limit_mib:
        return row
    row.size_limit_mib = size_limit_mib
    row.generation = row.generation + 1
    row.save(update_fields=["size_limit_mib", "generation", "updated_at"])
    events.record(
        actor=principal,
        verb="volume.limited",
        target=row,
        project_uid=row.project.uid,
        data={"size_limit_mib": size_limit_mib},
    )
    hint(row)
    return row


@transaction.atomic
def volumes_request_delete(*, actor: Principal | None, project: Project) -> int:
    """Ask for the removal of every volume of a project that is being deleted."""
    rows = list(
        Volume.objects.select_for_update().filter(
            project=project, deleted_at__isnull=True, delete_requested_at__isnull=True
        )
    )
    for row in rows:
        Volume.objects.filter(pk=row.pk).update(
            desired=Desired.ABSENT, delete_requested_at=now(), generation=F("generation") + 1
        )
        row.refresh_from_db()
        events.record(
            actor=actor, verb="volume.delete-requested", target=row, project_uid=project.uid
        )
        hint(row)
    return len(rows)


def _home(project: Project, owner: User, cluster_key: str) -> Volume | None:
    return Volume.objects.filter(
        project=project,
        owner=owner,
        cluster_key=cluster_key,
        kind=VolumeKind.HOME,
        deleted_at__isnull=True,
    ).first()
