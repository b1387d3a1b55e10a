"""Threads that read large bodies, and where a body goes.

A lane is a loop of its own with connections of its own. What takes the time there (reading,
writing, summing) lets go of the interpreter's lock, so a second lane brings the bytes of a second
core. Who asks stays in the loop of the run. A body is summed and written at once, while it is in
the processor's cache.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

from dataplane.copy.checksums import Update
from dataplane.copy.http1 import Connection
from dataplane.copy.pace import Bucket, until_done
from dataplane.copy.problems import of_os
from dataplane.copy.progress import Progress

T = TypeVar("T")
SCRATCH = 256 * 1024  # stays in the cache of a core
LANES = 4  # more would wait for each other: between the blocks there is one lock
LANE_LEAST = 1024 * 1024  # bytes of a body that are worth going to a lane


class Lane:
    """One thread. Use from the loop of the run; ``close`` when nothing is asked any more."""

    def __init__(self, number: int) -> None:
        self.scratch = memoryview(bytearray(SCRATCH))
        self.bodies = 0  # that are read here now
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._work, name=f"lane-{number}", daemon=True)
        self._thread.start()

    async def run(
        self,
        act: Callable[[], Coroutine[Any, Any, T]],
        unwanted: Callable[[T], object] | None = None,
    ) -> T:
        """Carry ``act`` out in the lane.

        It may be writing to a file of the caller's, so not even being cancelled ends the wait
        before it has ended there. ``unwanted`` gets, in the lane, what nobody waits for any more.
        """
        job = _Job(act, asyncio.get_running_loop())
        self._loop.call_soon_threadsafe(job.begin)
        if await until_done(job.over, lambda: self._loop.call_soon_threadsafe(job.cancel)):
            done = job.over.result()
            if unwanted is not None and not done.cancelled() and done.exception() is None:
                self._loop.call_soon_threadsafe(unwanted, done.result())
            raise asyncio.CancelledError
        return job.over.result().result()

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _work(self) -> None:
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(self._loop.shutdown_default_executor())
            self._loop.run_until_complete(asyncio.sleep(0))  # connections end a turn later
        finally:
            self._loop.close()


class _Job(Generic[T]):
    """Something done in a lane; ``over`` belongs to the loop that waits for it."""

    def __init__(
        self, act: Callable[[], Coroutine[Any, Any, T]], caller: asyncio.AbstractEventLoop
    ) -> None:
        self.over: asyncio.Future[asyncio.Task[T]] = caller.create_future()
        self._act = act
        self._caller = caller
        self._task: asyncio.Task[T] | None = None

    def begin(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._act())
        self._task.add_done_callback(self._ended)

    def cancel(self) -> None:
        if self._task is not None:
            self._task.cancel()

    def _ended(self, task: asyncio.Task[T]) -> None:
        self._caller.call_soon_threadsafe(self.over.set_result, task)


def lanes_most() -> int:
    return min(LANES, int(cores()) + 1)  # one of them waits for the disk


class Hands:
    """Threads: lanes for large bodies, and a pool for whatever is slow."""

    def __init__(self, bucket: Bucket, progress: Progress) -> None:
        self.progress = progress
        self.bucket = bucket
        has = cores()
        self.pool = ThreadPoolExecutor(min(8, int(has) + 2), "hands")
        self.scratch = memoryview(bytearray(SCRATCH))
        self._most = lanes_most()
        self._lanes: list[Lane] = []

    @contextmanager
    def lane(self, size: int) -> Iterator[Lane | None]:
        """Lend the lane that has the least to do; None where ``size`` is not worth it."""
        if size < LANE_LEAST:
            yield None
            return
        lane = min(self._lanes, key=lambda one: one.bodies, default=None)
        if lane is None or (lane.bodies and len(self._lanes) < self._most):
            lane = Lane(len(self._lanes))
            self._lanes.append(lane)
        lane.bodies += 1
        try:
            yield lane
        finally:
            lane.bodies -= 1

    def close(self) -> None:
        for lane in self._lanes:
            lane.close()
        self.pool.shutdown(wait=True, cancel_futures=True)


class Span(NamedTuple):
    """Where in a file a body begins, and how long it is."""

    fd: int
    offset: int
    size: int


class FileSink:
    """Writes a body into its place in a file.

    ``mark`` is (bytes in the file, CRCs over them): both of one moment, for every thread.
    ``scratch`` is one for all bodies of a loop: it is empty again before another one is read.
    """

    def __init__(
        self,
        hands: Hands,
        line: Connection,
        scratch: memoryview,
        place: Span,
        *,
        updates: dict[str, Update],
        crcs: dict[str, int],
        hashing: Any | None = None,
    ) -> None:
        self.mark: tuple[int, dict[str, int]] = (0, dict(crcs))
        self.size = place.size
        self._hands = hands
        self._line = line
        self._scratch = scratch
        self._place = place
        self._updates = updates
        self._hashing = hashing
        self._paced: asyncio.TimerHandle | None = None

    def room(self) -> memoryview:
        return self._scratch

    def took(self, count: int) -> None:
        piece = self._scratch[:count]
        done, crcs = self.mark
        try:
            write_all(self._place.fd, piece, self._place.offset + done)
        except OSError as error:
            raise of_os(error) from None
        fresh = {name: update(piece, crcs[name]) for name, update in self._updates.items()}
        if self._hashing is not None:
            self._hashing.update(piece)
        self.mark = (done + count, fresh)
        self._hands.progress.read(count)
        wait = self._hands.bucket.take(count)
        if wait and self._paced is None:
            self._line.pause()
            self._paced = asyncio.get_running_loop().call_later(wait, self._unpace)

    def ended(self) -> None:
        """Let go of the line; it is another's now."""
        if self._paced is not None:
            self._unpace()

    def _unpace(self) -> None:
        if self._paced is not None:
            self._paced.cancel()
            self._paced = None
        self._line.resume()


def write_all(fd: int, piece: memoryview, position: int) -> None:
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
