"""From a store into the folder, one file at a time. Small ones are verified in memory."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from dataplane.copy import checksums
from dataplane.copy.checksums import CRCS, LENGTH, READ, Check, Update
from dataplane.copy.engine import Engine, stamp
from dataplane.copy.http1 import Connection, Head, number_of
from dataplane.copy.journal import Row, mtime_of
from dataplane.copy.lanes import FileSink, Lane, Span, write_all
from dataplane.copy.problems import Code, Trouble, trouble_of
from dataplane.copy.state import Ready
from dataplane.copy.stores.base import Item, Multipart, Store

_GOOD = frozenset({200, 206})
FOLLOW = 8 * 1024 * 1024  # it is woken for this much
SMALL = 64 * 1024  # is read, verified and written at one go
MEDIUM = 16 * 1024 * 1024  # is read in one piece
TRIES = 3  # for an object that changes, or a checksum that is wrong
NEW = os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC
_ANEW = frozenset({Code.CHECKSUM, Code.CHANGED, Code.LENGTH, Code.GONE})
WRONG_SUM = "What was read does not have the checksum that the store gives."


def check_head(store: Store, item: Item, head: Head, start: int, end: int) -> None:
    """Raise unless the answer is these bytes of exactly this state of the object."""
    fields = head.fields
    state = store.state_of(head)
    if item.etag and state and state != item.etag:
        raise Trouble(Code.CHANGED, "The object changed while it was copied.")
    length = fields.get("content-length", "")
    span = fields.get("content-range", "")
    whole = start == 0 and end == item.size
    if not whole and store.names_ranges and span.partition("/")[0] != f"bytes {start}-{end - 1}":
        raise NoRanges
    if number_of(length) not in {None, end - start}:
        raise Trouble(
            Code.LENGTH, f"The store sends {length} bytes, and {end - start} were asked for."
        )


class NoRanges(Trouble):
    """The store sends whole objects only."""

    def __init__(self) -> None:
        super().__init__(Code.IO, "The store does not send parts of objects.")


class Fetch:
    """Reads bytes ``start`` to ``end`` of an object into the same place of a file."""

    def __init__(self, engine: Engine, item: Item, fd: int, start: int, end: int) -> None:
        self._engine = engine
        self._item = item
        self._fd = fd
        self._start = start
        self._end = end
        self.sink: FileSink | None = None
        self._lane: Lane | None = None

    def into(self, line: Connection, head: Head) -> tuple[dict[str, Update], dict[str, int], Any]:
        """Say what is computed on the way: functions, values so far, a hasher or None."""
        raise NotImplementedError

    async def run(self) -> None:
        calls, item = self._engine.calls, self._item
        whole = self._start == 0 and self._end == item.size
        end = None if whole else self._end
        if owed := self._engine.hands.bucket.take(0):  # by bodies too short to be held back
            await asyncio.sleep(owed)
        with self._engine.hands.lane(self._end - self._start) as self._lane:
            await calls.once(
                lambda: calls.store.get_question(item, self._start, end),
                accept=self._accept,
                lane=self._lane,
            )

    def _accept(self, line: Connection, head: Head) -> FileSink | None:
        """Run where the body is read: in the lane, if there is one."""
        if head.status not in _GOOD:
            return None
        check_head(self._engine.calls.store, self._item, head, self._start, self._end)
        updates, crcs, hashing = self.into(line, head)
        hands = self._engine.hands
        scratch = hands.scratch if self._lane is None else self._lane.scratch
        self.sink = FileSink(
            hands,
            line,
            scratch,
            Span(self._fd, self._start, self._end - self._start),
            updates=updates,
            crcs=crcs,
            hashing=hashing,
        )
        return self.sink


class Follower:
    """Hashes a file in order while it grows; ``part``: in parts, as a multipart ETag is made."""

    def __init__(self, check: Check, fd: int, size: int, parts: Multipart | None) -> None:
        self.sure = parts is None or parts.sure
        part = parts.size if parts else 0
        self._check = check
        self._fd = fd
        self._size = size
        self._part = part
        self._name = "md5" if part else check.name
        self._hashing: Any = checksums.hasher("md5") if part else check.hasher()
        self._digests: list[bytes] = []
        self._at = 0
        self._running: asyncio.Future[None] | None = None
        self._ending = False  # one thread at a time

    @classmethod
    def of(cls, check: Check, parts: Multipart | None, fd: int, item: Item) -> Follower | None:
        if check.name in CRCS or check.name == LENGTH:
            return None
        return cls(check, fd, item.size, parts)

    def wake(self, engine: Engine, frontier: int) -> None:
        idle = self._running is None or self._running.done()
        if idle and not self._ending and frontier - self._at >= FOLLOW:
            loop = asyncio.get_running_loop()
            self._running = loop.run_in_executor(engine.hands.pool, self._go_on, frontier)

    async def rest(self) -> None:
        """Wait until no thread reads any more; none begins after that."""
        self._ending = True
        if self._running is not None:
            await asyncio.wait([self._running])

    async def matches(self, engine: Engine) -> bool:
        await self.rest()
        await engine.threaded(self._go_on, self._size)
        if not self._part:
            return self._check.of_results({}, self._hashing)
        self._digests.append(self._hashing.digest())
        whole = checksums.hasher("md5")
        whole.update(b"".join(self._digests))
        return f"{whole.hexdigest()}-{len(self._digests)}" == self._check.expected

    def _go_on(self, frontier: int) -> None:
        view = memoryview(bytearray(READ))
        while self._at < frontier:
            most = frontier - self._at
            if self._part:
                if self._at and self._at % self._part == 0:
                    self._digests.append(self._hashing.digest())
                    self._hashing = checksums.hasher(self._name)
                most = min(most, self._part - self._at % self._part)
            count = os.preadv(self._fd, [view[: min(most, READ)]], self._at)
            if not count:
                return
            self._hashing.update(view[:count])
            self._at += count


@dataclass(slots=True)
class Target:
    """One object and the path in the folder that it gets.

    ``same``: checksums (by name) that what lies there would have, if it were the same.
    """

    path: str
    item: Item
    same: dict[str, str] | None = None
    tries: int = 0


class Puller:
    """``large`` takes over what is larger than one piece."""

    def __init__(self, engine: Engine, large: Callable[[Target], Awaitable[None]]) -> None:
        self._engine = engine
        self._calls = engine.calls
        self._parts = engine.state.parts
        self._large = large

    async def take(self, target: Target) -> None:
        """Copy one object; what is wrong with it is named, and the run goes on."""
        while True:
            try:
                await self._take(target)
            except Trouble as trouble:
                if await self._again(target, trouble):
                    continue
            except OSError as error:
                self.give_up(target, trouble_of(error))
            return

    def give_up(self, target: Target, trouble: Trouble) -> None:
        with suppress(OSError):
            os.unlink(self._engine.state.temporary(target.path), dir_fd=self._parts.fd)
        self._engine.fails(target.item.key, trouble)

    async def _again(self, target: Target, trouble: Trouble) -> bool:
        """Whether to begin anew with this object, as it is now."""
        target.tries += 1
        if trouble.code in _ANEW and target.tries < TRIES:
            try:
                target.item = await self.described(target.item.key)
            except Trouble as worse:
                trouble = worse
            else:
                return True
        self.give_up(target, trouble)
        return False

    async def described(self, key: str) -> Item:
        """Ask the store what the object is now."""
        calls = self._calls
        return await calls.tried(lambda: calls.store.described(calls, key))

    async def _take(self, target: Target) -> None:
        if target.same and await self._is_same(target):
            return
        size = target.item.size
        if size <= MEDIUM:
            target.item = await self._calls.store.summed(self._calls, target.item)
        if size <= SMALL:
            item, calls = target.item, self._calls
            wait = self._engine.hands.bucket.take(item.size)
            if wait:
                await asyncio.sleep(wait)
            answer = await calls.tried(lambda: calls.once(lambda: calls.store.get_question(item)))
            # Nothing is awaited from here on: the body lies in the memory of its connection.
            head, body = answer
            self._engine.progress.read(len(body))
            check_head(calls.store, item, head, 0, item.size)
            if len(body) != item.size:
                raise Trouble(Code.LENGTH, f"{len(body)} bytes came instead of {item.size}.")
            crc = checksums.crc32c(body)
            check = Check.best(calls.store.sums(head, item))
            if not check.of_memory(body, crc):
                raise Trouble(Code.CHECKSUM, WRONG_SUM)
            fd = self._new(target)
            try:
                write_all(fd, body, 0)
                self.ready(target, fd, item, crc, check.name, durable=False)
            finally:
                os.close(fd)
        elif size <= MEDIUM:
            await self._calls.tried(lambda: self._medium(target))
        else:
            await self._large(target)
        if self._engine.settler.behind:
            await self._engine.not_too_far()

    async def _medium(self, target: Target) -> None:
        fd = self._new(target)
        try:
            fetch = _Whole(self._engine, target.item, fd, 0, target.item.size)
            await fetch.run()
            if fetch.sink is None or fetch.check is None:
                raise Trouble(Code.LENGTH, "Nothing came.")
            done, crcs = fetch.sink.mark
            if done != target.item.size:
                raise Trouble(Code.LENGTH, f"{done} bytes came instead of {target.item.size}.")
            if not fetch.check.of_results(crcs, fetch.hashing):
                raise Trouble(Code.CHECKSUM, WRONG_SUM)
            self.ready(target, fd, target.item, crcs["crc32c"], fetch.check.name, durable=False)
        finally:
            os.close(fd)

    def _new(self, target: Target) -> int:
        name = self._engine.state.temporary(target.path)
        return os.open(name, NEW, 0o666, dir_fd=self._parts.fd)

    def ready(
        self, target: Target, fd: int, item: Item, crc: int, verified: str, *, durable: bool
    ) -> None:
        """Hand a verified file over to get its name."""
        seen = stamp(fd, item.mtime)
        row = self._row(target, item, seen, checksums.text_of("crc32c", crc), verified)
        self._engine.settler.put(Ready(row, durable))

    async def _is_same(self, target: Target) -> bool:
        """Look whether what lies there is the object already; reading it here is cheap."""
        same, target.same = target.same or {}, None
        try:
            fd, seen = self._engine.state.folder.open_file(target.path)
        except OSError:
            return False
        try:
            names = tuple(same)
            found = await self._engine.threaded(checksums.of_file, fd, tuple({*names, "crc32c"}))
            seen = os.fstat(fd)
        finally:
            os.close(fd)
        item = target.item
        if seen.st_size != item.size or any(found[name] != same[name] for name in names):
            self._engine.room.need(item.size, seen.st_size)
            return False
        row = self._row(target, item, seen, found["crc32c"], names[0])
        self._engine.state.journal.put([row])
        self._engine.progress.unchanged += 1
        self._engine.progress.bytes_done += item.size
        return True

    def _row(
        self, target: Target, item: Item, seen: os.stat_result, crc32c: str, verified: str
    ) -> Row:
        return Row(
            target.path,
            item.key,
            item.size,
            item.etag,
            item.version,
            mtime_of(seen),
            seen.st_ino,
            crc32c,
            verified,
            self._engine.plan.launch,
        )


class _Whole(Fetch):
    """A whole object; its checksum is known when its head comes."""

    check: Check | None = None
    hashing: Any | None = None

    def into(self, _line: Connection, head: Head) -> tuple[dict[str, Update], dict[str, int], Any]:
        self.check = Check.best(self._engine.calls.store.sums(head, self._item))
        self.hashing = self.check.hasher()
        updates = self.check.updates()
        return updates, dict.fromkeys(updates, 0), self.hashing
