"""What volumes can do: be made, grow, be measured, copied and handed on."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from runtime.protocol import Denied, NotYet
from runtime.spec import Backing, Placement


@dataclass(frozen=True)
class Measured:
    """What a volume takes on its storage; ``whole`` False: at least so much."""

    bytes: int
    whole: bool = True
    seconds: float = 0.0  # that it took to find out


class Growing(NotYet):
    """A volume that is there and can be used, but is not yet as large as was asked."""


class CannotGrow(Denied):
    """A volume that is there and can be used, and stays as large as it is."""

    def __init__(self, message: str, *, size_mib: int) -> None:
        super().__init__(message)
        self.size_mib = size_mib


@runtime_checkable
class SupportsVolumes(Protocol):
    def ensure_volume(
        self, volume_uid: str, *, project: str, owner: str, backing: Backing | None = None
    ) -> None:
        """Make it exist with this size; an ``owner`` "" shares it among the project's members.

        NotYet while it is being made, Growing while it is made larger, CannotGrow when that is
        refused.
        """

    def remove_volume(self, volume_uid: str) -> None: ...

    def volume_usage(self, volume_uid: str) -> int | None:
        """Bytes used, None = unknown."""


@runtime_checkable
class SupportsGrowth(Protocol):
    """Where some volumes can't be made larger later. Without it all of them can."""

    def can_grow(self, backing: Backing) -> bool:
        """Tell what is known beforehand; what is not counts as yes."""


@runtime_checkable
class SupportsMeasuring(Protocol):
    """Sizes that a program beside the data finds out, which takes its time."""

    def measure_volume(self, volume_uid: str, placement: Placement) -> Measured | None:
        """Begin, or look how far it is: NotYet while under way. None: it can't be told now.

        ``placement``: where the program may run, if not beside what has the volume.
        """

    def end_measuring(self, volume_uid: str) -> None:
        """Let go of the volume. Missing is success."""


@runtime_checkable
class SupportsSnapshots(Protocol):
    """Copies of a volume at one moment. Every verb may be repeated; NotYet while under way."""

    def can_snapshot(self, backing: Backing) -> bool: ...

    def ensure_snapshot(self, snapshot_uid: str, *, volume_uid: str, backing: Backing) -> int:
        """Make it once; return its size in bytes (0: unknown)."""

    def restore_snapshot(self, snapshot_uid: str, *, volume_uid: str, backing: Backing) -> None:
        """Put its contents in place of the volume's. Nothing may use the volume meanwhile."""

    def remove_snapshot(self, snapshot_uid: str, *, volume_uid: str, backing: Backing) -> None: ...


@runtime_checkable
class SupportsMoves(Protocol):
    """Handing a volume to another project with its files, where what it lies on allows that."""

    def can_move(self, backing: Backing) -> bool: ...

    def move_volume(self, volume_uid: str, *, project: str, owner: str, backing: Backing) -> None:
        """Give it to ``project``; nothing uses it meanwhile. May be repeated; NotYet under way."""
