"""Reading what a workload wrote: bounded parts by offset, through the driver."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from django.utils.translation import gettext as _

from clusters.registry import driver_for
from common.errors import BerthError, Conflict, Unavailable
from common.streams import Place, Places, look
from runtime import bus
from runtime.capabilities.workloads import SupportsLogs
from runtime.protocol import DriverError, Unreachable

PART = 64 * 1024
TAIL = 256 * 1024
MAX_DOWNLOAD = 64 * 1024 * 1024
_SCAN = 256 * 1024


@dataclass(frozen=True)
class LogPart:
    """``next_offset`` is where to go on; the same as the offset asked: nothing new yet."""

    data: bytes
    offset: int
    next_offset: int

    @property
    def text(self) -> str:
        return self.data.decode(errors="replace")


Read = Callable[..., LogPart]  # by ``offset`` and ``limit``


def log_read(
    cluster_key: str, uid: str, *, offset: int = 0, limit: int = PART, replica: int = 0
) -> LogPart:
    """Return one part of the log. Takes plain values: a stream holds no row."""
    try:
        driver = driver_for(cluster_key)
        if not isinstance(driver, SupportsLogs):
            raise Conflict(_("This cluster keeps no logs."), code="no-logs")
        data, following = driver.read_log(uid, offset=offset, limit=limit, replica=replica)
    except Unreachable as error:
        raise Unavailable(_("What it runs on does not answer; its logs are kept there.")) from error
    except DriverError as error:
        raise Unavailable(str(error)) from error
    return LogPart(data, offset, following)


def log_tail(read: Read, *, limit: int = TAIL) -> LogPart:
    """Return the end of the log, at most ``limit`` bytes of it."""
    offset, kept = 0, b""
    while True:
        part = read(offset=offset, limit=_SCAN)
        kept = (kept + part.data)[-limit:]
        if part.next_offset == offset or not part.data:
            return LogPart(kept, max(0, part.next_offset - len(kept)), part.next_offset)
        offset = part.next_offset


# Following logs and states: server-sent events that hold no database connection.
#
# A stream ends when access ends (it is asked again every half minute), when what it follows is
# over, or after an hour; a person may hold a bounded number of them.


POLL_S = 0.7
QUIET = 4  # times as long between two looks into a log that has said nothing for a while
HEARTBEAT_S = 15.0
RECHECK_S = 30.0
LIFE_S = 3600.0

places = Places(8)
# Logs lie on clusters that may be slow; whether somebody still has access is never behind them.
_reads = ThreadPoolExecutor(4, thread_name_prefix="log-read")


@dataclass(frozen=True)
class Follower:
    """Whose stream it is. Whatever a stream calls is synchronous and holds no row."""

    place: Place
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


async def follow_log(what: FollowedLog, *, offset: int) -> AsyncIterator[str]:
    """Yield ``log`` events with text and the next offset, then ``end`` when it is over.

    ``reset`` is a ``log`` whose text stands for all that was told before.
    """
    with what.who.place:
        started = checked = spoken = time.monotonic()
        over = anew = False
        pause = POLL_S
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
                pause = POLL_S
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
            over = await look(what.over)
            if over:
                continue  # its last words may have come since they were asked for
            if time.monotonic() - spoken > HEARTBEAT_S:
                spoken = time.monotonic()
                yield ": still here\n\n"
            await asyncio.sleep(pause)
            pause = min(pause * 1.2, POLL_S * QUIET)


async def follow_state(what: FollowedState) -> AsyncIterator[str]:
    """Yield the whole state at first and at each change; ends when it is gone."""
    with what.who.place:
        started, last = time.monotonic(), ""
        async with bus.subscription([what.topic]) as mine:
            yield "retry: 2000\n\n"
            while time.monotonic() - started < LIFE_S:
                if not await _still_allowed(what.who):
                    return
                state = await look(what.state)
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


def _event(name: str, data: dict[str, Any], *, id_: str = "") -> str:
    head = f"id: {id_}\n" if id_ else ""
    return f"{head}event: {name}\ndata: {json.dumps(data)}\n\n"


async def _still_allowed(who: Follower) -> bool:
    try:
        await look(who.allowed)
    except BerthError:
        return False
    return True


async def _read(what: FollowedLog, offset: int) -> LogPart | None:
    try:
        return await look(partial(what.read, offset=offset), _reads)
    except BerthError:
        return None
