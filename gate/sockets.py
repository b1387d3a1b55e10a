"""uvicorn's WebSocket protocol, with an end for handshakes that come to nothing."""

from __future__ import annotations

import asyncio

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol

HANDSHAKE_S = 20.0


class SocketProtocol(WebSocketsSansIOProtocol):
    """A request that can't be read (a line too long, too many headers) is closed, not kept."""

    _timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
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
