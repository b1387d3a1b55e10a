"""A streamed answer that is bounded by its reader and ends when its stream must."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING

from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from gate import metrics
from runtime.protocol import DriverError

if TYPE_CHECKING:
    from gate.guard import Stream

SLOW_S = 60.0


class Broken(Exception):  # noqa: N818 - named as what it is
    """The rest does not come: the answer must not look whole."""


class Piped(Response):
    """Sends what ``body`` yields, then closes ``stack``, which holds the stream and its source.

    When the body breaks, the reader is slow or access ends, the connection is cut, so that no
    half of a file looks like all of it.
    """

    def __init__(
        self,
        stack: contextlib.AsyncExitStack,
        stream: Stream,
        body: AsyncIterator[bytes],
        *,
        media_type: str,
        headers: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(media_type=media_type, headers=dict(headers or {}))
        if "content-length" not in (headers or {}):
            del self.headers["content-length"]
        self._stack, self._stream, self._body = stack, stream, body

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        del scope
        async with self._stack:
            whole = asyncio.create_task(self._send_all(send))
            gone = asyncio.create_task(_until_gone(receive))
            cut = asyncio.create_task(self._stream.over.wait())
            try:
                await asyncio.wait({whole, gone, cut}, return_when=asyncio.FIRST_COMPLETED)
                if whole.done():
                    with contextlib.suppress(Broken, DriverError):
                        whole.result()
            finally:
                for task in (whole, gone, cut):
                    task.cancel()
                await asyncio.gather(whole, gone, cut, return_exceptions=True)

    async def _send_all(self, send: Send) -> None:
        started: Message = {
            "type": "http.response.start",
            "status": self.status_code,
            "headers": self.raw_headers,
        }
        await send(started)
        async with contextlib.aclosing(self._body) as parts:  # type: ignore[type-var]
            async for part in parts:
                self._stream.touch()
                await _in_time(send, part, more=True)
        await _in_time(send, b"", more=False)


async def _in_time(send: Send, part: bytes, *, more: bool) -> None:
    try:
        async with asyncio.timeout(SLOW_S):
            await send({"type": "http.response.body", "body": part, "more_body": more})
    except TimeoutError:
        metrics.CUT.labels("slow").inc()
        raise Broken from None


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
