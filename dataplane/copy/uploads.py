"""Sending files: what both kinds of store have in common."""

from __future__ import annotations

import io
import os
from typing import Any, NamedTuple, Protocol

from dataplane.copy.engine import Engine
from dataplane.copy.journal import Partial, mtime_of
from dataplane.copy.problems import Code, Trouble

SMALL = 16 * 1024 * 1024  # is sent at one go
CHANGED = "The file changed while it was copied."
WRONG = "The store has something else than what was sent."


class Local(NamedTuple):
    """One file of the folder and the key that it gets. ``mtime`` in nanoseconds."""

    path: str
    key: str
    size: int
    mtime: int
    inode: int

    @property
    def state(self) -> str:
        """Return what tells this content from a later one under the same path."""
        return f"{self.mtime}:{self.inode}"

    def is_of(self, partial: Partial) -> bool:
        """Whether an upload that was begun is of this very content."""
        begun = (partial.key, partial.size, partial.etag)
        return begun == (self.key, self.size, self.state)


class Sent(NamedTuple):
    """What the store says that it has now."""

    etag: str
    version: str
    crc32c: str
    verified: str


class Book(Protocol):
    """Who is told how it went."""

    def sent(self, local: Local, sent: Sent) -> None: ...

    def failed(self, local: Local, trouble: Trouble) -> None: ...


class Nobody:
    """A book in which nothing is written: an upload is only given up."""

    def sent(self, local: Local, sent: Sent) -> None: ...

    def failed(self, local: Local, trouble: Trouble) -> None: ...


class Uploader:
    """Sends files to one store; ``book`` None: uploads are only given up."""

    def __init__(self, engine: Engine, book: Book | None) -> None:
        self._engine = engine
        self._calls = engine.calls
        self._book = book or Nobody()

    async def send(self, local: Local, fd: int) -> None:
        """Send a file, or begin to; ``fd`` is closed when that is over."""
        raise NotImplementedError

    async def delete(self, key: str) -> None:
        raise NotImplementedError

    async def abandon(self, key: str, upload: str) -> bool:
        """Give up what the store holds of an upload that will not go on; False: it still does."""
        raise NotImplementedError

    async def close(self) -> None:
        """Let go of files that are open."""


class Slice(io.RawIOBase):
    """Bytes ``start`` to ``end`` of an open file, as a library reads them, in a thread."""

    def __init__(self, engine: Engine, fd: int, start: int, end: int) -> None:
        self._engine = engine
        self._fd = fd
        self._start = start
        self._end = end
        self._at = start

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        base = {os.SEEK_SET: self._start, os.SEEK_CUR: self._at, os.SEEK_END: self._end}[whence]
        self._at = base + offset
        return self.tell()

    def tell(self) -> int:
        return self._at - self._start

    def readinto(self, memory: Any) -> int:
        view = memoryview(memory)[: max(0, self._end - self._at)]
        count = os.preadv(self._fd, [view], self._at) if view else 0
        if view and not count:
            raise Trouble(Code.CHANGED, CHANGED)
        self._at += count
        return count

    def went(self, count: int) -> float:
        """Count what was sent; return how many seconds to wait before the next."""
        self._engine.progress.read(count)
        return self._engine.hands.bucket.take(count)


def unchanged(local: Local, fd: int) -> None:
    """Raise when a file is not what it was when it was begun."""
    seen = os.fstat(fd)
    if (seen.st_size, mtime_of(seen)) != (local.size, local.mtime):
        raise Trouble(Code.CHANGED, CHANGED)
