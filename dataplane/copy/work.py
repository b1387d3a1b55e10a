"""What is to be done: pieces of files that are open come first, in turn, then new files."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterable

Unit = Callable[[], Awaitable[None]]


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
