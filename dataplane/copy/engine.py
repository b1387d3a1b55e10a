"""What the parts of one run share."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from dataplane.copy.calls import Calls
from dataplane.copy.journal import MOST, NS
from dataplane.copy.lanes import Hands
from dataplane.copy.pace import Work, until_done
from dataplane.copy.plan import Plan
from dataplane.copy.problems import Code, Final, Stop, Trouble
from dataplane.copy.progress import Progress
from dataplane.copy.state import Settler, State

T = TypeVar("T")
KEEP_FREE = 1 << 20  # for the journal


class Room:
    """How much may still be written. Asked before a file is begun, from the listing on."""

    def __init__(self, state: State, limit: int | None) -> None:
        held = sum(
            entry.stat(follow_symlinks=False).st_blocks * 512 for entry in state.parts.entries()
        )
        self._free = max(0, state.room() - KEEP_FREE) + held
        self._limit = limit
        self.needed = 0

    def need(self, size: int, replaced: int = 0) -> None:
        """Reserve room for one file; raise when all files together would not fit."""
        self.needed += max(0, size - replaced)
        if self._limit is not None and self.needed > self._limit:
            raise Stop(Final.QUOTA, self._text("may still be used here", self._limit))
        if self.needed > self._free:
            raise Stop(Final.DISK_FULL, self._text("are free on the volume", self._free))

    def _text(self, what: str, have: int) -> str:
        needed, there = size_text(self.needed), size_text(have)
        return f"There is not enough room: at least {needed} are needed, and {there} {what}."


def size_text(size: int) -> str:
    """Return a size for people: ``1.5 GiB``."""
    value = float(size)
    for unit in ("bytes", "KiB", "MiB", "GiB"):
        if value < 1024:  # noqa: PLR2004
            return f"{value:.0f} {unit}" if unit == "bytes" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def would(progress: Progress, files: int, size: int, seconds: float | None) -> Stop:
    """Return what a dry run found."""
    text = f"{files} files ({size_text(size)}) would be copied"
    if seconds is None:
        pass
    elif seconds < 90:  # noqa: PLR2004
        text += f", in about {max(1, round(seconds))} seconds"
    elif seconds < 5400:  # noqa: PLR2004
        text += f", in about {round(seconds / 60)} minutes"
    else:
        text += f", in about {seconds / 3600:.1f} hours"
    text += f"; {progress.unchanged} are there already."
    bad = progress.failed + progress.skipped
    if bad:
        return Stop(Final.PARTIAL, f"{text} {bad} can't be copied and are named.")
    return Stop(Final.DONE, text)


@dataclass
class Engine:
    plan: Plan
    state: State
    progress: Progress
    calls: Calls
    hands: Hands
    settler: Settler
    room: Room
    gaps: bool = False  # a part of the store could not be listed
    files: list[tuple[str, int]] = field(default_factory=list)  # that the last report names
    work: Work = field(default_factory=Work)

    def fails(self, key: str, trouble: Trouble, *, again: bool = True) -> None:
        """Name a file that is not copied, now and for a later retry of the failed ones."""
        again = again and trouble.code is not Code.BAD_KEY
        self.progress.fails(key, trouble.code, trouble.message)
        try:
            self.state.journal.fail(key, trouble.code, trouble.message, again=again)
        except UnicodeEncodeError:
            self.state.journal.fail(ascii(key), trouble.code, trouble.message, again=False)

    def page(self, count: int) -> None:
        """A page of the store's listing came."""
        self.progress.log.again("page", f"a page of the listing: {count:,} objects")

    async def threaded(self, act: Callable[..., T], *values: Any) -> T:
        """Do something slow in a thread; its file descriptors are ours until it ended."""
        future = asyncio.get_running_loop().run_in_executor(self.hands.pool, act, *values)
        if await until_done(future):
            raise asyncio.CancelledError
        return future.result()

    async def not_too_far(self) -> None:
        """Wait while files are read faster than they can be settled."""
        while self.settler.behind and self.settler.stopped is None:  # noqa: ASYNC110 - a thread
            await asyncio.sleep(0.02)


def stamp(fd: int, mtime: int) -> os.stat_result:
    """Give a file the time of its object and return what it is now."""
    if mtime > 0:
        at = min(mtime * NS, MOST)  # a store may say any year
        os.utime(fd, ns=(at, at))
    return os.fstat(fd)
