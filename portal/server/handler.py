"""Django's handler, and what goes on after a request: streams are told when it is over.

While a request lasts it has a thread of its own for the views and middleware that are synchronous.
A stream that went on inside of it would keep that thread, the request and all that hangs on it for
as long as somebody listens: thousands of them, and pages wait behind them.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import json
from collections.abc import AsyncIterator
from typing import Any

from asgiref.sync import ThreadSensitiveContext
from django.conf import settings
from django.core.handlers.asgi import ASGIHandler
from prometheus_client import Gauge

from common import memory
from common.metrics import REGISTRY
from common.streams import EventStream

OPEN = Gauge("berth_event_streams_open", "Event streams that are open.", registry=REGISTRY)
EBB_S = 5.0


class _Answer:
    """Sends a response; of a stream only the head, and keeps the rest for later."""

    def __init__(self, send: Any) -> None:
        self.send = send
        self.stream: AsyncIterator[str] | None = None
        self.context: contextvars.Context | None = None  # whose language it speaks

    async def __call__(self, message: Any) -> None:
        if self.stream is None or message["type"] == "http.response.start":
            await self.send(message)


class _Body:
    """What comes of a request, until it is more than any door takes.

    All of it lies on the disk before anybody asks who sends it.
    """

    def __init__(self, scope: Any, receive: Any, send: Any) -> None:
        said = dict(scope["headers"]).get(b"content-length", b"")
        self._receive, self._send, self.most = receive, send, most_of_a_body()
        self._left = self.most
        self._declared = int(said) if said.isdigit() else 0

    async def __call__(self) -> Any:
        message = {"type": "http.request"} if self._declared > self.most else await self._receive()
        self._left -= len(message.get("body") or b"")
        if self._left >= 0 and self._declared <= self.most:
            return message
        detail = f"This is larger than the {self.most // 2**20} MiB that Berth takes at once."
        text = json.dumps({"status": 413, "title": "Too large", "detail": detail}).encode()
        headers = [(b"content-type", b"application/problem+json"), (b"connection", b"close")]
        await self._send({"type": "http.response.start", "status": 413, "headers": headers})
        await self._send({"type": "http.response.body", "body": text})
        return {"type": "http.disconnect"}


def most_of_a_body() -> int:
    """Return how many bytes a request may have: a package of code is the largest."""
    return (max(settings.BERTH_PACKAGE_MIB, 64) + 1) * 2**20


async def _nothing() -> AsyncIterator[bytes]:
    return
    yield b""


class Handler(ASGIHandler):
    def __init__(self) -> None:
        super().__init__()
        self._ebb = memory.Ebb()
        self._ebbing: asyncio.Task[None] | None = None
        self._open = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            message = f"Only HTTP is served here, not {scope['type']}."
            raise ValueError(message)
        answer = _Answer(send)
        async with ThreadSensitiveContext():
            await self.handle(scope, _Body(scope, receive, send), answer)
        if answer.stream is None:
            return
        telling = asyncio.get_running_loop().create_task(
            _tell(answer.stream, send), context=answer.context
        )
        del answer
        self._count(1)
        try:
            while (await receive())["type"] != "http.disconnect":
                pass
        finally:
            telling.cancel()
            self._count(-1)
            with contextlib.suppress(asyncio.CancelledError):
                await telling

    async def send_response(self, response: Any, send: Any) -> None:
        if isinstance(response, EventStream):
            send.stream, send.context = response.events, contextvars.copy_context()
            response.streaming_content = _nothing()
        await super().send_response(response, send)

    def _count(self, more: int) -> None:
        self._open += more
        OPEN.set(self._open)
        self._ebb.rise(self._open)
        if more < 0 and (self._ebbing is None or self._ebbing.done()):
            self._ebbing = asyncio.get_running_loop().create_task(self._give_back())

    async def _give_back(self) -> None:
        """Some have left: when many did, what they held goes back to the system."""
        await asyncio.sleep(EBB_S)
        while self._ebb.has_fallen(self._open):
            await asyncio.to_thread(memory.give_back)
            await asyncio.sleep(EBB_S)


async def _tell(stream: AsyncIterator[str], send: Any) -> None:
    async with contextlib.aclosing(stream) as parts:  # type: ignore[type-var]
        async for part in parts:
            body = part.encode()
            await send({"type": "http.response.body", "body": body, "more_body": True})
    await send({"type": "http.response.body"})
