"""Following the log of a workspace on a cluster: server-sent events, as the portal's own.

``reset`` begins anew with the end of what is kept, ``log`` adds to it, ``end`` is the end of this
container, ``unavailable`` means that there is no log yet (or just now), ``gone`` that access ended.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import json
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

from starlette.requests import Request
from starlette.responses import Response

from gate.access import Demand, target_of
from gate.callers import admitted
from gate.web import Piped, caller_of
from runtime.protocol import DriverError
from runtime.streams import Pod, Streams

if TYPE_CHECKING:
    from gate.guard import Stream
    from gate.service import Gate

TAIL_LINES = 2000
HEARTBEAT_S = 15.0
RETRY_S = 2.0
PART = 64 * 1024
QUEUED = 4


async def follow(request: Request, gate: Gate) -> Response:
    caller = await caller_of(request)
    short_id = request.path_params["workspace"]
    target = await admitted(
        caller, "logs", short_id, lambda: target_of(caller, short_id, Demand.LOGS)
    )
    streams = await gate.connections.of(target.cluster_key)
    stack = contextlib.AsyncExitStack()
    hold = gate.guard.hold("logs", caller, target, Demand.LOGS)
    stream = await stack.enter_async_context(hold)
    return Piped(
        stack,
        stream,
        _events(streams, target.pod, stream),
        media_type="text/event-stream",
        headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"},
    )


async def _events(streams: Streams, pod: Pod, stream: Stream) -> AsyncIterator[bytes]:
    yield b"retry: 2000\n\n"
    while not stream.over.is_set():
        first = True
        try:
            async for part in _parts(streams, pod):
                if part is None:
                    yield b": still here\n\n"
                    continue
                yield _event("reset" if first else "log", text=part, offset=0)
                first = False
        except DriverError as error:
            yield _event("unavailable", message=str(error))
            await asyncio.sleep(RETRY_S)
            continue
        yield _event("end", offset=0)
        return


async def _parts(streams: Streams, pod: Pod) -> AsyncIterator[str | None]:
    """Yield text as it comes, None when nothing came for a while."""
    queue: asyncio.Queue[bytes | Exception | None] = asyncio.Queue(QUEUED)
    reading = asyncio.create_task(_read(streams, pod, queue))
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    try:
        while True:
            try:
                async with asyncio.timeout(HEARTBEAT_S):  # wait_for may swallow a cancellation
                    item = await queue.get()
            except TimeoutError:
                yield None
                continue
            if isinstance(item, Exception):
                raise item
            if item is None:
                return
            if text := decoder.decode(item):
                yield text
    finally:
        reading.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await reading


async def _read(streams: Streams, pod: Pod, queue: asyncio.Queue[bytes | Exception | None]) -> None:
    """Gather small writes, so that a line costs no event of its own when many come."""
    try:
        async with contextlib.aclosing(streams.log(pod, follow=True, tail=TAIL_LINES)) as log:
            async for data in log:
                for at in range(0, len(data), PART):
                    await queue.put(data[at : at + PART])
        await queue.put(None)
    except DriverError as error:
        await queue.put(error)


def _event(name: str, **said: Any) -> bytes:
    return f"event: {name}\ndata: {json.dumps(said)}\n\n".encode()
