"""What is to be done next, and how fast: bandwidth, calls at once, pauses after a refusal."""

from __future__ import annotations

import asyncio
import random
import threading
from collections import deque
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from dataplane.copy.http1 import now

FILE_WORTH = 64 * 1024  # a small object costs about as much as this many bytes of a large one
BETTER = 1.04  # so much more is worth more calls at once
AS_GOOD = 0.98  # and so little less is worth fewer
STAY = 3  # rounds after a step that was taken back
START, MOST = 8, 64
STEP_S = 0.7
PATIENCE = 6
Unit = Callable[[], Awaitable[None]]


class Bucket:
    """A token bucket for all threads: what was taken too early is owed."""

    def __init__(self, rate: int | None, clock: Callable[[], float] = now) -> None:
        self._rate = rate
        self._clock = clock
        self._tokens = float(rate or 0) / 4
        self._at = clock()
        self._lock = threading.Lock()

    def take(self, count: int) -> float:
        """Take ``count`` bytes; return how many seconds to wait before the next."""
        if not self._rate:
            return 0.0
        with self._lock:
            at = self._clock()
            self._tokens = min(self._rate / 4, self._tokens + (at - self._at) * self._rate) - count
            self._at = at
            return max(0.0, -self._tokens / self._rate)


async def until_done(work: asyncio.Future[Any], hurry: Callable[[], object] = lambda: None) -> bool:
    """Wait until it ended, even when that is cancelled: it may use what is the caller's.

    ``hurry`` is called to make it end soon then. Return whether it was.
    """
    cancelled = False
    while not work.done():
        try:
            await asyncio.wait([work])
        except asyncio.CancelledError:
            cancelled = True
            hurry()
    return cancelled


@dataclass
class Climb:
    """Finds how many calls at once bring the most, by going uphill on what was measured.

    ``want`` is the number now. A fixed one is never changed, except that a store that asks for
    fewer gets fewer.
    """

    fixed: int = 0
    most: int = MOST
    want: int = field(init=False)
    _rate: float = 0.0  # of the last number that was kept
    _kept: int = 0
    _up: bool = True
    _stay: int = 0  # rounds

    def __post_init__(self) -> None:
        self.want = self._kept = self.fixed or min(START, self.most)

    def measured(self, rate: float) -> None:
        """Take the rate of the last round; choose the number for the next."""
        if self.fixed or rate <= 0:
            return
        if self._stay:
            self._stay -= 1
            self._rate = rate
            if not self._stay:
                self._step()
            return
        if rate >= self._rate * (BETTER if self._up else AS_GOOD):
            self._rate, self._kept = rate, self.want
            self._step()
            return
        self.want, self._up, self._stay = self._kept, not self._up, STAY

    def _step(self) -> None:
        step = max(1, self.want // 3)
        self.want = min(self.most, max(2, self.want + (step if self._up else -step)))

    def slow_down(self) -> None:
        self.want = self._kept = max(1, self.want // 2)
        self._up, self._stay = True, 2 * STAY


class Backoff:
    """Growing pauses with full jitter; one per thing that is tried again."""

    def __init__(self, first: float = 0.2, most: float = 20.0, tries: int = 8) -> None:
        self._first, self._most, self.tries = first, most, tries
        self.tried = 0

    def next(self, *, patient: bool = False) -> float | None:
        """Return the pause before the next try; None when it was tried often enough.

        ``patient``: the store asked for it, so it is tried much longer.
        """
        self.tried += 1
        if self.tried >= self.tries * (PATIENCE if patient else 1):
            return None
        longest = min(self._most, self._first * 2**self.tried)
        return longest * (0.5 + random.random() / 2)  # noqa: S311 - jitter, no secret

    def fresh(self) -> None:
        """Something came: begin counting again."""
        self.tried = 0


class Work:
    """A bounded queue of units. A unit that runs may add more, so it counts until it ended."""

    def __init__(self, most: int = 10_000) -> None:
        self._most = most
        self._first: deque[deque[Unit]] = deque()  # of one file each
        self._rest: deque[Unit] = deque()
        self._running = 0
        self._closed = False
        self._held = True
        self._getters: deque[asyncio.Future[None]] = deque()
        self._putters: deque[asyncio.Future[None]] = deque()

    def start(self) -> None:
        """Let units be taken; until then they only gather."""
        self._held = False
        self._wake_all()

    async def put(self, unit: Unit) -> None:
        while len(self._rest) >= self._most:
            self.start()
            waiter = asyncio.get_running_loop().create_future()
            self._putters.append(waiter)
            await waiter
        self._rest.append(unit)
        self._wake_one()

    def put_first(self, units: Iterable[Unit]) -> None:
        """Add the pieces of one file. Files take turns: one at a time is written to each."""
        pieces = deque(units)
        if pieces:
            self._first.append(pieces)
        for _ in pieces:
            self._wake_one()

    def close(self) -> None:
        """Say that no new file comes."""
        self._closed = True
        self.start()

    @property
    def over(self) -> bool:
        """Whether nothing is left and nothing comes."""
        return self._closed and not self._running and not self._first and not self._rest

    async def get(self) -> Unit | None:
        """Return the next unit, None when everything is done."""
        while True:
            if not self._held and (self._first or self._rest):
                unit = self._piece() if self._first else self._rest.popleft()
                self._running += 1
                if self._putters and len(self._rest) < self._most:
                    _wake(self._putters)
                return unit
            if self.over:
                self._wake_all()
                return None
            waiter = asyncio.get_running_loop().create_future()
            self._getters.append(waiter)
            await waiter

    def _piece(self) -> Unit:
        pieces = self._first.popleft()
        unit = pieces.popleft()
        if pieces:
            self._first.append(pieces)
        return unit

    def ended(self) -> None:
        """Say that a unit ended."""
        self._running -= 1
        if self.over:
            self._wake_all()

    def _wake_one(self) -> None:
        if not self._held and self._getters:
            _wake(self._getters)

    def _wake_all(self) -> None:
        while self._getters:
            _wake(self._getters)


def _wake(waiters: deque[asyncio.Future[None]]) -> None:
    while waiters:
        waiter = waiters.popleft()
        if not waiter.done():
            waiter.set_result(None)
            return
