"""Terminal and commands over a WebSocket.

``/gate/terminal/<id>``: bytes are keys and screen. ``/gate/exec/<id>?command=…``: the first byte
of each message is the channel (0 input, 1 output, 2 errors; 255 0 ends the input). On both, text
messages are JSON: ``resize`` from the client; ``ready``, ``ended``, ``over`` and ``error`` to it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from django.db import transaction
from django.utils.translation import gettext as _
from starlette.websockets import WebSocket, WebSocketDisconnect

from common.errors import BerthError, Invalid
from common.streams import look
from events import services as events
from gate.access import Demand, Target, running_target
from gate.callers import Caller, admitted, principal_of
from gate.web import as_error, caller_of, close_with, in_time, refuse, settle, tell
from notebooks.models import Workspace
from runtime.protocol import DriverError
from runtime.streams import STDIN, Exec

if TYPE_CHECKING:
    from gate.guard import Stream
    from gate.service import Gate

MAX_WORDS = 200
MAX_COMMAND = 4 * 1024
_END_OF_INPUT = bytes([255, STDIN])
# Not a login shell: a profile would replace the environment that the main process has.
_SHELL = (
    'cd "${HOME:-/}" 2>/dev/null || cd /; TERM=$1; COLORTERM=truecolor; export TERM COLORTERM;'
    " if command -v bash >/dev/null 2>&1; then exec bash; fi; exec sh"
)


def shell_command(term: str = "xterm-256color") -> list[str]:
    return ["/bin/sh", "-c", _SHELL, "berth", term]


async def terminal(ws: WebSocket, gate: Gate) -> None:
    size = (_number(ws.query_params.get("cols"), 80), _number(ws.query_params.get("rows"), 24))
    await _serve(ws, gate, shell_command(), kind="terminal", tty=True, size=size)


async def execute(ws: WebSocket, gate: Gate) -> None:
    command = ws.query_params.getlist("command")
    tty = ws.query_params.get("tty") == "1"
    size = (_number(ws.query_params.get("cols"), 80), _number(ws.query_params.get("rows"), 24))
    await _serve(ws, gate, command, kind="exec", tty=tty, size=size)


async def _serve(
    ws: WebSocket,
    gate: Gate,
    command: Sequence[str],
    *,
    kind: str,
    tty: bool,
    size: tuple[int, int],
) -> None:
    try:
        caller = await caller_of(ws)
    except BerthError as error:
        await refuse(ws, error)
        return
    await ws.accept()
    try:
        check_command(command)
        short_id = ws.path_params["workspace"]
        target = await admitted(caller, kind, short_id, lambda: running_target(caller, short_id))
        streams = await gate.connections.of(target.cluster_key)
        async with gate.guard.hold(kind, caller, target, Demand.OPEN) as stream:
            async with await streams.exec(target.pod, command, tty=tty) as running:
                await look(lambda: record_opened(caller, target, kind))
                if tty:
                    await running.resize(*size)
                await tell(ws, "ready")
                over = await _bridge(ws, running, stream, channels=kind == "exec")
                ended = running.ended
            if over is not None:
                await close_with(ws, over)
            else:
                message = ended.message
                if ended.code in {126, 127} or "no such file or directory" in message:
                    message = message or _("The command was not found in the container.")
                await tell(ws, "ended", code=ended.code, message=message)
                await ws.close(1000, "ended")
    except (BerthError, DriverError) as error:
        with contextlib.suppress(WebSocketDisconnect, RuntimeError):
            await close_with(ws, as_error(error))
    except (WebSocketDisconnect, RuntimeError):
        return  # the client is gone


async def _bridge(
    ws: WebSocket, running: Exec, stream: Stream, *, channels: bool
) -> BerthError | None:
    """Carry bytes both ways until one side ends; return why the gate cut it, if it did."""
    incoming = asyncio.create_task(_from_client(ws, running, stream, channels=channels))
    outgoing = asyncio.create_task(_to_client(ws, running, stream, channels=channels))
    cut = asyncio.create_task(stream.over.wait())
    tasks = {incoming, outgoing, cut}
    try:
        await asyncio.wait({outgoing, incoming, cut}, return_when=asyncio.FIRST_COMPLETED)
        if outgoing.done():
            outgoing.result()
            return None
        if cut.done():
            return BerthError(stream.why, code=stream.code)
        incoming.result()
        raise WebSocketDisconnect
    finally:
        await settle(tasks)


async def _to_client(ws: WebSocket, running: Exec, stream: Stream, *, channels: bool) -> None:
    async for channel, data in running.output():
        stream.touch()
        sending = ws.send_bytes(bytes([channel]) + data if channels else data)
        await in_time(sending, WebSocketDisconnect(1008, "too slow"))


async def _from_client(ws: WebSocket, running: Exec, stream: Stream, *, channels: bool) -> None:
    while True:
        message = await ws.receive()
        if message["type"] == "websocket.disconnect":
            return
        stream.touch()
        data = message.get("bytes")
        if data is not None:
            if not channels:
                await running.write(data)
            elif data == _END_OF_INPUT:
                await running.end_of_input()
            elif data[:1] == bytes([STDIN]):
                await running.write(data[1:])
        elif text := message.get("text"):
            await _control(running, text)


async def _control(running: Exec, text: str) -> None:
    try:
        said = json.loads(text)
        if said.get("type") == "resize":
            await running.resize(int(said["cols"]), int(said["rows"]))
    except (ValueError, KeyError, TypeError, AttributeError):
        return  # not a message of ours


def check_command(command: Sequence[str]) -> None:
    """Refuse what could never run, before the cluster is asked."""
    if not command:
        raise Invalid(_("Say which command to run."))
    if len(command) > MAX_WORDS or sum(len(word) for word in command) > MAX_COMMAND:
        raise Invalid(_("The command is too long."))
    if any("\x00" in word for word in command):
        raise Invalid(_("A command can't hold a NUL."))


def record_opened(
    caller: Caller, target: Target, kind: str, said: Mapping[str, Any] | None = None
) -> None:
    """Who entered whose workspace, for the audit."""
    record(caller, target, f"{kind}-opened", said)


def record(
    caller: Caller, target: Target, what: str, said: Mapping[str, Any] | None = None
) -> None:
    row = Workspace.objects.filter(uid=target.uid).first()
    with transaction.atomic():
        events.record(
            actor=principal_of(caller),
            verb=f"workspace.{what}",
            target=row,
            project_uid=row.project.uid if row else None,
            data={"by": caller.by, **(said or {})},
        )


def _number(text: str | None, default: int) -> int:
    return int(text) if text and text.isascii() and text.isdecimal() and len(text) < 5 else default  # noqa: PLR2004
