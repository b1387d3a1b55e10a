"""The event bus to browsers: publish small facts, never data (readers look in the database).

Topics: ``user:<uid>``, ``project:<uid>``, ``workspace:<uid>``, ``operators``.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from typing import Any
from weakref import WeakKeyDictionary

from django.db import transaction

from runtime import bus_backends

QUEUE = 64  # messages kept for a slow reader; then it is told to look at everything again
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
        self._queue: asyncio.Queue[dict[str, Any]] = asyncio.Queue(QUEUE)

    def offer(self, topics: set[str], message: dict[str, Any]) -> None:
        if not (topics & self.topics or "*" in topics or "*" in self.topics):
            return
        if self._queue.full():
            while not self._queue.empty():
                self._queue.get_nowait()
            message = RESYNC
        self._queue.put_nowait(message)

    async def get(self, *, timeout_s: float) -> dict[str, Any] | None:
        """Return the next message, None when nothing came for ``timeout_s``."""
        try:
            async with asyncio.timeout(timeout_s):
                return await self._queue.get()
        except TimeoutError:
            return None


class _Hub:
    """One listener per process (and event loop) that hands messages to all its readers."""

    def __init__(self) -> None:
        self.readers: set[Subscription] = set()
        self.task: asyncio.Task[None] | None = None

    async def run(self) -> None:
        async for data in bus_backends.backend().listen():
            topics, message = bus_backends.unpack(data)
            for reader in list(self.readers):
                reader.offer(topics, message)


_hubs: WeakKeyDictionary[asyncio.AbstractEventLoop, _Hub] = WeakKeyDictionary()


@asynccontextmanager
async def subscription(topics: Iterable[str]) -> AsyncIterator[Subscription]:
    """Hear ``topics`` inside the block. Holds no database connection."""
    hub = _hubs.setdefault(asyncio.get_running_loop(), _Hub())
    mine = Subscription(topics)
    hub.readers.add(mine)
    if hub.task is None or hub.task.done():
        hub.task = asyncio.get_running_loop().create_task(hub.run())
        await asyncio.sleep(0)  # lets it bind before the reader looks at the database
    try:
        yield mine
    finally:
        hub.readers.discard(mine)
        if not hub.readers and hub.task is not None:
            hub.task.cancel()
            hub.task = None


async def subscribe(topics: Iterable[str]) -> AsyncIterator[dict[str, Any]]:
    """Yield messages of ``topics`` for ever."""
    async with subscription(topics) as mine:
        while True:
            message = await mine.get(timeout_s=3600)
            if message is not None:
                yield message
