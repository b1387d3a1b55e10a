"""Where a body goes: summed and written at once, while it is in the processor's cache."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from dataplane.copy.checksums import Update
from dataplane.copy.http1 import Connection
from dataplane.copy.lanes import SCRATCH, Lane
from dataplane.copy.pace import Bucket
from dataplane.copy.problems import of_os
from dataplane.copy.progress import Progress

LANES = 4  # more would wait for each other: between the blocks there is one lock
LANE_LEAST = 1024 * 1024  # bytes of a body that are worth going to a lane


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


class Place(NamedTuple):
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
        place: Place,
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
        self._pace(count)

    def ended(self) -> None:
        """Let go of the line; it is another's now."""
        if self._paced is not None:
            self._unpace()

    def _pace(self, count: int) -> None:
        self._hands.progress.read(count)
        wait = self._hands.bucket.take(count)
        if wait and self._paced is None:
            self._line.pause()
            self._paced = asyncio.get_running_loop().call_later(wait, self._unpace)

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
