"""Streams that a page or program follows: counted before they open, and told without a thread.

The view authorises in its own thread and returns an ``EventStream``. ``portal.asgi`` sends what it
yields after the request is over: no thread, database connection or request waits with it. Whatever
a stream asks on its way goes through ``common.looks``.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from typing import Self
from weakref import WeakSet, WeakValueDictionary

from django.http import StreamingHttpResponse
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
