"""``ssh -L``: one connection to a ``localhost`` port of the pod."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import asyncssh
from asyncssh.stream import SSHTCPStreamSession

from common.errors import BerthError
from common.streams import look
from gate.access import Demand, Target, running_target
from gate.callers import Caller
from gate.denials import admitted
from gate.terminal import record_opened, settle
from runtime.protocol import DriverError
from runtime.streams import Forward

if TYPE_CHECKING:
    from gate.guard import Stream
    from gate.ssh.server import Entrance

PART = 64 * 1024
AFTER_EOF_S = 60.0  # the way to the pod knows no half-close: the answer has so long to come


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
            await self._tell_audit(target)
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

    async def _tell_audit(self, target: Target) -> None:
        """Once for each port and connection: a browser opens many for one page."""
        if self._port not in self._entrance.forwarded:
            self._entrance.forwarded.add(self._port)
            told = {"port": self._port}
            await look(lambda: record_opened(self._caller, target, "forward", told))


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
