"""Calls to one store: kept connections, one watch over all of them, and tries again."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from dataplane.copy.connector import Dialer, Endpoint, Place
from dataplane.copy.head import Broken
from dataplane.copy.http1 import Connection, now
from dataplane.copy.lanes import Lane
from dataplane.copy.pace import Backoff
from dataplane.copy.problems import Stop
from dataplane.copy.transport import MOST, Call

T = TypeVar("T")

REUSED_MOST = 100_000
WATCH_S = 0.25


@dataclass(frozen=True)
class Times:
    """Seconds. A store that drips below ``slow_bytes`` in ``slow_s`` counts as silent."""

    answer_s: float = 60.0  # until the head of an answer, at most
    slow_s: float = 30.0
    slow_bytes: int = 30 * 1024
    first_pause_s: float = 0.2
    longest_pause_s: float = 20.0
    tries: int = 8


class Client:
    """Use within a loop; ``close`` ends every connection."""

    def __init__(self, dialer: Dialer, endpoint: Endpoint, times: Times | None = None) -> None:
        self.endpoint = endpoint
        self.times = times or Times()
        self.stopped: Stop | None = None  # no call is started any more
        self.not_before = 0.0  # a store asked for fewer calls
        self._dialer = dialer
        self._idle: defaultdict[tuple[Lane | None, Place], list[Connection]] = defaultdict(list)
        self._lines: set[Connection | Call] = set()
        self._threads = ThreadPoolExecutor(MOST, "calls")
        self._gate = asyncio.Event()
        self._gate.set()
        self._watching: asyncio.Task[None] | None = None

    async def close(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
        for line in list(self._lines):
            line.soon(line.close)
        self._lines.clear()
        self._idle.clear()
        await asyncio.to_thread(self._threads.shutdown)

    def stop(self, order: Stop) -> Stop:
        """Start no call any more; return the first order."""
        self.stopped = self.stopped or order
        return self.stopped

    @asynccontextmanager
    async def alone(self) -> AsyncIterator[None]:
        """Hold every other call back, to find out whether the store refuses all of them."""
        await self._gate.wait()
        self._gate.clear()
        try:
            yield
        finally:
            self._gate.set()

    @asynccontextmanager
    async def line(
        self, *, alone: bool = False, lane: Lane | None = None, endpoint: Endpoint | None = None
    ) -> AsyncIterator[Connection]:
        """Lend a connection; it is kept for the next one when its answer was complete.

        ``endpoint``: another one than the store's, where the store sent us.
        """
        await self._turn(alone=alone)
        where = endpoint or self.endpoint
        line = await self._get(lane, where)
        self._watch_from_now(line)
        try:
            yield line
        finally:
            line.deadline = 0.0
            if line.reusable and line.used < REUSED_MOST:
                self._idle[lane, where.place].append(line)
            else:
                self._lines.discard(line)
                line.soon(line.close)

    async def made(self, act: Callable[[], T], *, alone: bool = False) -> T:
        """Carry out in a thread what a library does.

        It may read a file of the caller's, so not even being cancelled ends the wait before it
        has ended there; but then its connection is cut.
        """
        await self._turn(alone=alone)
        call = Call()

        def begin() -> T:
            self._watch_from_now(call)
            return call.run(act)

        self._lines.add(call)
        work = asyncio.get_running_loop().run_in_executor(self._threads, begin)
        cancelled = False
        try:
            while not work.done():
                try:
                    await asyncio.wait([work])
                except asyncio.CancelledError:
                    cancelled = True
                    call.close()
        finally:
            self._lines.discard(call)
        if cancelled:
            work.exception()
            raise asyncio.CancelledError
        return work.result()

    async def _turn(self, *, alone: bool) -> None:
        if not alone and not self._gate.is_set():
            await self._gate.wait()
        if (pause := self.not_before - now()) > 0:
            await asyncio.sleep(pause * (1 + random.random()))  # noqa: S311 - jitter
        if self.stopped is not None:
            raise self.stopped
        if self._watching is None:
            self._watching = asyncio.create_task(self._watch())

    def _watch_from_now(self, line: Connection | Call) -> None:
        line.watched_at, line.watched_bytes = now(), line.got
        line.deadline = line.watched_at + self.times.answer_s

    async def _get(self, lane: Lane | None, endpoint: Endpoint) -> Connection:
        idle = self._idle[lane, endpoint.place]
        while idle:
            line = idle.pop()
            if line.reusable:
                return line
            self._lines.discard(line)
        connect = partial(self._dialer.connect, endpoint)
        line = await (connect() if lane is None else lane.run(connect, Connection.close))
        self._lines.add(line)
        return line

    async def _watch(self) -> None:
        """End what does not answer, and what only drips."""
        while True:
            await asyncio.sleep(min(WATCH_S, self.times.slow_s / 4))
            at = now()
            for line in list(self._lines):
                if line.deadline:
                    line.soon(partial(self._look, line, at))

    def _look(self, line: Connection | Call, asked: float) -> None:
        """In the line's own loop. A disk may have kept that: then, too, it is we who are slow."""
        if not line.deadline:  # given back since it was asked
            return
        at = now()
        ours = line.paused or at - asked > 2 * WATCH_S
        moved = line.got - line.watched_bytes
        if moved:
            line.deadline = at + self.times.answer_s
        elif at > line.deadline and not ours:
            line.fail(Broken("The store does not answer in time."))
            return
        if ours:
            line.watched_at, line.watched_bytes = at, line.got
            line.deadline = at + self.times.answer_s
        elif at - line.watched_at > self.times.slow_s:
            if moved < self.times.slow_bytes:
                line.fail(Broken("The store sends too slowly to go on."))
            line.watched_at, line.watched_bytes = at, line.got

    def backoff(self) -> Backoff:
        times = self.times
        return Backoff(times.first_pause_s, times.longest_pause_s, times.tries)
