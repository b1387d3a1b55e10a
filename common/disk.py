"""Whether the portal's own disk still has room (E18).

Short of it, nothing new begins while there is still enough for what runs: signing in, stopping,
reports of workspaces, the database's own journal. It is looked at anew each time, so all goes on
by itself as soon as there is room. A database on another machine says so itself.

What others write to the same disk asks nobody and takes the last byte. So room is held in files of
our own while there is some (the reserve), and given back piece by piece when a write would fail:
signing in, stopping and deleting need no free space.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from pathlib import Path

from django.conf import settings
from django.db import OperationalError, connection
from django.utils.translation import gettext as _

from common.errors import BerthError

_FULL = ("database or disk is full", "no space left on device", "could not extend file")
_DISK_FULL = "53100"  # of PostgreSQL
_MIB = 2**20
# Of the reserve is given back at once: more than a request and the journal behind it write. Whoever
# still fills the disk takes what is left of a piece, and never all at once.
_PIECE_MIB = 8


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
        return shutil.disk_usage(settings.BERTH_VAR).free // _MIB
    except OSError:
        return None


def is_short(*, coming: int = 0) -> bool:
    """Whether there is too little room, or would be with so many bytes more."""
    floor = settings.BERTH_DISK_FLOOR_MIB
    free = free_mib() if floor > 0 else None
    return free is not None and free - coming // _MIB < floor


def keep_reserve() -> None:
    """Take what lacks of the reserve while the disk has more room than the floor."""
    give_back()
    pieces = settings.BERTH_DISK_RESERVE_MIB // _PIECE_MIB
    if pieces <= 0 or connection.vendor != "sqlite":
        return  # a database elsewhere needs no room here
    with suppress(OSError):  # full between the look and the file: another time
        folder = _reserve()
        folder.mkdir(mode=0o700, exist_ok=True)
        for number in range(pieces):
            piece = folder / str(number)
            free = free_mib()
            if free is None or free < settings.BERTH_DISK_FLOOR_MIB + 2 * _PIECE_MIB:
                return
            if not piece.exists():
                _take(piece)


def give_back() -> bool:
    """Free a piece of the reserve where the disk has less room than that; True when it did."""
    free = free_mib()
    if free is None or free >= _PIECE_MIB:
        return False
    for piece in sorted(_reserve().glob("*")):
        with suppress(FileNotFoundError):  # somebody beside us was faster: theirs is for them
            piece.unlink()
            return True
    return False


def _reserve() -> Path:
    return Path(settings.BERTH_VAR) / "reserve"


def _take(piece: Path) -> None:
    """Allocate the blocks now; a file system that can't is written to."""
    fd = os.open(piece, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        os.posix_fallocate(fd, 0, _PIECE_MIB * _MIB)
    except OSError:
        piece.unlink(missing_ok=True)
        raise
    finally:
        os.close(fd)


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
