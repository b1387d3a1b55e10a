"""Server-sent events: ``/events/stream?topics=workspace:<uid>,project:<uid>&age=1.5``.

The stream says *that* something changed, never what: the page asks again through its own view,
which authorises again. ``age`` is how many seconds ago the page asked for what it shows: what was
said since then, before the stream was open, comes first. A stream holds no database connection,
is bounded per user, and ends when the session ends or the topics are no longer the user's. Other
pages than the portal's get none: they could not read it, and would take one of the user's.
"""

import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from asgiref.sync import sync_to_async
from django.contrib.auth import get_user_model
from django.db import connection
from django.http import HttpRequest, HttpResponse, StreamingHttpResponse

from common.own_page import is_foreign
from runtime import bus

HEARTBEAT_S = 15.0
RECHECK_S = 30.0
LIFE_S = 3600.0  # then the browser connects again
PER_USER = 16
MAX_TOPICS = 20
ON_THE_WAY_S = 3.0  # how long the request for the stream may take to arrive

# Given the request (with the user read afresh) and the topics asked for: those allowed.
Authorise = Callable[[HttpRequest, list[str]], list[str]]
View = Callable[[HttpRequest], Awaitable[HttpResponse | StreamingHttpResponse]]

_open: Counter[Any] = Counter()


def make_stream(authorise: Authorise) -> View:
    """Return the async view; ``authorise`` is synchronous and may read the database."""

    async def stream(request: HttpRequest) -> HttpResponse | StreamingHttpResponse:
        if is_foreign(request):
            return HttpResponse(status=403)
        asked = [t for t in request.GET.get("topics", "").split(",") if t][:MAX_TOPICS]
        user_key, allowed = await _check(request, asked, authorise)
        if user_key is None:
            return HttpResponse(status=401)
        if not allowed:
            return HttpResponse(status=404)
        if _open[user_key] >= PER_USER:
            return HttpResponse(status=429, headers={"Retry-After": "10"})
        response = StreamingHttpResponse(
            _events(request, user_key, allowed, authorise, _age(request)),
            content_type="text/event-stream",
        )
        response.headers["Cache-Control"] = "no-store"
        response.headers["X-Accel-Buffering"] = "no"
        return response

    return stream


def _age(request: HttpRequest) -> float | None:
    """Return the age of what the page shows, in seconds, where it says so."""
    try:
        return max(0.0, float(request.GET["age"])) + ON_THE_WAY_S
    except (KeyError, ValueError):
        return None


async def _check(
    request: HttpRequest, asked: list[str], authorise: Authorise
) -> tuple[Any, list[str]]:
    def look() -> tuple[Any, list[str]]:
        try:
            return _allowed_now(request, asked, authorise)
        finally:
            if not connection.in_atomic_block:
                connection.close()

    return await sync_to_async(look)()


def _allowed_now(
    request: HttpRequest, asked: list[str], authorise: Authorise
) -> tuple[Any, list[str]]:
    """Look afresh: is the session still there, the user active, the topics allowed?"""
    session = getattr(request, "session", None)
    if session is None or not session.session_key or not session.exists(session.session_key):
        return None, []
    user_key: Any = getattr(request.user, "pk", None)
    user = get_user_model().objects.filter(pk=user_key, is_active=True).first()
    if user is None:
        return None, []
    request.user = user
    return user_key, authorise(request, asked)


async def _events(
    request: HttpRequest,
    user_key: Any,
    topics: list[str],
    authorise: Authorise,
    age_s: float | None,
) -> AsyncIterator[str]:
    _open[user_key] += 1
    started = checked = time.monotonic()
    try:
        async with bus.subscription(topics, age_s=age_s) as mine:
            yield "retry: 2000\nevent: hello\ndata: {}\n\n"
            while time.monotonic() - started < LIFE_S:
                message = await mine.get(timeout_s=HEARTBEAT_S)
                if time.monotonic() - checked > RECHECK_S:
                    checked = time.monotonic()
                    key, still = await _check(request, topics, authorise)
                    if key is None or set(still) != set(topics):
                        return
                yield ": still here\n\n" if message is None else event(message)
    finally:
        _open[user_key] -= 1
        if not _open[user_key]:
            del _open[user_key]


def event(message: dict[str, Any]) -> str:
    """One message in the format of the stream."""
    name = "resync" if message.get("kind") == "resync" else "changed"
    return f"event: {name}\ndata: {json.dumps(message)}\n\n"
