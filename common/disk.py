"""Whether the portal's own disk still has room (E18).

Short of it, nothing new begins while there is still enough for what runs: signing in, stopping,
reports of workspaces, the database's own journal. It is looked at anew each time, so all goes on
by itself as soon as there is room. A database on another machine says so itself.
"""

from __future__ import annotations

import shutil
from pathlib import Path

from django.conf import settings
from django.db import OperationalError
from django.utils.translation import gettext as _

from common.errors import BerthError

_FULL = ("database or disk is full", "no space left on device", "could not extend file")
_DISK_FULL = "53100"  # of PostgreSQL


class DiskFull(BerthError):  # noqa: N818 - what happened, like its neighbours
    """The disk of the portal, or of its database, has no room for anything new."""

    status = 507
    code = "disk-full"

    def __init__(self) -> None:
        super().__init__(
            _(
                "The portal's disk is full: nothing new can be begun or changed until an operator "
                "makes room. What runs goes on, and everything can be read, stopped and deleted."
            )
        )


def free_mib() -> int | None:
    """Return the room on the disk of the portal's data; None where it can't be asked."""
    try:
        return shutil.disk_usage(settings.BERTH_VAR).free // 2**20
    except OSError:
        return None


def is_short(*, coming: int = 0) -> bool:
    """Whether there is too little room, or would be with so many bytes more."""
    floor = settings.BERTH_DISK_FLOOR_MIB
    free = free_mib() if floor > 0 else None
    return free is not None and free - coming // 2**20 < floor


def holds(folder: Path) -> bool:
    """Whether a folder lies on the disk of the portal's data; one that can't be asked may."""
    try:
        return folder.stat().st_dev == Path(settings.BERTH_VAR).stat().st_dev
    except OSError:
        return True


def require_room() -> None:
    if is_short():
        raise DiskFull


def is_disk_full(error: BaseException) -> bool:
    """Whether the database could not write for want of room; what it had begun is undone."""
    if not isinstance(error, OperationalError):
        return False
    if getattr(error.__cause__, "sqlstate", None) == _DISK_FULL:
        return True
    return any(words in str(error).lower() for words in _FULL)
