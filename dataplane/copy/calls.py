"""Calls of a store that are tried again where that can help, and end the run where it can't."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TypeVar

from dataplane.copy.client import Client
from dataplane.copy.connector import Endpoint
from dataplane.copy.head import Broken
from dataplane.copy.http1 import Accept, Answer, now
from dataplane.copy.lanes import Lane
from dataplane.copy.log import Log
from dataplane.copy.pace import Backoff
from dataplane.copy.problems import Code, Denied, Final, Skewed, Stop, Trouble, Unknown
from dataplane.copy.stores.base import Reading

T = TypeVar("T")
OK = frozenset({200, 206})
DOWN_MOST = 24  # calls in a row that found nobody: the store is away
BUSY_MOST = 400  # calls in a row that the store had no time for
_SLOW_EVERY_S = 1.0
_UNKNOWN_S = 30.0
_SKEW_PAUSE_S = 0.5


class _Stale(Broken):
    """A connection that was kept had ended before anything was answered on it."""


class Calls:
    """Everything that is asked of the store goes through here."""

    def __init__(self, client: Client, store: Reading, prefix: str, log: Log) -> None:
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
            self._slow()
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

    def _slow(self) -> None:
        at = now()
        if at - self._slowed_at > _SLOW_EVERY_S:
            self._slowed_at = at
            self.client.not_before = at + 0.5
            self.on_slow()

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
