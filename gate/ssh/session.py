"""One shell, command or subsystem over SSH, carried into the container by exec, and ``ssh -L``:
one connection to a ``localhost`` port of the pod.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import asyncssh
import structlog
from asyncssh.stream import SSHTCPStreamSession
from django.utils.translation import gettext as _

from common.errors import BerthError
from common.streams import look
from gate.access import Demand, running_target
from gate.callers import Caller, admitted
from gate.terminal import record_opened, shell_command
from gate.web import settle
from runtime.protocol import DriverError
from runtime.streams import STDERR, Exec, Forward

if TYPE_CHECKING:
    from gate.guard import Stream
    from gate.ssh.server import Entrance

PART = 64 * 1024
AFTER_EOF_S = 60.0  # the way to the pod knows no half-close: the answer has so long to come
QUEUED = 16
NO_CODE = 255
MAX_COMMAND = 32 * 1024
log = structlog.get_logger(__name__)
_HOME = 'cd "${HOME:-/}" 2>/dev/null || cd /;'
_RUN = f'{_HOME} if command -v bash >/dev/null 2>&1; then exec bash -c "$1"; fi; exec sh -c "$1"'
_RUN_IN_TERMINAL = f"TERM=$2; export TERM; {_RUN}"
_SFTP = (
    f"{_HOME} for one in /usr/lib/openssh/sftp-server /usr/libexec/openssh/sftp-server"
    " /usr/lib/ssh/sftp-server /usr/libexec/sftp-server /usr/lib/sftp-server"
    ' "$HOME/.local/bin/sftp-server";'
    ' do [ -x "$one" ] && exec "$one"; done;'
    " echo 'This image has no sftp-server (package openssh-sftp-server): sftp and scp do not work"
    " here. Use the files page, or: berth workspace files cp' >&2; exit 127"
)


class Forwarded:
    def __init__(self, entrance: Entrance, caller: Caller, port: int) -> None:
        self._entrance, self._caller, self._port = entrance, caller, port
        self._gate, self._workspace = entrance.gate, entrance.workspace

    async def open(self) -> Any:
        """Return the session once the pod's side is open; ChannelOpenError with the reason."""
        stack = contextlib.AsyncExitStack()
        try:
            target = await admitted(
                self._caller,
                "forward",
                self._workspace,
                lambda: running_target(self._caller, self._workspace),
            )
            streams = await self._gate.connections.of(target.cluster_key)
            hold = self._gate.guard.hold("forward", self._caller, target, Demand.OPEN)
            stream = await stack.enter_async_context(hold)
            made = await streams.forward(target.pod, self._port)
            remote = await stack.enter_async_context(made)
            # once for each port and connection: a browser opens many for one page
            if self._port not in self._entrance.forwarded:
                self._entrance.forwarded.add(self._port)
                told = {"port": self._port}
                await look(lambda: record_opened(self._caller, target, "forward", told))
        except (BerthError, DriverError) as error:
            await stack.aclose()
            said = error.message if isinstance(error, BerthError) else str(error)
            raise asyncssh.ChannelOpenError(asyncssh.OPEN_CONNECT_FAILED, said) from error
        except BaseException:
            await stack.aclose()
            raise

        self._entrance.channel_opened()
        stack.callback(self._entrance.channel_closed)

        async def carry(reader: Any, writer: Any) -> None:
            async with stack:
                await _carry(remote, stream, reader, writer)

        return SSHTCPStreamSession(carry)


async def _carry(remote: Forward, stream: Stream, reader: Any, writer: Any) -> None:
    incoming = asyncio.create_task(_from_client(remote, stream, reader))
    outgoing = asyncio.create_task(_to_client(remote, stream, writer))
    # Gone for good, unlike a half-closed way: nobody is there to take the rest of an answer.
    gone = asyncio.create_task(writer.wait_closed())
    cut = asyncio.create_task(stream.over.wait())
    ends = {outgoing, gone, cut}
    first = asyncio.FIRST_COMPLETED
    try:
        await asyncio.wait({incoming, *ends}, return_when=first)
        if not any(end.done() for end in ends):
            await asyncio.wait(ends, timeout=AFTER_EOF_S, return_when=first)
    finally:
        await settle({incoming, *ends})
        with contextlib.suppress(Exception):
            writer.close()


async def _from_client(remote: Forward, stream: Stream, reader: Any) -> None:
    while data := await reader.read(PART):
        stream.touch()
        await remote.send(data)


async def _to_client(remote: Forward, stream: Stream, writer: Any) -> None:
    async for data in remote.received():
        stream.touch()
        writer.write(data)
        await writer.drain()


def command_of(command: str | None, subsystem: str | None, term: str) -> list[str] | None:
    """Return what to run in the container; None for a subsystem that we do not have."""
    if subsystem is not None:
        return ["/bin/sh", "-c", _SFTP, "berth"] if subsystem == "sftp" else None
    if command is None:
        return shell_command(term or "dumb")
    if term:
        return ["/bin/sh", "-c", _RUN_IN_TERMINAL, "berth", command, term]
    return ["/bin/sh", "-c", _RUN, "berth", command]


