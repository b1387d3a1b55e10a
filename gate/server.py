"""``python -m gate``: one process with three listeners, for browsers, for the portal, for SSH.

Sockets may come from the manager (``--fd``, ``--internal-fd``, ``--ssh-fd``), which keeps them
while this process is replaced; without them the ports of the settings are bound here.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import signal
import socket
from collections.abc import Sequence
from typing import Any

import uvicorn
from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

from common import serving
from common.memory import loading
from common.serving import BACKLOG, Listener

HANDSHAKE_S = 20.0
# Left alone the kernel takes up to 4 MiB of output for each browser that does not read: memory
# that two thousand of them would take from everybody, and work for the pod that fills it.
UNREAD = 128 * 1024
DRAIN_S = 8.0
GRACE_S = 3
MAX_MESSAGE = 256 * 1024


class SocketProtocol(WebSocketsSansIOProtocol):
    """A request that can't be read (a line too long, too many headers) is closed, not kept."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        sock = transport.get_extra_info("socket")
        if sock is not None:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, UNREAD)
        self._timer = self.loop.call_later(HANDSHAKE_S, self._give_up)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.conn.handshake_exc is not None and not self.handshake_initiated:
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
        super().connection_lost(exc)

    def _give_up(self) -> None:
        if not self.handshake_complete:
            self.transport.close()


def config(app: Any, **extra: Any) -> uvicorn.Config:
    return serving.config(
        app,
        ws=SocketProtocol,
        ws_max_size=MAX_MESSAGE,
        ws_ping_interval=20,
        ws_ping_timeout=30,
        ws_per_message_deflate=False,
        timeout_graceful_shutdown=GRACE_S,
        **extra,
    )


async def serve(
    public: socket.socket, internal: socket.socket, ssh: socket.socket | None = None
) -> None:
    from gate import internal as inside
    from gate.service import Gate
    from gate.ssh.server import SshServer

    gate = Gate()
    servers = [
        (Listener(config(gate.app(), **serving.tls())), serving.for_browsers(public)),
        (Listener(config(inside.app(gate))), serving.for_workloads(internal)),
    ]
    told = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, told.set)
    watching = asyncio.create_task(gate.guard.run())
    shells = await SshServer(gate).start(ssh) if ssh is not None else None
    gc.collect()
    gc.freeze()
    running = [asyncio.create_task(server.serve(sockets=[one])) for server, one in servers]
    stopping = asyncio.create_task(told.wait())
    await asyncio.wait([*running, stopping], return_when=asyncio.FIRST_COMPLETED)
    await gate.guard.drain(DRAIN_S)
    if shells is not None:
        await shells.stop()
    for server, _one in servers:
        server.should_exit = True
    await asyncio.gather(*running)
    watching.cancel()
    stopping.cancel()
    await gate.aclose()


def bound(fd: int | None, address: str, port: int) -> socket.socket:
    """Return the listening socket that was handed over, or bind one."""
    if fd is not None:
        return socket.socket(fileno=fd)
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    one = socket.socket(family, socket.SOCK_STREAM)
    one.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    one.bind((address, port))
    one.listen(BACKLOG)
    return one


def main(argv: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m gate")
    for name in ("--fd", "--internal-fd", "--ssh-fd"):
        parser.add_argument(name, type=int)
    options = parser.parse_args(argv)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "portal.settings.dev")
    with loading():
        import django

        django.setup()
    from django.conf import settings

    address = "127.0.0.1" if settings.BERTH_BIND == "localhost" else settings.BERTH_BIND
    inside = settings.BERTH_GATE_INTERNAL_BIND
    public = bound(options.fd, address, settings.BERTH_GATE_PORT)
    internal = bound(options.internal_fd, inside, settings.BERTH_GATE_INTERNAL_PORT)
    ssh = None
    if settings.BERTH_SSH_PORT:
        ssh = bound(options.ssh_fd, address, settings.BERTH_SSH_PORT)
    asyncio.run(serve(public, internal, ssh))
    return 0
