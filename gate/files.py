"""The files panel over HTTP. Paths are percent-encoded, relative to the home.

``list``, ``download`` and ``archive`` read; ``upload`` takes the file as the body; ``act`` makes,
renames and deletes. Contents are streamed both ways, never gathered. A page asks with ``check=1``
whether a download would be refused: the refusal of the download itself would take its place.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING
from urllib.parse import quote_from_bytes

from django.utils.translation import gettext as _
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response

from common.errors import Conflict, Invalid, Unavailable
from common.streams import look
from gate import scripts
from gate.access import Demand, Target, running_target
from gate.callers import Caller, admitted
from gate.scripts import Script, command, escaped, folder, path_of, script, short, split
from gate.terminal import record
from gate.web import SLOW_S, Broken, Piped, caller_of
from runtime.streams import Gone, Streams

if TYPE_CHECKING:
    from gate.guard import Stream
    from gate.service import Gate

MOST_BODY = 64 * 1024
PART = 256 * 1024
AUDIT_NAME = 300


async def _enter(request: Request, gate: Gate) -> tuple[Caller, Target, Streams]:
    caller = await caller_of(request)
    short_id = request.path_params["workspace"]
    target = await admitted(caller, "files", short_id, lambda: running_target(caller, short_id))
    return caller, target, await gate.connections.of(target.cluster_key)


async def list_(request: Request, gate: Gate) -> Response:
    caller, target, streams = await _enter(request, gate)
    given = request.query_params.get("path", "")
    parts = path_of(given)
    async with gate.guard.hold("files", caller, target, Demand.OPEN):
        words = (folder(given), str(scripts.MOST_LISTED))
        data = await short(streams, target.pod, command(scripts.LIST, *words))
    entries, cut = scripts.parse(data)
    body = {
        "path": scripts.shown(parts),
        "parts": [
            {"name": scripts.readable(part), "path": scripts.shown(parts[: at + 1])}
            for at, part in enumerate(parts)
        ],
        "entries": [entry.as_json(parts) for entry in entries],
        "truncated": cut,
    }
    return JSONResponse(body)


async def download(request: Request, gate: Gate) -> Response:
    return await _give(request, gate, scripts.DOWNLOAD, suffix="")


async def archive(request: Request, gate: Gate) -> Response:
    return await _give(request, gate, scripts.ARCHIVE, suffix=".tar")


async def _give(request: Request, gate: Gate, what: str, *, suffix: str) -> Response:
    caller, target, streams = await _enter(request, gate)
    given = request.query_params.get("path", "")
    parts = path_of(given)
    whole_home = not parts and suffix
    words = ("", escaped(b".")) if whole_home else split(given)
    if request.query_params.get("check") == "1":
        async with gate.guard.hold("files", caller, target, Demand.OPEN):
            await short(streams, target.pod, command(what, *words, "1"))
        return Response(status_code=204)
    stack = AsyncExitStack()
    try:
        hold = gate.guard.hold("download", caller, target, Demand.OPEN)
        stream = await stack.enter_async_context(hold)
        run = command(what, *words, "0")
        one = await stack.enter_async_context(script(streams, target.pod, run))
        await _tell_audit(caller, target, "file-downloaded", parts)
        name = (parts[-1] if parts else b"home") + suffix.encode()
        # answer with what the script writes; the answer closes ``stack``
        size = int(one.answer) if one.answer.isdecimal() else None
        headers = {"Content-Disposition": f"attachment; filename*=UTF-8''{quote_from_bytes(name)}"}
        if size is not None:
            headers["Content-Length"] = str(size)
        kind = "application/octet-stream"
        return Piped(stack, stream, _contents(one, size), media_type=kind, headers=headers)
    except BaseException:
        await stack.aclose()
        raise


async def _contents(one: Script, size: int | None) -> AsyncIterator[bytes]:
    sent = 0
    async for part in one.data():
        sent += len(part)
        yield part
    if (size is not None and sent != size) or one.running.ended.code != 0:
        raise Broken


async def upload(request: Request, gate: Gate) -> Response:
    caller, target, streams = await _enter(request, gate)
    where, name = split(request.query_params.get("path", ""))
    length = request.headers.get("content-length", "")
    if not length.isdecimal() or len(length) > 15:  # noqa: PLR2004 - a petabyte
        raise Invalid(_("Say the size of the file (Content-Length)."), code="no-length")
    replace = "1" if request.query_params.get("replace") == "1" else "0"
    words = (where, name, length, replace)
    async with gate.guard.hold("upload", caller, target, Demand.OPEN) as stream:
        run = command(scripts.UPLOAD, *words)
        async with script(streams, target.pod, run, stdin=True) as one:
            with contextlib.suppress(Gone):  # it ended early, and says why
                await _send(request, one, stream)
            await _settled(one)
        parts = path_of(request.query_params.get("path", ""))
        await _tell_audit(caller, target, "file-uploaded", parts)
    return JSONResponse({"size": int(length)}, status_code=201)


async def _tell_audit(
    caller: Caller, target: Target, kind: str, parts: tuple[bytes, ...], act: str = ""
) -> None:
    """What was carried or changed, by name: never what is in it."""
    name = "/".join(scripts.readable(part) for part in parts)[-AUDIT_NAME:]
    said = {"path": name, **({"act": act} if act else {})}
    await look(lambda: record(caller, target, kind, said))


async def _settled(one: Script) -> None:
    """End the input and read how it went; the script removes what did not arrive whole."""
    await one.running.end_of_input()
    async with asyncio.timeout(SLOW_S):
        await one.begin()


async def _send(request: Request, one: Script, stream: Stream) -> None:
    """Carry the body into the container at its own pace; cut when the sender stalls."""
    body = request.stream()
    try:
        while True:
            async with asyncio.timeout(SLOW_S):
                part = await anext(body, None)
            if part is None:
                return
            _require_access(stream)
            stream.touch()
            for at in range(0, len(part), PART):
                async with asyncio.timeout(SLOW_S):
                    await one.running.write(part[at : at + PART])
    except (ClientDisconnect, TimeoutError, Unavailable) as error:
        with contextlib.suppress(Exception):
            await _settled(one)
        raise Conflict(_("Not all of the file arrived; nothing was changed.")) from error


def _require_access(stream: Stream) -> None:
    if stream.over.is_set():
        raise Unavailable(stream.why)


async def act(request: Request, gate: Gate) -> Response:
    caller, target, streams = await _enter(request, gate)
    body = bytearray()
    async for part in request.stream():
        body += part
        if len(body) > MOST_BODY:
            raise Invalid(_("The request is too large."))
    try:
        said = json.loads(bytes(body))
    except ValueError as error:
        raise Invalid(_("The request is not JSON.")) from error
    if not isinstance(said, dict):
        raise Invalid(_("The request is not a JSON object."))
    verb, path = str(said.get("act", "")), str(said.get("path", ""))
    if verb == "mkdir":
        run = command(scripts.MKDIR, *split(path))
    elif verb == "delete":
        run = command(scripts.DELETE, *split(path))
    elif verb == "rename":
        run = command(scripts.RENAME, *split(path), *split(str(said.get("to", ""))))
    else:
        raise Invalid(_("Unknown act; it is one of mkdir, rename, delete."))
    async with gate.guard.hold("files", caller, target, Demand.OPEN):
        await short(streams, target.pod, run)
        await _tell_audit(caller, target, "file-changed", path_of(path), verb)
    return JSONResponse({"done": verb})


ROUTES = (
    ("list", list_, "GET"),
    ("download", download, "GET"),
    ("archive", archive, "GET"),
    ("upload", upload, "PUT"),
    ("act", act, "POST"),
)
