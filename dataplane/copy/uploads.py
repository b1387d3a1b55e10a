"""Sending files: what both kinds of store have in common."""

from __future__ import annotations

import asyncio
import os
from typing import NamedTuple, Protocol

from dataplane.copy.engine import Engine
from dataplane.copy.http1 import Connection
from dataplane.copy.journal import Partial, mtime_of
from dataplane.copy.problems import Code, Trouble
from dataplane.copy.stores.gcs import Gcs
from dataplane.copy.stores.s3 import S3

SMALL = 16 * 1024 * 1024  # is sent at one go
BLOCK = 256 * 1024
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


class Uploader(Protocol):
    async def send(self, local: Local, fd: int) -> None:
        """Send a file, or begin to; ``fd`` is closed when that is over."""

    async def delete(self, key: str) -> None: ...

    async def abandon(self, key: str, upload: str) -> bool:
        """Give up what the store holds of an upload that will not go on; False: it still does."""

    async def close(self) -> None: ...


class Body:
    """Sends bytes ``start`` to ``end`` of a file between what comes before and after."""

    def __init__(
        self,
        engine: Engine,
        fd: int,
        start: int,
        end: int,
        around: tuple[bytes, bytes] = (b"", b""),
    ) -> None:
        self._engine = engine
        self._fd = fd
        self._start = start
        self._end = end
        self._around = around

    @property
    def length(self) -> int:
        return self._end - self._start + len(self._around[0]) + len(self._around[1])

    async def __call__(self, line: Connection) -> None:
        if self._around[0]:
            await line.send(self._around[0])
        at = self._start
        while at < self._end:
            if line.answered:  # refused before it had all: neither side can go on with this line
                line.reusable = False
                return
            block = os.pread(self._fd, min(BLOCK, self._end - at), at)
            if not block:
                line.reusable = False
                raise Trouble(Code.CHANGED, CHANGED)
            wait = self._engine.hands.bucket.take(len(block))
            if wait:
                await asyncio.sleep(wait)
            await line.send(block)
            self._engine.progress.read(len(block))
            at += len(block)
        if self._around[1]:
            await line.send(self._around[1])


def unchanged(local: Local, fd: int) -> None:
    """Raise when a file is not what it was when it was begun."""
    seen = os.fstat(fd)
    if (seen.st_size, mtime_of(seen)) != (local.size, local.mtime):
        raise Trouble(Code.CHANGED, CHANGED)


def open_uploader(engine: Engine, book: Book | None) -> Uploader:
    from dataplane.copy.upload_gcs import GcsUploader
    from dataplane.copy.upload_s3 import S3Uploader

    store = engine.calls.store
    if isinstance(store, Gcs):
        return GcsUploader(engine, store, book)
    if isinstance(store, S3):
        return S3Uploader(engine, store, book)
    raise TypeError
