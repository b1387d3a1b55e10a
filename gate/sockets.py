"""uvicorn's WebSocket protocol: bounded in the kernel too, and no handshake stays for ever."""

from __future__ import annotations

import asyncio
import socket

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

HANDSHAKE_S = 20.0
# Left alone the kernel takes up to 4 MiB of output for each browser that does not read: memory
# that two thousand of them would take from everybody, and work for the pod that fills it.
UNREAD = 128 * 1024


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
