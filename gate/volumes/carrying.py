"""One request to the server beside the data, streamed both ways and never gathered.

Nothing of the caller's goes along but what is listed here: no cookie, no token of the portal.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from typing import TYPE_CHECKING, Any

import httpx
from django.utils.translation import gettext as _
from starlette.requests import ClientDisconnect, Request

from common.errors import BerthError, Unavailable
from files.words import sentence
from gate.piped import SLOW_S, Broken
from gate.web import BODIES

if TYPE_CHECKING:
    from gate.guard import Stream
    from gate.volumes.access import VolumeTarget

CONNECT_S, ANSWER_S = 5.0, 75.0
MOST_PROBLEM = 64 * 1024
MOST_CONNECTIONS = 2000
_TO = ("range", "if-range", "if-none-match", "content-type", "content-length", "x-berth-checksum")
_BACK = (
    *("content-type", "content-length", "content-disposition", "content-range"),
    *("etag", "last-modified", "accept-ranges"),
)


class Carrier:
    """The connections to all servers; made when the first one is needed."""

    def __init__(self) -> None:
        self._made: httpx.AsyncClient | None = None

    @property
    def _client(self) -> httpx.AsyncClient:
        if self._made is None:
            limits = httpx.Limits(max_connections=MOST_CONNECTIONS, keepalive_expiry=30.0)
            timeout = httpx.Timeout(SLOW_S, connect=CONNECT_S, read=ANSWER_S)
            self._made = httpx.AsyncClient(
                limits=limits, timeout=timeout, trust_env=False, follow_redirects=False
            )
        return self._made

    async def carry(
        self, request: Request, target: VolumeTarget, act: str, stream: Stream
    ) -> httpx.Response:
        """Return the answer with its body unread; raise what the server refused."""
        asked = self._client.build_request(
            request.method,
            httpx.URL(f"http://{target.address}/{act}", query=_query(request)),
            headers=_headers(request, target),
            content=_body(request, stream) if request.method in BODIES else None,
        )
        try:
            answer = await self._client.send(asked, stream=True)
        except httpx.TransportError as error:
            raise Unavailable(
                _("The file browser does not answer; try again in a moment."), code="files-away"
            ) from error
        if answer.status_code >= httpx.codes.BAD_REQUEST:
            raise await _refusal(answer)
        return answer

    async def aclose(self) -> None:
        if self._made is not None:
            await self._made.aclose()


def back(answer: httpx.Response) -> dict[str, str]:
    """Return the headers that may go to the caller."""
    return {name: answer.headers[name] for name in _BACK if name in answer.headers}


async def contents(answer: httpx.Response) -> AsyncIterator[bytes]:
    """Yield the body; what breaks on the way must not look whole."""
    try:
        async for part in answer.aiter_raw():
            yield part
    except httpx.TransportError as error:
        raise Broken from error


def _query(request: Request) -> bytes:
    """What was asked, as it was spelled: a tenant runs that server, so no ticket goes there."""
    parts = request.url.query.split("&")
    return "&".join(part for part in parts if not part.startswith("ticket=")).encode()


def _headers(request: Request, target: VolumeTarget) -> dict[str, str]:
    sent = {name: request.headers[name] for name in _TO if name in request.headers}
    sent["authorization"] = f"Bearer {target.token}"
    sent["accept-encoding"] = "identity"
    sent["x-berth-person"] = target.person_uid
    if target.room is not None:
        sent["x-berth-room"] = str(target.room)
    return sent


async def _body(request: Request, stream: Stream) -> AsyncIterator[bytes]:
    """Yield the request's body at the pace of both ends; ends when access does."""
    parts = request.stream()
    while True:
        try:
            async with asyncio.timeout(SLOW_S):
                part = await anext(parts, None)
        except (ClientDisconnect, TimeoutError) as error:
            raise Unavailable(_("Not all of it arrived; it can be gone on with.")) from error
        if part is None:
            return
        if stream.over.is_set():
            raise BerthError(stream.why, code=stream.code)
        stream.touch()
        yield part


async def _refusal(answer: httpx.Response) -> BerthError:
    """Put the server's word into a sentence for people."""
    data = bytearray()
    try:
        async for part in answer.aiter_bytes():
            data += part
            if len(data) > MOST_PROBLEM:
                break
    except httpx.TransportError:
        data.clear()
    finally:
        await answer.aclose()
    said = _json(data)
    code = str(said.get("code", ""))
    if not code or answer.status_code == httpx.codes.UNAUTHORIZED:
        return Unavailable(_("The file browser does not answer as expected."), code="files-away")
    detail = sentence(code, str(said.get("detail", "")))
    more = {k: v for k, v in said.items() if k in {"offset", "room"} and isinstance(v, int)}
    error = BerthError(detail, code=code, extra=more)
    error.status = answer.status_code
    return error


def _json(data: bytes | bytearray) -> Mapping[str, Any]:
    try:
        said = json.loads(bytes(data))
    except ValueError:
        return {}
    return said if isinstance(said, dict) else {}
