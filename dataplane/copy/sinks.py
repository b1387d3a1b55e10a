"""Where a body goes: to the file at once, or into blocks that threads write and hash."""

from __future__ import annotations

import asyncio
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from dataplane.copy.checksums import Update
from dataplane.copy.pace import Bucket
from dataplane.copy.problems import Final, Stop, Trouble, of_os
from dataplane.copy.progress import Progress
from dataplane.copy.wire import Line

BLOCK = 512 * 1024
SCRATCH = 256 * 1024  # stays in the cache of a core
SPARE = 3.0  # cores, from which threads gain more than they cost


class Hands:
    """Threads that write and hash, and the blocks that they empty."""

    def __init__(self, bucket: Bucket, progress: Progress) -> None:
        self.progress = progress
        has = cores()
        self.pool = ThreadPoolExecutor(min(8, int(has) + 2), "hands")
        self.direct = has < SPARE  # the store's end, the network and we share what there is
        self.scratch = memoryview(bytearray(SCRATCH))
        self.bucket = bucket
        self._blocks: list[memoryview] = []

    def block(self) -> memoryview:
        return self._blocks.pop() if self._blocks else memoryview(bytearray(BLOCK))

    def give_back(self, block: memoryview) -> None:
        if len(self._blocks) < 64:  # noqa: PLR2004 - 32 MiB
            self._blocks.append(block)

    def close(self) -> None:
        self.pool.shutdown(wait=True, cancel_futures=True)


class Sink:
    """Where a body goes. ``mark`` is (bytes in the file, CRCs over them): both of one moment."""

    def __init__(self, hands: Hands, line: Line, crcs: dict[str, int]) -> None:
        self.mark: tuple[int, dict[str, int]] = (0, dict(crcs))
        self._hands = hands
        self._line: Line | None = line  # until the body is complete; then it is another's
        self._loop = asyncio.get_running_loop()
        self._paced: asyncio.TimerHandle | None = None

    def room(self) -> memoryview:
        raise NotImplementedError

    def took(self, count: int) -> None:
        raise NotImplementedError

    async def finish(self) -> None:
        """Wait until everything that came is in the file; raise what went wrong there."""
        self._leave()

    def _count(self, count: int) -> None:
        self._hands.progress.bytes_read += count
        wait = self._hands.bucket.take(count)
        if wait and self._paced is None and self._line is not None:
            self._line.pause()
            self._paced = self._loop.call_later(wait, self._unpace)

    def _unpace(self) -> None:
        self._paced = None
        self._unpause()

    def _unpause(self) -> None:
        if self._line is not None and self._paced is None and self._ready():
            self._line.resume()

    def _ready(self) -> bool:
        return True

    def _leave(self) -> None:
        if self._paced is not None:
            self._paced.cancel()
        if self._line is not None:
            self._line.resume()
            self._line = None


class DirectSink(Sink):
    """Sums and writes what came at once, while it is in the processor's cache.

    The cheapest for each byte. One core carries a little over 1 GB/s so.
    """

    def __init__(
        self,
        hands: Hands,
        line: Line,
        fd: int,
        offset: int,
        *,
        updates: dict[str, Update],
        crcs: dict[str, int],
    ) -> None:
        super().__init__(hands, line, crcs)
        self._fd = fd
        self._offset = offset
        self._updates = updates

    def room(self) -> memoryview:
        return self._hands.scratch  # one for all: it is empty again before anybody else reads

    def took(self, count: int) -> None:
        piece = self._hands.scratch[:count]
        done, crcs = self.mark
        try:
            _write_all(self._fd, piece, self._offset + done)
        except OSError as error:
            raise of_os(error) from None
        fresh = {name: update(piece, crcs[name]) for name, update in self._updates.items()}
        self.mark = (done + count, fresh)
        self._count(count)


class FileSink(Sink):
    """Reads into one block while a thread writes and hashes another: where cores are to spare."""

    def __init__(
        self,
        hands: Hands,
        line: Line,
        fd: int,
        offset: int,
        *,
        updates: dict[str, Update],
        crcs: dict[str, int],
        hashers: tuple[Any, ...] = (),
    ) -> None:
        super().__init__(hands, line, crcs)
        self._fd = fd
        self._offset = offset
        self._updates = updates
        self._hashers = hashers
        self._block = hands.block()
        self._fill = 0
        self._writing: asyncio.Future[None] | None = None
        self.error: Stop | Trouble | None = None

    def room(self) -> memoryview:
        return self._block[self._fill :]

    def took(self, count: int) -> None:
        self._fill += count
        self._count(count)
        if self._fill == BLOCK:
            self._flush()

    def _ready(self) -> bool:
        return self._fill < BLOCK

    async def finish(self) -> None:
        """A thread may be writing to the file, so not even being cancelled cuts this short."""
        self._leave()
        cancelled = await self._written_out()
        if self._fill and self.error is None:
            self._flush()
            cancelled = await self._written_out() or cancelled
        self._hands.give_back(self._block)
        if cancelled:
            raise asyncio.CancelledError
        if self.error is not None:
            raise self.error

    async def _written_out(self) -> bool:
        cancelled = False
        while self._writing is not None:
            try:
                await asyncio.wait([self._writing])
            except asyncio.CancelledError:
                cancelled = True
        return cancelled

    def _flush(self) -> None:
        if self._writing is not None:
            if self._line is not None:
                self._line.pause()
            return
        block, count = self._block, self._fill
        self._block, self._fill = self._hands.block(), 0
        self._writing = self._loop.run_in_executor(self._hands.pool, self._write, block, count)
        self._writing.add_done_callback(lambda future: self._written(future, block))

    def _written(self, future: asyncio.Future[None], block: memoryview) -> None:
        self._writing = None
        self._hands.give_back(block)
        error = future.exception()
        if isinstance(error, OSError):
            self.error = of_os(error)
        elif error is not None:
            self.error = Stop(Final.INTERNAL, "A block could not be written.")
        if self.error is not None:
            if self._line is not None:
                self._line.fail(self.error)
            return
        if self._fill == BLOCK:
            self._flush()
        self._unpause()

    def _write(self, block: memoryview, count: int) -> None:
        """In a thread of the pool; one call at a time for each sink."""
        piece = block[:count]
        done, crcs = self.mark
        _write_all(self._fd, piece, self._offset + done)
        fresh = {name: update(piece, crcs[name]) for name, update in self._updates.items()}
        for hashing in self._hashers:
            hashing.update(piece)
        self.mark = (done + count, fresh)


def _write_all(fd: int, piece: memoryview, position: int) -> None:
    while piece:
        written = os.pwrite(fd, piece, position)
        piece, position = piece[written:], position + written


def cores() -> float:
    """Return how many cores this process may use, by its affinity and its control group."""
    count = float(len(os.sched_getaffinity(0)))
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()[:2]
        return count if quota == "max" else min(count, int(quota) / int(period))
    except (OSError, ValueError):
        return count
