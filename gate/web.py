"""What HTTP and WebSocket handlers share: who asks, from which page, how a no is told, and answers
that stream: bounded by their reader, ended when their stream must.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
from collections.abc import AsyncIterator, Awaitable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest
from django.utils import translation
from django.utils.html import format_html
from django.utils.safestring import mark_safe
from django.utils.translation import gettext as _
from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, JSONResponse, PlainTextResponse, Response
from starlette.types import Receive, Scope, Send
from starlette.websockets import WebSocket

from common.errors import CONTENT_TYPE, BerthError, Forbidden, NotFound, Unavailable, problem_body
from common.streams import look
from gate import callers, guard
from gate.callers import Caller, SignedOut
from runtime.protocol import DriverError
from runtime.streams import Gone

if TYPE_CHECKING:
    from gate.guard import Stream

MAX_HEADER = 256
MAX_TICKET = 1024
SAFE = frozenset({"GET", "HEAD"})
BODIES = frozenset({"POST", "PUT", "PATCH"})
SLOW_S = 60.0  # a reader that takes nothing for so long is cut


async def alive(_request: Request) -> Response:
    return PlainTextResponse("ok\n")


def portal_origin() -> str:
    parts = urlsplit(settings.BERTH_PUBLIC_URL)
    return f"{parts.scheme}://{parts.netloc}"


def address_of(conn: HTTPConnection) -> str:
    """The peer's address; forwarded headers count only behind a declared proxy."""
    if getattr(settings, "BERTH_TRUST_FORWARDED_FOR", False):
        forwarded = conn.headers.get("x-forwarded-for", "")
        if forwarded:
            return forwarded.split(",")[-1].strip()[:64]
    return conn.client.host[:64] if conn.client else ""


async def caller_of(conn: HTTPConnection) -> Caller:
    """Return who asks: by API token, or by a ticket of the portal's page, never by a cookie.

    From here on the request is answered in that person's language, as the portal's pages are.
    """
    # what the browser asks for, by the portal's cookie or its own header
    asked = HttpRequest()
    asked.COOKIES = dict(conn.cookies)
    asked.META["HTTP_ACCEPT_LANGUAGE"] = conn.headers.get("accept-language", "")
    ip, language = address_of(conn), translation.get_language_from_request(asked)
    translation.activate(language)  # every request runs in a context of its own
    header = conn.headers.get("authorization", "")
    scheme, _sep, secret = header.partition(" ")
    if scheme.lower() == "bearer":
        if len(header) > MAX_HEADER:
            raise SignedOut(_("This token is unknown, expired or revoked."))
        found = await look(lambda: callers.from_token(secret.strip(), ip))
        return replace(found, language=language)
    if conn.headers.get("origin") not in {None, portal_origin()}:
        raise Forbidden(_("Only pages of the portal may do this."), code="foreign-origin")
    name = conn.path_params.get("workspace") or conn.path_params.get("volume", "")
    ticket = conn.query_params.get("ticket", "")[:MAX_TICKET]
    caller = await look(lambda: callers.from_ticket(ticket, name, ip, language))
    translation.activate(caller.language)
    return caller


def as_error(error: Exception) -> BerthError:
    """Translate what went wrong into what people are told."""
    if isinstance(error, BerthError):
        return error
    if isinstance(error, Gone):
        return NotFound(str(error), code="no-container")
    if isinstance(error, DriverError):
        return Unavailable(str(error))
    raise error


def problem(error: BerthError) -> Response:
    body = problem_body(error.status, error.code, error.message, extra=error.extra)
    return JSONResponse(
        body, status_code=error.status, headers=error.headers, media_type=CONTENT_TYPE
    )


_STYLE = (
    "body{font:1rem/1.5 system-ui,sans-serif;max-width:40rem;margin:4rem auto;padding:0 1rem}"
    "h1{font-size:1.5rem}"
)
_STYLE_HASH = base64.b64encode(hashlib.sha256(_STYLE.encode()).digest()).decode()
_PAGE = (
    '<!doctype html><html lang="{}"><head><meta charset="utf-8">'
    '<meta name="viewport" content="width=device-width"><title>{}</title>'
    '<meta name="color-scheme" content="light dark"><style>{}</style></head>'
    '<body><main><h1>{}</h1><p>{}</p><p><a href="{}">{}</a></p></main></body></html>'
)


def refusal(request: Request, error: BerthError) -> Response:
    """Tell a program that it can't be; who followed a link reads it on a page."""
    accepts = request.headers.get("accept", "")
    if request.method not in SAFE or "text/html" not in accepts:
        return cors(problem(error))
    heading, home = _("This did not work"), (settings.BERTH_PUBLIC_URL, _("Home"))
    language = translation.get_language() or settings.LANGUAGE_CODE
    style = mark_safe(_STYLE)  # noqa: S308 - as it stands above
    text = format_html(_PAGE, language, heading, style, heading, error.message, *home)
    page = cors(HTMLResponse(text, status_code=error.status))
    page.headers["Content-Security-Policy"] += f"; style-src 'sha256-{_STYLE_HASH}'"
    return page


def cors(response: Response) -> Response:
    """Lets the portal's page, and no other, read the answer."""
    response.headers["Access-Control-Allow-Origin"] = portal_origin()
    response.headers["Access-Control-Expose-Headers"] = (
        "Content-Length, Content-Disposition, Content-Range, ETag"
    )
    response.headers["Vary"] = "Origin"
    response.headers["X-Content-Type-Options"] = "nosniff"
    response.headers["Cross-Origin-Resource-Policy"] = "same-origin"
    response.headers["Content-Security-Policy"] = "default-src 'none'; frame-ancestors 'none'"
    response.headers.setdefault("Cache-Control", "no-store")
    return response


async def tell(ws: WebSocket, kind: str, **said: Any) -> None:
    await ws.send_text(json.dumps({"type": kind, **said}))


async def refuse(ws: WebSocket, error: BerthError) -> None:
    """Before the socket is open: a plain HTTP answer. A page can't read it, a program can."""
    await ws.send_denial_response(problem(error))


async def close_with(ws: WebSocket, error: BerthError) -> None:
    """On an open socket: say it in words, then close with 4000 + the HTTP status."""
    await tell(ws, "error", code=error.code, message=error.message)
    await ws.close(4000 + error.status, error.code[:100])


async def settle(tasks: set[asyncio.Task[Any]]) -> None:
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)


async def in_time(sending: Awaitable[None], slow: Exception) -> None:
    """Send, or give up on a reader that takes nothing."""
    try:
        async with asyncio.timeout(SLOW_S):
            await sending
    except TimeoutError:
        guard.STREAMS_CUT.labels("slow").inc()
        raise slow from None


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
                await settle({whole, gone, cut})

    async def _send_all(self, send: Send) -> None:
        started = {"type": "http.response.start", "status": self.status_code}
        await send({**started, "headers": self.raw_headers})
        async with contextlib.aclosing(self._body) as parts:  # type: ignore[type-var]
            async for part in parts:
                self._stream.touch()
                body = {"type": "http.response.body", "body": part, "more_body": True}
                await in_time(send(body), Broken())
        await in_time(send({"type": "http.response.body", "body": b""}), Broken())


async def _until_gone(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
