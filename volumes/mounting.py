"""How a volume is given to a workload. Everything here is chosen by the platform (C8)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.protocol import Backing, Mount

if TYPE_CHECKING:
    from volumes.models import Volume


def backing_of(volume: Volume) -> Backing:
    """Return what it lies on; it was laid down when the volume was made."""
    return Backing(
        kind=volume.backing_kind,
        options=dict(volume.backing_options),
        size_mib=volume.size_limit_mib,
    )


def owner_of(volume: Volume) -> str:
    """Return the uid of whose it is, "" when the project's members share it."""
    return str(volume.owner.uid) if volume.owner else ""


def mount_of(volume: Volume, *, read_only: bool = False, role: str = "data") -> Mount:
    return Mount(
        volume_uid=str(volume.uid),
        role=role,
        read_only=read_only,
        name=volume.mount_name,
        owner=owner_of(volume),
        backing=backing_of(volume),
    )
