"""What HTTP and WebSocket handlers share: who asks, from which page, and how a no is told."""

from __future__ import annotations

import base64
import hashlib
import json
from dataclasses import replace
from typing import Any
from urllib.parse import urlsplit

from django.conf import settings
from django.http import HttpRequest
from django.utils import translation
from django.utils.html import format_html
from django.utils.safestring import mark_safe
from django.utils.translation import gettext as _
from starlette.requests import HTTPConnection, Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.websockets import WebSocket

from common.errors import CONTENT_TYPE, BerthError, Forbidden, NotFound, Unavailable, problem_body
from common.streams import look
from gate import callers
from gate.callers import Caller, SignedOut
from runtime.protocol import DriverError
from runtime.streams import Gone

MAX_HEADER = 256
MAX_TICKET = 1024
SAFE = frozenset({"GET", "HEAD"})
BODIES = frozenset({"POST", "PUT", "PATCH"})


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
    ip, language = address_of(conn), _asked_language(conn)
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


def _asked_language(conn: HTTPConnection) -> str:
    """What the browser asks for, by the portal's cookie or its own header."""
    asked = HttpRequest()
    asked.COOKIES = dict(conn.cookies)
    asked.META["HTTP_ACCEPT_LANGUAGE"] = conn.headers.get("accept-language", "")
    return translation.get_language_from_request(asked)


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