class Session(asyncssh.SSHServerSession[bytes]):
    """asyncssh calls in; one task carries bytes. Reading pauses when the container is slow."""

    def __init__(self, entrance: Entrance, caller: Caller) -> None:
        self._entrance, self._caller = entrance, caller
        self._gate, self._workspace = entrance.gate, entrance.workspace
        self._chan: Any = None
        self._input: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._held = 0  # bytes in the queue
        self._paused = False
        self._writable = asyncio.Event()
        self._writable.set()
        self._size: tuple[int, int] | None = None
        self._resized = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._term = ""

    # --- called by asyncssh ----------------------------------------------------------------------

    def connection_made(self, chan: Any) -> None:
        self._chan = chan
        self._entrance.channel_opened()

    def pty_requested(self, term_type: str, term_size: Any, term_modes: Any) -> bool:
        del term_modes
        self._term = "".join(c for c in (term_type or "xterm")[:64] if c.isprintable())
        self._size = (term_size[0] or 80, term_size[1] or 24)
        return True

    def terminal_size_changed(self, width: int, height: int, pixwidth: int, pixheight: int) -> None:
        del pixwidth, pixheight
        self._size = (width, height)
        self._resized.set()

    def shell_requested(self) -> bool:
        return True

    def exec_requested(self, command: str) -> bool:
        return len(command) <= MAX_COMMAND and "\x00" not in command

    def subsystem_requested(self, subsystem: str) -> bool:
        return subsystem == "sftp"

    def session_started(self) -> None:
        self._task = asyncio.create_task(self._run())

    def data_received(self, data: bytes, datatype: Any) -> None:
        del datatype
        self._input.put_nowait(data)
        self._held += len(data)
        if self._held > QUEUED * 32768 and not self._paused:
            self._paused = True
            self._chan.pause_reading()

    def eof_received(self) -> bool:
        self._input.put_nowait(None)
        return True  # the command may go on writing

    def break_received(self, msec: int) -> bool:
        del msec
        return False

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    def connection_lost(self, exc: Exception | None) -> None:
        del exc
        self._entrance.channel_closed()
        self._writable.set()
        if self._task is not None:
            self._task.cancel()

    # --- the work -----------------------------------------------------------------------------

    async def _run(self) -> None:
        code = NO_CODE
        try:
            code = await self._carry()
        except (BerthError, DriverError) as error:
            self._say(error.message if isinstance(error, BerthError) else str(error))
        except (OSError, asyncssh.Error):
            pass  # the client is gone
        except Exception:
            log.exception("gate.ssh_failed")
            self._say(_("Something went wrong in the gate."))
        finally:
            if not self._chan.is_closing():
                self._chan.exit(code)

    async def _carry(self) -> int:
        command = command_of(self._chan.get_command(), self._chan.get_subsystem(), self._term)
        if command is None:
            return NO_CODE
        target = await admitted(
            self._caller,
            "ssh",
            self._workspace,
            lambda: running_target(self._caller, self._workspace),
        )
        streams = await self._gate.connections.of(target.cluster_key)
        async with self._gate.guard.hold("ssh", self._caller, target, Demand.OPEN) as stream:
            started = streams.exec(target.pod, command, tty=bool(self._term))
            async with await started as running:
                await look(lambda: record_opened(self._caller, target, "ssh"))
                if self._size:
                    await running.resize(*self._size)
                outgoing = asyncio.create_task(self._to_client(running, stream))
                incoming = asyncio.create_task(self._from_client(running, stream))
                resizing = asyncio.create_task(self._resize(running))
                cut = asyncio.create_task(stream.over.wait())
                try:
                    await asyncio.wait({outgoing, cut}, return_when=asyncio.FIRST_COMPLETED)
                    if outgoing.done():
                        outgoing.result()
                finally:
                    await settle({outgoing, incoming, resizing, cut})
                if stream.over.is_set():
                    self._say(stream.why)
                    return NO_CODE
                if running.ended.code is None:
                    said = running.ended.message
                    if "no such file or directory" in said.lower():
                        said = _("The image has no shell.")
                    self._say(said)
                    return NO_CODE
                return running.ended.code

    async def _to_client(self, running: Exec, stream: Stream) -> None:
        async for channel, data in running.output():
            stream.touch()
            await self._writable.wait()
            if channel == STDERR:
                self._chan.write_stderr(data)
            else:
                self._chan.write(data)
        await self._writable.wait()

    async def _from_client(self, running: Exec, stream: Stream) -> None:
        while True:
            data = await self._input.get()
            if data is None:
                await running.end_of_input()
                continue
            self._held -= len(data)
            if self._paused and self._held <= 0:
                self._paused = False
                self._chan.resume_reading()
            stream.touch()
            await running.write(data)

    async def _resize(self, running: Exec) -> None:
        while True:
            await self._resized.wait()
            self._resized.clear()
            if self._size:
                await running.resize(*self._size)

    def _say(self, sentence: str) -> None:
        if sentence and not self._chan.is_closing():
            end = "\r\n" if self._term else "\n"
            self._chan.write_stderr(f"berth: {sentence}{end}".encode())
