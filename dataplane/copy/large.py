"""Large objects: in pieces at once, into a file of full length; every piece goes on after a kill.

CRCs are computed while reading and combined. MD5 and SHA can't be, so a follower reads the file
again, in order, just behind what has arrived: from memory, and in a thread of its own.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from dataplane.copy import checksums
from dataplane.copy.checksums import CRCS, LENGTH, MULTIPART, READ, Check, Update, combine
from dataplane.copy.engine import Engine
from dataplane.copy.http1 import Connection, Head
from dataplane.copy.journal import Partial
from dataplane.copy.problems import Code, Stop, Trouble, trouble_of
from dataplane.copy.pull import TRIES, WRONG_SUM, Fetch, Follower, NoRanges, Puller, Target
from dataplane.copy.stores.base import Item, Multipart

PIECES = 32
PIECE_LEAST, PIECE_MOST = 16 * 1024 * 1024, 128 * 1024 * 1024
SAVE_LEAST = 4 * 1024 * 1024
OPEN = os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_TMPFS = 0x01021994
_libc = ctypes.CDLL(None, use_errno=True)


@dataclass
class Piece:
    """Bytes ``start`` to ``end``; ``done`` of them are in the file, with these CRCs."""

    start: int
    end: int
    done: int = 0
    crcs: dict[str, int] = field(default_factory=dict)
    fetch: Fetch | None = None
    saved: int = 0

    def mark(self) -> tuple[int, dict[str, int]]:
        """Return how far it is now, with what is just being read."""
        sink = self.fetch.sink if self.fetch is not None else None
        if sink is None:
            return self.done, self.crcs
        count, crcs = sink.mark
        return self.done + count, crcs

    def settle(self) -> None:
        """Keep what the last answer brought."""
        self.done, self.crcs = self.mark()
        self.fetch = None


@dataclass
class Large:
    """One large object on its way."""

    target: Target
    item: Item
    check: Check
    fd: int
    pieces: list[Piece]
    follower: Follower | None
    left: int = 0
    trouble: Trouble | None = None

    def frontier(self) -> int:
        """Return how far the file is complete from its start."""
        for piece in self.pieces:
            done, _ = piece.mark()
            if done < piece.end - piece.start:
                return piece.start + done
        return self.item.size

    def crc(self, name: str) -> int:
        total = 0
        for piece in self.pieces:
            total = combine(name, total, piece.crcs[name], piece.end - piece.start)
        return total


class Larges:
    """All large objects on their way; ``tick`` saves how far they are.

    ``puller`` begins with them, and names what is complete.
    """

    puller: Puller

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._calls = engine.calls
        self._open: dict[str, Large] = {}
        self._ranges = True

    # --- beginning --------------------------------------------------------------------------

    async def take(self, target: Target) -> None:
        """Open a large object and give its pieces to the crew."""
        item, check, parts = await self._described(target)
        fd = os.open(
            self._engine.state.temporary(target.path),
            OPEN,
            0o666,
            dir_fd=self._engine.state.parts.fd,
        )
        try:
            pieces = await self._engine.threaded(self._prepare, target, item, check, fd)
        except BaseException:
            os.close(fd)
            raise
        follower = Follower.of(check, parts, fd, item)
        large = Large(target, item, check, fd, pieces, follower)
        self._open[target.path] = large
        todo = [piece for piece in pieces if piece.done < piece.end - piece.start]
        large.left = len(todo)
        if not todo:
            large.left = 1
            await self._ended(large)
            return
        self._engine.work.put_first([partial(self.fetch, large, piece) for piece in todo])

    async def _described(self, target: Target) -> tuple[Item, Check, Multipart | None]:
        item = target.item
        if Check.best(item.sums).name not in CRCS:
            item = await self.puller.described(item.key)
            item = await self._calls.store.summed(self._calls, item)
            self._engine.progress.bytes_found += item.size - target.item.size
            target.item = item
        check = Check.best(item.sums)
        parts = None
        if check.name == LENGTH:
            parts = await self._calls.store.multipart(self._calls, item)
            if parts is not None:
                check = Check(MULTIPART, item.etag)
        return item, check, parts

    def _prepare(self, target: Target, item: Item, check: Check, fd: int) -> list[Piece]:
        """In a thread: take up what an earlier run left, or reserve room for the whole."""
        names = list(check.updates())
        journal, path = self._engine.state.journal, target.path
        known = journal.partial(path)
        size = os.fstat(fd).st_size
        if known is not None and self._ranges:
            partial, marks = known
            if (partial.etag, partial.size, size) == (item.etag, item.size, item.size):
                pieces = _pieces(item.size, partial.piece, names)
                for piece in pieces:
                    _take_up(fd, piece, marks.get(piece.start), names)
                return pieces
        os.ftruncate(fd, 0)
        _reserve(fd, item.size)
        piece_size = item.size
        if self._ranges:
            rounded = -(-item.size // (PIECES * READ)) * READ
            piece_size = min(max(rounded, PIECE_LEAST), PIECE_MOST)
        journal.begin(Partial(path, item.key, item.size, item.etag, piece_size))
        return _pieces(item.size, piece_size, names)

    # --- pieces -----------------------------------------------------------------------------

    async def fetch(self, large: Large, piece: Piece) -> None:
        try:
            if large.trouble is None:
                await self._fetch(large, piece)
        except Trouble as trouble:
            if isinstance(trouble, NoRanges):
                self._ranges = False
            large.trouble = large.trouble or trouble
        await self._ended(large)

    async def _fetch(self, large: Large, piece: Piece) -> None:
        backoff = self._calls.client.backoff()
        while piece.done < piece.end - piece.start and large.trouble is None:
            before = piece.done
            start = piece.start + piece.done
            if not self._ranges:
                piece.done, start = 0, piece.start
                piece.crcs = dict.fromkeys(piece.crcs, 0)
            piece.fetch = _Piece(self._engine, large.item, large.fd, start, piece.end)
            piece.fetch.crcs = piece.crcs
            try:
                await piece.fetch.run()
            except Trouble as trouble:
                piece.settle()
                if piece.done > before:
                    backoff.fresh()
                await self._calls.after(trouble, backoff)
            except Stop as order:
                raise self._calls.client.stop(order) from None
            finally:
                piece.settle()

    async def _ended(self, large: Large) -> None:
        """A piece ended; the last one completes the file, or gives it up."""
        large.left -= 1
        if large.left:
            return
        try:
            if large.trouble is None:
                await self._complete(large)
        except Trouble as trouble:
            large.trouble = trouble
        except OSError as error:
            large.trouble = trouble_of(error)
        finally:
            self._open.pop(large.target.path, None)
            if large.follower is not None:
                await large.follower.rest()
            os.close(large.fd)
        if large.trouble is not None:
            await self._anew(large, large.trouble)

    async def _complete(self, large: Large) -> None:
        name = large.check.name
        if large.follower is not None:
            if not await large.follower.matches(self._engine):
                if large.follower.sure:
                    raise Trouble(Code.CHECKSUM, WRONG_SUM)
                name = LENGTH
        elif large.check.name in CRCS:
            found = checksums.text_of(large.check.name, large.crc(large.check.name))
            if found != large.check.expected:
                raise Trouble(Code.CHECKSUM, WRONG_SUM)
        await self._engine.threaded(os.fsync, large.fd)
        crc = large.crc("crc32c")
        self.puller.ready(large.target, large.fd, large.item, crc, name, durable=True)

    async def _anew(self, large: Large, trouble: Trouble) -> None:
        """Begin again where the object changed or came out wrong; else name it."""
        target = large.target
        if trouble.code in {Code.CHECKSUM, Code.CHANGED} or isinstance(trouble, NoRanges):
            self._engine.state.journal.finish(target.path)
            target.tries += 1
            if target.tries < TRIES:
                self._engine.work.put_first([lambda: self.puller.take(target)])
                return
        if trouble.again:  # what came is kept for the next run
            self._engine.fails(target.item.key, trouble)
        else:
            self._engine.state.journal.finish(target.path)
            self.puller.give_up(target, trouble)

    # --- beside -----------------------------------------------------------------------------

    def tick(self) -> None:
        """Save how far each piece is, and wake the followers."""
        rows = []
        for path, large in self._open.items():
            for piece in large.pieces:
                done, crcs = piece.mark()
                if done != piece.saved:
                    piece.saved = done
                    rows.append((path, piece.start, done, json.dumps(crcs)))
            if large.follower is not None:
                large.follower.wake(self._engine, large.frontier())
        if rows:
            self._engine.state.journal.pieces(rows)

    @property
    def worth_saving(self) -> int:
        """Return how many bytes may be read again after a kill: a little of all there is."""
        return max(SAVE_LEAST, self._engine.progress.bytes_found // 1000)

    def unsaved(self) -> int:
        """Return how many bytes a kill would make us read again."""
        return sum(
            piece.mark()[0] - piece.saved for large in self._open.values() for piece in large.pieces
        )

    async def close(self) -> None:
        """Save what there is; called when nobody reads any more."""
        self.tick()
        for large in self._open.values():
            if large.follower is not None:
                await large.follower.rest()
            os.close(large.fd)
        self._open.clear()


class _Piece(Fetch):
    crcs: dict[str, int]

    def into(self, _line: Connection, _head: Head) -> tuple[dict[str, Update], dict[str, int], Any]:
        return {name: checksums.updater(name) for name in self.crcs}, self.crcs, None


def _pieces(size: int, piece: int, names: list[str]) -> list[Piece]:
    return [
        Piece(start, min(start + piece, size), crcs=dict.fromkeys(names, 0))
        for start in range(0, size, piece)
    ]


def _take_up(fd: int, piece: Piece, mark: tuple[int, str] | None, names: list[str]) -> None:
    """Believe what the file has, not what was noted: memory that was never written may be lost."""
    if mark is None:
        return
    done, noted = mark[0], json.loads(mark[1])
    if set(noted) < set(names) or done > piece.end - piece.start:
        return
    view, at, crcs = memoryview(bytearray(READ)), piece.start, dict.fromkeys(names, 0)
    updates = {name: checksums.updater(name) for name in names}
    while at < piece.start + done:
        count = os.preadv(fd, [view[: min(READ, piece.start + done - at)]], at)
        if not count:
            return
        for name, update in updates.items():
            crcs[name] = update(view[:count], crcs[name])
        at += count
    if all(crcs[name] == noted[name] for name in names):
        piece.done, piece.saved, piece.crcs = done, done, crcs


def _reserve(fd: int, size: int) -> None:
    """Take the room now where the file system can, so that a full disk shows at the start.

    In memory that costs as much as writing, and nothing is laid out better by it.
    """
    about = (ctypes.c_long * 64)()
    if _libc.fstatfs(fd, about) == 0 and about[0] == _TMPFS:
        os.ftruncate(fd, size)
        return
    if _libc.fallocate(fd, 0, ctypes.c_longlong(0), ctypes.c_longlong(size)):
        number = ctypes.get_errno()
        if number in {errno.ENOSPC, errno.EDQUOT}:
            os.ftruncate(fd, 0)
            raise OSError(number, os.strerror(number))
    os.ftruncate(fd, size)
