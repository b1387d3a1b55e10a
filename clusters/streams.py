"""Following logs and states: server-sent events that hold no database connection.

A stream ends when access ends (it is asked again every half minute), when what it follows is
over, or after an hour; a person may hold a bounded number of them.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

from asgiref.sync import sync_to_async
from django.db import connection
from django.http import StreamingHttpResponse
from django.utils.translation import gettext as _

from clusters.logs import LogPart
from common.errors import BerthError
from runtime import bus

POLL_S = 0.7
HEARTBEAT_S = 15.0
RECHECK_S = 30.0
LIFE_S = 3600.0
PER_USER = 8

_open: Counter[str] = Counter()


class TooManyStreams(BerthError):  # noqa: N818 - named like its siblings in common.errors
    status = 429
    code = "too-many-streams"


@dataclass(frozen=True)
class Follower:
    """Whose stream it is. Whatever a stream calls is synchronous and holds no row."""

    user_key: str
    allowed: Callable[[], Any]  # raises BerthError when access ended


@dataclass(frozen=True)
class FollowedLog:
    who: Follower
    read: Callable[..., LogPart]  # from ``offset`` on
    over: Callable[[], bool]  # nothing will be written any more


@dataclass(frozen=True)
class FollowedState:
    who: Follower
    topic: str  # of the bus: it may have changed
    state: Callable[[], dict[str, Any] | None]  # None: it is gone


def respond(events: AsyncIterator[str]) -> StreamingHttpResponse:
    response = StreamingHttpResponse(events, content_type="text/event-stream")
    response.headers["Cache-Control"] = "no-store"
    response.headers["X-Accel-Buffering"] = "no"
    return response


def require_slot(user_key: str) -> None:
    if _open[user_key] >= PER_USER:
        raise TooManyStreams(_("Too many streams are open at once; close some pages."))


async def follow_log(what: FollowedLog, *, offset: int) -> AsyncIterator[str]:
    """Yield ``log`` events with text and the next offset, then ``end`` when it is over.

    ``reset`` is a ``log`` whose text stands for all that was told before.
    """
    with _Slot(what.who.user_key):
        started = checked = spoken = time.monotonic()
        over = anew = False
        yield "retry: 2000\n\n"
        while time.monotonic() - started < LIFE_S:
            if time.monotonic() - checked > RECHECK_S:
                checked = time.monotonic()
                if not await _still_allowed(what.who):
                    return
            part = await _read(what, offset)
            if part is None:
                yield _event("unavailable", {})
                await asyncio.sleep(POLL_S * 5)
                continue
            if part.data:
                offset, spoken = part.next_offset, time.monotonic()
                said = {"text": part.text, "offset": offset}
                yield _event("reset" if anew else "log", said, id_=str(offset))
                anew = False
                continue
            if part.next_offset < offset:  # another pod took its place and begins a log anew
                offset, anew = 0, True
                continue
            if over:
                yield _event("end", {"offset": offset})
                return
            over = await _quietly(what.over)
            if over:
                continue  # its last words may have come since they were asked for
            if time.monotonic() - spoken > HEARTBEAT_S:
                spoken = time.monotonic()
                yield ": still here\n\n"
            await asyncio.sleep(POLL_S)


async def follow_state(what: FollowedState) -> AsyncIterator[str]:
    """Yield the whole state at first and at each change; ends when it is gone."""
    with _Slot(what.who.user_key):
        started, last = time.monotonic(), ""
        async with bus.subscription([what.topic]) as mine:
            yield "retry: 2000\n\n"
            while time.monotonic() - started < LIFE_S:
                if not await _still_allowed(what.who):
                    return
                state = await _quietly(what.state)
                if state is None:
                    yield _event("gone", {})
                    return
                told = json.dumps(state, default=str)
                if told != last:
                    last = told
                    yield f"event: state\ndata: {told}\n\n"
                message = await mine.get(timeout_s=HEARTBEAT_S)
                if message is None:
                    yield ": still here\n\n"


class _Slot:
    def __init__(self, user_key: str) -> None:
        self._key = user_key

    def __enter__(self) -> None:
        _open[self._key] += 1

    def __exit__(self, *_error: object) -> None:
        _open[self._key] -= 1
        if _open[self._key] <= 0:
            del _open[self._key]


def _event(name: str, data: dict[str, Any], *, id_: str = "") -> str:
    head = f"id: {id_}\n" if id_ else ""
    return f"{head}event: {name}\ndata: {json.dumps(data)}\n\n"


async def _still_allowed(who: Follower) -> bool:
    try:
        await _quietly(who.allowed)
    except BerthError:
        return False
    return True


async def _read(what: FollowedLog, offset: int) -> LogPart | None:
    try:
        return await sync_to_async(_closing(what.read), thread_sensitive=False)(offset=offset)
    except BerthError:
        return None


async def _quietly(look: Callable[[], Any]) -> Any:
    return await sync_to_async(_closing(look))()


def _closing(look: Callable[..., Any]) -> Callable[..., Any]:
    """Give the connection back at once: a stream lives long and asks rarely."""

    def run(*args: Any, **kwargs: Any) -> Any:
        try:
            return look(*args, **kwargs)
        finally:
            if not connection.in_atomic_block:
                connection.close()

    return run
