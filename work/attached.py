"""What a workload is given, as it is: volumes, credentials, work that must be done first."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from projects.access import Permission, permissions_of
from volumes import selectors as volumes
from volumes.choices import VolumeKind
from work.models import Workload

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from accounts.principal import Principal
    from credentials.models import Credential
    from projects.models import Project
    from volumes.models import Volume

# What is attached; each is resolved to a row that its owner may use.
ATTACHED = ("volumes", "credentials", "needs")
MOST = 20  # of each
READ_ONLY = ":ro"


@dataclass(frozen=True)
class Seen:
    """A volume as a workload sees it."""

    volume: Volume
    read_only: bool

    def said(self) -> dict[str, Any]:
        return {"volume": self.volume.name, "read_only": self.read_only}


@dataclass(frozen=True)
class Attached:
    """Everything that is attached; ``with_shared``: the project's volume by itself."""

    volumes: tuple[Seen, ...] = ()
    credentials: tuple[Credential, ...] = ()
    needs: tuple[Workload, ...] = ()
    with_shared: bool = False  # decided by nobody: made with the workload

    def public(self) -> dict[str, list[Any]]:
        """Return it as a form, a file and the API say it."""
        return {
            "volumes": [seen.said() for seen in self.volumes],
            "credentials": [row.name for row in self.credentials],
            "needs": [row.name for row in self.needs],
        }

    def detailed(self) -> dict[str, list[dict[str, Any]]]:
        """Return it with what tells the rows apart, for the answer about one workload."""
        return {
            "volumes": [
                {"id": seen.volume.uid, "name": seen.volume.name, "read_only": seen.read_only}
                for seen in self.volumes
            ],
            "credentials": [{"id": row.uid, "name": row.name} for row in self.credentials],
            "needs": [{"id": row.uid, "name": row.name} for row in self.needs],
        }


def attached_to(row: Workload) -> Attached:
    """Return what is attached now, in three queries."""
    return Attached(
        volumes=volumes_seen_by(row),
        credentials=credentials_of(row),
        needs=tuple(
            Workload.objects.filter(needed_by__workload=row).order_by(
                "needed_by__position", "needed_by__id"
            )
        ),
    )


def volumes_seen_by(row: Workload) -> tuple[Seen, ...]:
    mounts = row.mounts.select_related("volume__volume_class", "volume__project", "volume__owner")
    return tuple(Seen(mount.volume, mount.read_only) for mount in mounts)


def credentials_of(row: Workload) -> tuple[Credential, ...]:
    return tuple(key.credential for key in row.keys.select_related("credential"))


def mountable(
    principal: Principal, project: Project, cluster_key: str | None = None
) -> QuerySet[Volume]:
    """Return what may be seen besides a home of one's own; others' are not for mounting."""
    rows = volumes.volumes_mountable(principal, project, cluster_key)
    return rows.exclude(kind=VolumeKind.HOME)


def attached_usually(
    principal: Principal, project: Project, cluster_key: str | None = None
) -> Attached:
    """Return what a new one sees of which nothing is said: the project's own volume."""
    if Permission.VOLUME_USE not in permissions_of(principal, project):
        return Attached()
    shared = volumes.project_volume_of(principal, project, cluster_key)
    if shared is None:
        return Attached(with_shared=True)
    return Attached(volumes=(as_allowed(principal, shared, read_only=None),))


def as_allowed(principal: Principal, row: Volume, *, read_only: bool | None) -> Seen:
    """Look at it as it was said; where nothing was said, write as far as one may."""
    if read_only is None:
        read_only = row.is_full or not volumes.may_write(principal, row)
    volumes.require_for_use(principal, row, write=not read_only)
    return Seen(row, read_only)


def volume_word(text: str) -> tuple[str, bool | None]:
    """Return the volume that ``data`` or ``data:ro`` names; None: written to as far as allowed."""
    name = text.removesuffix(READ_ONLY)
    return name, True if name != text else None
