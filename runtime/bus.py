"""The event bus to browsers: publish small facts, never data (readers look in the database).

Topics: ``user:<uid>``, ``project:<uid>``, ``workspace:<uid>``, ``operators``.
"""

import asyncio
import math
import time
from collections import deque
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any
from weakref import WeakKeyDictionary

from django.db import transaction

from runtime import bus_backends

QUEUE = 64  # messages kept for a slow reader; then it is told to look at everything again
KEPT = 2000  # messages of the past, for pages whose stream opens after they were made
RESYNC: dict[str, Any] = {"kind": "resync"}


def publish(topics: list[str], message: dict[str, Any]) -> None:
    """Send when the surrounding transaction commits; never raises, never blocks for long."""
    if not topics:
        return
    transaction.on_commit(lambda: _send(topics, message), robust=True)


def _send(topics: list[str], message: dict[str, Any]) -> None:
    bus_backends.send(topics, message)


class Subscription:
    """Messages of some topics, for one reader. The topic ``*`` is all of them."""

    def __init__(self, topics: Iterable[str]) -> None:
        self.topics = frozenset(topics)
        self._queue: asyncio.Queue[dict[str, Any] | None] = asyncio.Queue(QUEUE)

    def offer(self, topics: set[str], message: dict[str, Any]) -> None:
        if not (topics & self.topics or "*" in topics or "*" in self.topics):
            return
        if self._queue.full():
            while not self._queue.empty():
                self._queue.get_nowait()
            message = RESYNC
        self._queue.put_nowait(message)

    def wake(self) -> None:
        """End the wait of the reader without a message."""
        if not self._queue.full():
            self._queue.put_nowait(None)

    async def get(self, *, timeout_s: float) -> dict[str, Any] | None:
        """Return the next message, None when nothing came for ``timeout_s`` or somebody wakes."""
        try:
            async with asyncio.timeout(timeout_s):
                return await self._queue.get()
        except TimeoutError:
            return None


class _Hub:
    """One listener per process (and event loop) that hands messages to all its readers.

    Once begun it listens on: who reads a page before its stream is open may ask what was said
    meanwhile, so the last messages are kept.
    """

    def __init__(self) -> None:
        self.readers: set[Subscription] = set()
        self._task: asyncio.Task[None] | None = None
        self._recent: deque[tuple[float, set[str], dict[str, Any]]] = deque(maxlen=KEPT)
        self._complete_since = math.inf

    async def begin(self) -> None:
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._run())
            await asyncio.sleep(0)  # lets it bind before the reader looks at the database

    async def _run(self) -> None:
        self._begin_anew()
        async for data in bus_backends.backend().listen():
            topics, message = bus_backends.unpack(data)
            if message == RESYNC and "*" in topics:  # the backend itself may have missed some
                self._begin_anew()
            self._recent.append((time.monotonic(), topics, message))
            for reader in list(self.readers):
                reader.offer(topics, message)

    def _begin_anew(self) -> None:
        self._recent.clear()
        self._complete_since = time.monotonic()

    def replay(self, reader: Subscription, age_s: float) -> None:
        """Offer what was said in the last ``age_s``; RESYNC where not all of it is known."""
        since = time.monotonic() - age_s
        is_cut = len(self._recent) == KEPT and self._recent[0][0] > since
        if since < self._complete_since or is_cut:
            reader.offer({"*"}, RESYNC)
            return
        for at, topics, message in self._recent:
            if at >= since:
                reader.offer(topics, message)


_hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, _Hub] = WeakKeyDictionary()


@asynccontextmanager
async def subscription(
    topics: Iterable[str], *, age_s: float | None = None
) -> AsyncIterator[Subscription]:
    """Hear ``topics`` inside the block. Holds no database connection.

    ``age_s``: how old what the reader knows is, in seconds; what was said since then comes first.
    """
    hub = _hubs.setdefault(asyncio.get_running_loop(), _Hub())
    mine = Subscription(topics)
    hub.readers.add(mine)
    try:
        await hub.begin()
        if age_s is not None:
            hub.replay(mine, age_s)
        yield mine
    finally:
        hub.readers.discard(mine)


async def subscribe(topics: Iterable[str]) -> AsyncIterator[dict[str, Any]]:
    """Yield messages of ``topics`` for ever."""
    async with subscription(topics) as mine:
        while True:
            message = await mine.get(timeout_s=3600)
            if message is not None:
                yield message
