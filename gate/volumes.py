"""The files of a volume over HTTP: who may, then carried to the server beside the data.

What the acts are: docs/dev/files.md. One request is streamed both ways and never gathered. Nothing
of the caller's goes along but what is listed here: no cookie, no token of the portal.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any
from uuid import UUID

import httpx
from django.utils.translation import gettext as _
from starlette.requests import ClientDisconnect, Request
from starlette.responses import Response

from common import disk
from common.errors import BerthError, Invalid, NotFound, Unavailable
from common.streams import look
from dataplane.files.names import Refusal, path_of
from files import in_use
from files.words import sentence
from gate.access import Demand, VolumeTarget, note_deleted, note_written, volume_target
from gate.callers import admitted
from gate.web import BODIES, SAFE, SLOW_S, Broken, Piped, caller_of
from volumes.backing import lies_here

if TYPE_CHECKING:
    from gate.access import VolumeTarget
    from gate.callers import Caller
    from gate.guard import Stream
    from gate.service import Gate

CONNECT_S, ANSWER_S = 5.0, 75.0
MOST_PROBLEM = 64 * 1024
MOST_CONNECTIONS = 2000
_TO = ("range", "if-range", "if-none-match", "content-type", "content-length", "x-berth-checksum")
_BACK = (
    *("content-type", "content-length", "content-disposition", "content-range"),
    *("etag", "last-modified", "accept-ranges"),
)
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE")
_TO_READ = frozenset({"count", "selection"})  # asked by POST because a list is long
_WRITTEN = frozenset({"file", "copy", "delete", "extract", "restore", "uploads"})
_GROWS = frozenset({"copy", "extract", "mkdir", "uploads"})
_TAKES_AWAY = frozenset({"delete", "move", "rename"})
MOST_NAMED = 1024 * 1024  # bytes that say what goes, where something of the volume is in use
MEASURED_EVERY_S = 60.0


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
        body: AsyncIterator[bytes] | bytes | None = None
        if request.method in BODIES:
            arrives = body = _body(request, stream)
            if act in _TAKES_AWAY:
                body = await _without_what_is_in_use(request, target, arrives)
        sent = {name: request.headers[name] for name in _TO if name in request.headers}
        sent["authorization"] = f"Bearer {target.token}"
        sent["accept-encoding"] = "identity"
        sent["x-berth-person"] = target.person_uid
        if target.room is not None:
            sent["x-berth-room"] = str(target.room)
        asked = self._client.build_request(
            request.method,
            httpx.URL(f"http://{target.address}/{act}", query=_query(request)),
            headers=sent,
            content=body,
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


async def _without_what_is_in_use(
    request: Request, target: VolumeTarget, body: AsyncIterator[bytes]
) -> AsyncIterator[bytes] | bytes:
    """Return the body once it takes nothing away that is in use; only then it is read here."""
    volume = UUID(target.short_id)
    if not await look(lambda: any(in_use.has_any(volume))):
        return body
    if int(request.headers["content-length"]) > MOST_NAMED:
        raise Invalid(_("Name fewer files at once: some of this volume are in use."))
    data = b"".join([part async for part in body])
    said = _json(data)
    given = said.get("paths") if "paths" in said else [said.get("path", "")]
    try:
        paths = [path_of(str(path)) for path in given] if isinstance(given, list) else []
    except Refusal:
        return data  # which the server refuses in its own words
    await look(lambda: in_use.check(volume, paths))
    return data


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


async def serve(request: Request, gate: Gate) -> Response:
    caller = await caller_of(request)
    uid, act = request.path_params["volume"], request.path_params["act"]
    first = act.partition("/")[0]
    if ".." in act or not act.replace("/", "").isalnum():
        raise NotFound(_("There is no such act."))
    reads = request.method in SAFE or first in _TO_READ
    demand = Demand.READ if reads else Demand.CHANGE
    if request.method in BODIES and not request.headers.get("content-length", "").isdecimal():
        raise Invalid(_("Say how long the request is (Content-Length)."), code="no-length")
    target = await admitted(caller, "volume-files", uid, lambda: volume_target(caller, uid, demand))
    # whether it writes; what is deleted, put back, renamed or finished takes none to speak of
    if request.method in {"PUT", "PATCH"} or (request.method == "POST" and act in _GROWS):
        # leave the portal's own disk the room that it needs for what runs
        coming = int(request.headers["content-length"])
        # in a thread: a disk that is asked for its room may take its time
        if await look(lambda: disk.is_short(coming=coming) and lies_here(uid)):
            raise disk.DiskFull
    stack = AsyncExitStack()
    try:
        stream = await stack.enter_async_context(
            gate.guard.hold("volume-files", caller, target, demand)
        )
        answer = await gate.carrier.carry(request, target, act, stream)
        stack.push_async_callback(answer.aclose)
        if not reads and first in _WRITTEN:
            await _note(caller, target, first)
    except BaseException:
        await stack.aclose()
        raise
    made = Piped(
        stack,
        stream,
        contents(answer),
        media_type=answer.headers.get("content-type", "application/octet-stream"),
        headers=back(answer),
    )
    made.status_code = answer.status_code
    return made


_measured: dict[str, float] = {}


async def _note(caller: Caller, target: VolumeTarget, act: str) -> None:
    """Deletions are history; after any writing the volume is measured anew, now and then."""
    if act == "delete":
        await look(lambda: note_deleted(caller, target.short_id))
    at = time.monotonic()
    if at - _measured.get(target.short_id, -MEASURED_EVERY_S) < MEASURED_EVERY_S:
        return
    if len(_measured) > 10_000:  # noqa: PLR2004 - volumes written to since the start
        _measured.clear()
    _measured[target.short_id] = at
    note_written(target.short_id)
