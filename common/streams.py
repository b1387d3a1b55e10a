"""Streams that a page or program follows: counted before they open, and told without a thread.

The view authorises in its own thread and returns an ``EventStream``. ``portal.asgi`` sends what it
yields after the request is over: no thread, database connection or request waits with it. Whatever
a stream asks on its way goes through ``common.streams``.
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Self, TypeVar
from weakref import WeakSet, WeakValueDictionary

from django.core.cache import cache
from django.db import close_old_connections, connections
from django.http import StreamingHttpResponse
from django.utils import translation
from django.utils.translation import gettext as _

from common.errors import BerthError


class TooManyStreams(BerthError):  # noqa: N818 - named like its siblings in common.errors
    status = 429
    code = "too-many-streams"
    retry_after_s = 10


class Place:
    """One stream's place among those of its person; given back at the end of the block.

    One that is forgotten (the client left before the first byte, the answer was never sent) counts
    no more: places are counted while somebody holds them.
    """

    __slots__ = ("__weakref__", "_among")

    def __init__(self, among: WeakSet[Place]) -> None:
        self._among = among
        among.add(self)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._among.discard(self)


class Places:
    """So many streams of one kind for each person, in one process."""

    def __init__(self, most: int) -> None:
        self.most = most
        self._of: WeakValueDictionary[str, WeakSet[Place]] = WeakValueDictionary()
        self._lock = threading.Lock()

    def take(self, key: str) -> Place:
        """Count a stream in before it opens; TooManyStreams beyond the limit."""
        with self._lock:
            among = self._of.setdefault(key, WeakSet())
            if len(among) >= self.most:
                raise TooManyStreams(_("Too many streams are open at once; close some pages."))
            return Place(among)

    def __len__(self) -> int:
        return sum(map(len, list(self._of.values())))


class EventStream(StreamingHttpResponse):
    """Server-sent events. ``events`` holds the stream's place and gives it back at its end."""

    def __init__(self, events: AsyncIterator[str]) -> None:
        super().__init__(events, content_type="text/event-stream")
        self.events = events
        self.headers["Cache-Control"] = "no-store"
        self.headers["X-Accel-Buffering"] = "no"


T = TypeVar("T")
THREADS = 8
_pool = ThreadPoolExecutor(THREADS, thread_name_prefix="look")


async def look(question: Callable[[], T], pool: ThreadPoolExecutor = _pool) -> T:
    """Run ``question`` in a thread, in our language, and give its connection back at once."""
    language = translation.get_language()
    return await asyncio.get_running_loop().run_in_executor(pool, closing, question, language)


def closing(question: Callable[[], T], language: str | None) -> T:
    """Run it in this thread, in this language, and keep no connection."""
    close_old_connections()
    try:
        with translation.override(language):
            return question()
    finally:
        for connection in connections.all(initialized_only=True):
            if not connection.in_atomic_block:
                connection.close()


MOST_TURNS = 2
LONGEST_TURN_S = 20  # a process that died gives its turn back after so long
_PAUSE_S = 0.1


class TooManyAtOnce(BerthError):  # noqa: N818 - named like its siblings in common.errors
    status = 429
    code = "too-many-at-once"


@contextmanager
def turn(who: int, *, wait_s: float = 0.0) -> Iterator[None]:
    """Hold one of a person's turns; TooManyAtOnce when none is free within ``wait_s``."""
    until = time.monotonic() + wait_s
    keys = [f"outside-turn:{who}:{number}" for number in range(MOST_TURNS)]
    while (key := next((k for k in keys if cache.add(k, 1, LONGEST_TURN_S)), None)) is None:
        if time.monotonic() >= until:
            raise TooManyAtOnce(
                _("You have %(most)d such questions under way; wait for their answers.")
                % {"most": MOST_TURNS}
            )
        time.sleep(_PAUSE_S)
    try:
        yield
    finally:
        cache.delete(key)
