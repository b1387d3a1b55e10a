"""Server-sent events: ``/events/stream?topics=workspace:<uid>,project:<uid>&age=1.5``.

The stream says *that* something changed, never what: the page asks again through its own view,
which authorises again. ``age`` is how many seconds ago the page asked for what it shows: what was
said since then, before the stream was open, comes first. A stream holds no database connection,
is bounded per user, and ends when the session ends or the topics are no longer the user's. Other
pages than the portal's get none: they could not read it, and would take one of the user's.
"""

import asyncio
import json
import random
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import structlog
from asgiref.sync import sync_to_async
from django.contrib.auth import get_user_model
from django.contrib.sessions.models import Session
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse

from common.clock import now
from common.middleware import client_ip, is_foreign
from common.streams import EventStream, Place, Places, TooManyStreams, look
from runtime import bus

HEARTBEAT_S = 15.0
RECHECK_S = 30.0
TICK_S = 1.0
BATCH = 20  # people who are asked after in one go
LIFE_S = 3600.0  # then the browser connects again
MAX_TOPICS = 20
ON_THE_WAY_S = 3.0  # how long the request for the stream may take to arrive

# Given a person (read afresh), their address and the topics asked for: those allowed.
Authorise = Callable[[Any, str, list[str]], list[str]]
View = Callable[[HttpRequest], Awaitable[HttpResponse | StreamingHttpResponse]]

places = Places(16)
log = structlog.get_logger(__name__)


@dataclass(eq=False, slots=True)
class _Stream:
    """One open stream: whose it is, and what it may hear."""

    session_key: str
    user_pk: Any
    ip: str
    topics: list[str]
    checked: float = field(default_factory=time.monotonic)
    heard: bus.Subscription | None = None
    is_over: bool = False

    def end(self) -> None:
        self.is_over = True
        if self.heard is not None:
            self.heard.wake()


class _Streams:
    """All streams that a process has open, asked after together: many cost few questions."""

    def __init__(self, authorise: Authorise) -> None:
        self.authorise = authorise
        self.open: set[_Stream] = set()
        self._task: asyncio.Task[None] | None = None

    def allowed(self, streams: list[_Stream]) -> list[set[str] | None]:
        """Look afresh what each may hear; None where the session or its person is gone."""
        sessions = Session.objects.filter(
            session_key__in={one.session_key for one in streams}, expire_date__gt=now()
        )
        signed_in = set(sessions.values_list("session_key", flat=True))
        users = get_user_model().objects.filter(is_active=True)
        known = users.in_bulk({one.user_pk for one in streams if one.session_key in signed_in})
        asked: dict[tuple[Any, str], set[str]] = {}
        for one in streams:
            if one.session_key in signed_in and one.user_pk in known:
                asked.setdefault((one.user_pk, one.ip), set()).update(one.topics)
        found = {
            (pk, ip): set(self.authorise(known[pk], ip, sorted(topics)))
            for (pk, ip), topics in asked.items()
        }
        return [
            found.get((one.user_pk, one.ip)) if one.session_key in signed_in else None
            for one in streams
        ]

    async def events(self, one: _Stream, place: Place, age_s: float | None) -> AsyncIterator[str]:
        started = time.monotonic()
        with place:
            self.open.add(one)
            if self._task is None or self._task.done():
                self._task = asyncio.get_running_loop().create_task(self._recheck())
            try:
                async with bus.subscription(one.topics, age_s=age_s) as one.heard:
                    yield "retry: 2000\nevent: hello\ndata: {}\n\n"
                    while time.monotonic() - started < LIFE_S:
                        # Those that opened together shall not all speak together for ever.
                        pause = HEARTBEAT_S * random.uniform(0.8, 1.2)  # noqa: S311 - no secret
                        message = await one.heard.get(timeout_s=pause)
                        if one.is_over:
                            return
                        yield ": still here\n\n" if message is None else event(message)
            finally:
                self.open.discard(one)

    async def _recheck(self) -> None:
        while self.open:
            await asyncio.sleep(TICK_S)
            before = time.monotonic() - RECHECK_S
            people = list({one.user_pk for one in self.open if one.checked < before})
            for at in range(0, len(people), BATCH):
                batch = set(people[at : at + BATCH])
                streams = [one for one in self.open if one.user_pk in batch]
                try:
                    answers = await look(partial(self.allowed, streams))
                except Exception as error:  # noqa: BLE001 - the database is away: ask again soon
                    log.warning("sse.recheck_failed", error=repr(error))
                    break
                for one, allowed in zip(streams, answers, strict=True):
                    one.checked = time.monotonic()
                    if allowed is None or not allowed.issuperset(one.topics):
                        one.end()


def make_stream(authorise: Authorise) -> View:
    """Return the async view; ``authorise`` is synchronous and may read the database."""
    streams = _Streams(authorise)

    def asked_by(request: HttpRequest, topics: list[str]) -> tuple[_Stream, set[str] | None]:
        key, pk = getattr(request, "session", None), getattr(request.user, "pk", None)
        one = _Stream(getattr(key, "session_key", None) or "", pk, client_ip(request), topics)
        return one, streams.allowed([one])[0]

    async def stream(request: HttpRequest) -> HttpResponse | StreamingHttpResponse:
        if is_foreign(request):
            return HttpResponse(status=403)
        asked = [t for t in request.GET.get("topics", "").split(",") if t][:MAX_TOPICS]
        one, allowed = await sync_to_async(asked_by)(request, asked)
        if allowed is None:
            return HttpResponse(status=401)
        one.topics = [topic for topic in asked if topic in allowed]
        if not one.topics:
            return HttpResponse(status=404)
        try:
            place = places.take(str(one.user_pk))
        except TooManyStreams as error:
            return HttpResponse(status=error.status, headers=error.headers)
        return EventStream(streams.events(one, place, _age(request)))

    return stream


def _age(request: HttpRequest) -> float | None:
    """Return the age of what the page shows, in seconds, where it says so."""
    try:
        return max(0.0, float(request.GET["age"])) + ON_THE_WAY_S
    except (KeyError, ValueError):
        return None


def event(message: dict[str, Any]) -> str:
    """One message in the format of the stream."""
    name = "resync" if message.get("kind") == "resync" else "changed"
    return f"event: {name}\ndata: {json.dumps(message)}\n\n"
