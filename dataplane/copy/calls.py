"""Calls to one store: kept connections, one watch over all of them, and tries again.

What can't be helped by trying again ends the run.
"""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

from dataplane.copy.connector import Dialer, Endpoint, Place
from dataplane.copy.http1 import Accept, Answer, Broken, Connection, now
from dataplane.copy.lanes import Lane
from dataplane.copy.pace import Backoff, until_done
from dataplane.copy.problems import Code, Denied, Final, Skewed, Stop, Trouble, Unknown
from dataplane.copy.progress import Log
from dataplane.copy.stores.base import Store
from dataplane.copy.transport import MOST, Call

T = TypeVar("T")

REUSED_MOST = 100_000
WATCH_S = 0.25
OK = frozenset({200, 206})
DOWN_MOST = 24  # calls in a row that found nobody: the store is away
BUSY_MOST = 400  # calls in a row that the store had no time for
_SLOW_EVERY_S = 1.0
_UNKNOWN_S = 30.0
_SKEW_PAUSE_S = 0.5


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
        try:
            cancelled = await until_done(work, call.close)
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


class _Stale(Broken):
    """A connection that was kept had ended before anything was answered on it."""


class Calls:
    """Everything that is asked of the store goes through here."""

    def __init__(self, client: Client, store: Store, prefix: str, log: Log) -> None:
        self.client = client
        self.store = store
        self._prefix = prefix
        self._log = log
        self._down = 0
        self._slowed_at = 0.0
        self._renewing = asyncio.Lock()
        self._refused = 0.0
        self.on_slow: Callable[[], None] = lambda: None

    async def once(
        self,
        ask: Callable[[], bytes],
        *,
        accept: Accept | None = None,
        alone: bool = False,
        lane: Lane | None = None,
    ) -> Answer:
        """Ask one question. The question is made when it is sent: signatures are of a moment.

        With a ``lane`` the answer is read there, and ``accept`` is called there.
        """
        if not self.store.fresh():
            await self.renewed()
        try:
            answer = await self._asked(ask, accept, lane, alone=alone)
        except _Stale:  # kept too long: the store closed it, and has not seen the question
            answer = await self._asked(ask, accept, lane, alone=alone)
        if (onward := self.store.onward(answer.head)) is not None:
            answer = await self._asked(
                lambda: onward.question, accept, lane, alone=alone, endpoint=onward.endpoint
            )
        if answer.head.status not in OK:
            raise self.store.trouble(answer.head, answer.body)
        self._down = 0
        return answer

    async def made(self, act: Callable[[], T], *, alone: bool = False) -> T:
        """Let the store's library do one thing, once; ``act`` runs in a thread."""
        if not self.store.fresh():
            await self.renewed()
        try:
            done = await self.client.made(act, alone=alone)
        except (Trouble, Stop):
            raise
        except Exception as error:  # noqa: BLE001 - each library has its own
            raise self.store.meant(error) from None
        self._down = 0
        return done

    async def _asked(
        self,
        ask: Callable[[], bytes],
        accept: Accept | None,
        lane: Lane | None,
        *,
        alone: bool,
        endpoint: Endpoint | None = None,
    ) -> Answer:
        async with self.client.line(alone=alone, lane=lane, endpoint=endpoint) as line:
            used, got = line.used, line.got
            asking = partial(line.ask, ask(), accept=accept)
            try:
                return await (asking() if lane is None else lane.run(asking))
            except Broken as error:
                if used and line.got == got and line.lost:
                    raise _Stale(error.message) from None
                raise

    async def renewed(self) -> None:
        async with self._renewing:
            if not self.store.fresh():
                await self.store.renew(self.client)

    async def tried(self, act: Callable[[], Awaitable[T]], backoff: Backoff | None = None) -> T:
        """Carry out ``act`` until it succeeds or a retry is in vain."""
        backoff = backoff or self.client.backoff()
        while True:
            try:
                return await act()
            except Trouble as trouble:
                await self.after(trouble, backoff)
            except Stop as order:
                raise self.client.stop(order) from None

    async def after(self, trouble: Trouble, backoff: Backoff) -> None:
        """Wait as this trouble asks for; raise when trying again is in vain."""
        if self.client.stopped is not None:
            raise self.client.stopped
        if isinstance(trouble, Skewed):
            self._skewed(trouble)
            await asyncio.sleep(_SKEW_PAUSE_S)
            return
        if isinstance(trouble, Denied):
            await self._probe()
        if not trouble.again:
            raise trouble
        self._count(trouble)
        pause = backoff.next(patient=trouble.slow)
        if pause is None:
            raise trouble
        text = f"a call is tried again in {pause:.1f} s: {trouble.message}"
        self._log.again(f"again-{trouble.code}", text)
        await asyncio.sleep(pause)

    def _skewed(self, trouble: Skewed) -> None:
        """Take the store's time for ours, once; what was asked before that is asked again."""
        if trouble.at is None or not self.store.skewed(trouble.at):
            text = "The store finds this machine's clock wrong, even corrected by its own."
            raise self.client.stop(Stop(Final.CLOCK_SKEW, text))
        self._log.again("skew", "this machine's clock is wrong for the store: its time is taken")

    def _count(self, trouble: Trouble) -> None:
        if isinstance(trouble, Unknown):
            self._unknown()
        if trouble.slow:
            at = now()
            if at - self._slowed_at > _SLOW_EVERY_S:
                self._slowed_at = at
                self.client.not_before = at + 0.5
                self.on_slow()
        if trouble.code is Code.UNREACHABLE:
            self._down += 1
            if self._down > (BUSY_MOST if trouble.slow else DOWN_MOST):
                raise self.client.stop(Stop(Final.UNREACHABLE, trouble.message))

    def _unknown(self) -> None:
        """Ask for a new token once in a while; a credential that is dead stays dead."""
        if now() - self._refused < _UNKNOWN_S or not self.store.stale():
            text = "The store does not accept this credential any more."
            raise self.client.stop(Stop(Final.DENIED, text))
        self._refused = now()
        self._log.again("token", "the store does not know this token any more: a new one is got")

    async def _probe(self) -> None:
        """Find out whether the store refuses everything, with one call and nobody beside it.

        A credential that was revoked ends the run after this call (D9); a single object that
        is refused does not.
        """
        self._log.again("refused", "a call is refused: whether all are is asked by one alone")
        async with self.client.alone():
            if self.client.stopped is not None:
                raise self.client.stopped
            try:
                await self.store.listed(self, self._prefix, most=1, alone=True)
            except Denied:
                text = "The store refuses this credential, or its rights are not enough."
                raise self.client.stop(Stop(Final.DENIED, text)) from None
            except Stop as order:
                raise self.client.stop(order) from None
            except Trouble:
                return
