"""uvicorn as ``web`` and the gate run it: nobody holds a connection who neither asks nor takes."""

from __future__ import annotations

import asyncio
import contextlib
import math
import socket
from collections.abc import Iterator
from typing import Any

import h11
import uvicorn
from django.conf import settings
from uvicorn.protocols.http.h11_impl import H11Protocol

from common.crowd import CUT, Bounds, Connection, bounded, of_transport, raise_file_limit

BACKLOG = 1024
MOST = 20_000  # connections of one listener: each may cost some 30 KiB
OWING, OWING_OF_ADDRESS = 4096, 512
PROGRESS = 1024  # bytes of a body in the time that it has: fewer are none
STUCK_S = 60.0  # nothing of an answer was taken for so long
_SENTENCE = b"The request did not arrive in time. Send it again.\n"
_LATE = (
    b"HTTP/1.1 408 Request Timeout\r\nContent-Type: text/plain; charset=utf-8\r\n"
    b"Content-Length: %d\r\nConnection: close\r\n\r\n%s" % (len(_SENTENCE), _SENTENCE)
)


class Protocol(H11Protocol):
    """Tells when the client owes something; cuts who is late, and an answer that nobody takes."""

    _mine: Connection | None = None
    _phase: Any = None  # h11's, of what is under way; None before its first byte
    _more = 0  # of a body, since its last progress
    _left = math.inf  # of an answer, when it was last looked at
    _stuck: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)  # type: ignore[arg-type]
        self._mine = of_transport(transport)
        if self._mine is not None:
            self._mine.protocol = self
            self._mine.owes()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._mine is None:
            return
        phase = self.conn.their_state
        if phase is not self._phase:  # a head begins, or is whole, or the request is
            self._phase, self._more = phase, 0
            if phase in {h11.IDLE, h11.SEND_BODY}:
                self._mine.owes()
            else:
                self._mine.owes_nothing()
        elif phase is h11.SEND_BODY:
            self._more += len(data)
            if self._more >= PROGRESS:
                self._more = 0
                self._mine.owes()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        if self._mine is not None:
            their = self.conn.their_state
            self._phase = None if their is h11.IDLE else their
            if their is not h11.DONE:  # else the next one is being answered
                self._mine.owes()

    def handle_websocket_upgrade(self, event: h11.Request) -> None:
        if self._mine is not None:  # its protocol has a time of its own for the handshake
            self._mine.owes_nothing()
            self._mine.protocol = None
            self._mine = None
        super().handle_websocket_upgrade(event)

    def may_stay(self) -> bool:
        return self.flow.read_paused or self._takes()

    def let_go(self, *, in_words: bool) -> None:
        is_asking = self._phase is h11.IDLE or (
            self._phase is h11.SEND_BODY and not self.cycle.response_started
        )
        if is_asking and in_words and not self.transport.is_closing():
            self.transport.write(_LATE)
        self.transport.close()
        if not in_words or self.transport.get_write_buffer_size():
            self.transport.abort()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._stuck = self.loop.call_later(STUCK_S, self._look_again)

    def resume_writing(self) -> None:
        super().resume_writing()
        self._take_it_easy()

    def connection_lost(self, exc: Exception | None) -> None:
        super().connection_lost(exc)
        self._take_it_easy()

    def _take_it_easy(self) -> None:
        if self._stuck is not None:
            self._stuck.cancel()
            self._stuck = None

    def _look_again(self) -> None:
        if self._takes():
            self._stuck = self.loop.call_later(STUCK_S, self._look_again)
        else:
            CUT.labels("stuck").inc()
            self.transport.abort()

    def _takes(self) -> bool:
        """Whether some of what is to be sent was taken since this was last asked."""
        before, self._left = self._left, self.transport.get_write_buffer_size() or math.inf
        return self._left < before


class Listener(uvicorn.Server):
    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield  # one process, several servers: signals are taken once, by who runs them


def config(app: Any, **extra: Any) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=Protocol,
        lifespan="off",
        loop="asyncio",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=settings.BERTH_BEHIND_TLS_PROXY,
        timeout_keep_alive=30,
        backlog=BACKLOG,
        **extra,
    )


def tls() -> dict[str, Any]:
    """Return what ``config`` takes of the certificate, where Berth speaks TLS itself."""
    if not settings.BERTH_TLS_CERT:
        return {}
    return {"ssl_certfile": settings.BERTH_TLS_CERT, "ssl_keyfile": settings.BERTH_TLS_KEY}


def for_browsers(sock: socket.socket) -> socket.socket:
    """Take over a public listener. Behind a proxy of ours all connections have its address."""
    most = _most()
    if settings.BERTH_BEHIND_TLS_PROXY or settings.BERTH_TRUST_FORWARDED_FOR:
        return bounded(sock, Bounds(most, most, OWING, OWING))
    of_address = min(most, settings.BERTH_CONNECTIONS_PER_ADDRESS)
    return bounded(sock, Bounds(most, of_address, OWING, min(OWING_OF_ADDRESS, of_address)))


def for_workloads(sock: socket.socket) -> socket.socket:
    """Take over an internal listener: on one machine all workloads have the same address."""
    most = _most()
    return bounded(sock, Bounds(most, most, OWING, OWING_OF_ADDRESS))


def _most() -> int:
    # Each of two listeners takes less than half of the files; the rest is for what they ask.
    return min(MOST, raise_file_limit() * 2 // 5)
