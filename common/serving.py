"""How many connections a listener holds, and which it lets go.

A connection *owes* while the other side has to send something: its TLS handshake, the head of a
request, the rest of a body, the next request. Who owes holds a file and memory for nothing: such
connections are few for each address and let go when they are late; what is being answered is left
alone. Counted are sockets, from ``accept`` to ``close``: no protocol, and no handshake, passes by.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import math
import resource
import socket
import time
import typing
from collections import Counter, OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import h11
import prometheus_client
import structlog
import uvicorn
from django.conf import settings
from uvicorn.protocols.http.h11_impl import H11Protocol

from common.metrics import REGISTRY

OWED_S = 30.0  # for a whole head, for the next KiB of a body, for the next request
SWEEP_S = 1.0
SAY_EVERY_S = 60.0
CUT = prometheus_client.Counter(
    "berth_connections_cut_total",
    "Connections let go: late, or too many of one address or in all.",
    ["why"],
    registry=REGISTRY,
)
log = structlog.get_logger(__name__)
_open: dict[int, Connection] = {}  # by file number, which is one connection's until it is closed


@dataclass(frozen=True)
class Bounds:
    most: int = 20_000  # in all, of one listener
    most_of_address: int = 20_000
    owing: int = 4096
    owing_of_address: int = 512


def raise_file_limit() -> int:
    """Let this process open as many files as it may; return how many."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard


def of_transport(transport: asyncio.BaseTransport) -> Connection | None:
    sock = transport.get_extra_info("socket")
    return None if sock is None else _open.get(sock.fileno())


class Reader(typing.Protocol):
    """What reads a connection and knows how it ends."""

    def may_stay(self) -> bool:
        """Whether it is late through no fault of the other side."""

    def let_go(self, *, in_words: bool) -> None: ...


class Connection(socket.socket):
    """An accepted socket, counted until it is closed."""

    crowd: Crowd
    address: str
    protocol: Reader | None = None  # none before its handshake is over

    def close(self) -> None:
        if _open.get(self.fileno()) is self:
            del _open[self.fileno()]
        self.crowd.left(self)
        super().close()

    def owes(self) -> None:
        self.crowd.owes(self)

    def owes_nothing(self) -> None:
        self.crowd.owes_nothing(self)


class Listening(socket.socket):
    """A listening socket whose connections are counted."""

    crowd: Crowd

    def accept(self) -> tuple[socket.socket, Any]:
        while True:
            plain, address = super().accept()
            one = Connection(plain.family, plain.type, plain.proto, fileno=plain.detach())
            one.crowd, one.address = self.crowd, _network(address)
            if self.crowd.joined(one):
                _open[one.fileno()] = one
                return one, address
            one.close()


def bounded(sock: socket.socket, bounds: Bounds) -> Listening:
    """Take over a listening socket, so that its connections are counted."""
    listening = Listening(fileno=sock.detach())
    listening.crowd = Crowd(bounds)
    return listening


class Crowd:
    """The connections of one listener."""

    def __init__(self, bounds: Bounds) -> None:
        self.bounds = bounds
        self._of_address: Counter[str] = Counter()
        self._all: set[Connection] = set()
        # Whose last progress is the longest ago comes first.
        self._owing: OrderedDict[Connection, float] = OrderedDict()
        self._owing_of: dict[str, OrderedDict[Connection, None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._said = 0.0

    def __len__(self) -> int:
        return len(self._all)

    def joined(self, one: Connection) -> bool:
        """Count it in; where there is no room, who owes for the longest makes it."""
        mine, bounds = self._owing_of.get(one.address), self.bounds
        if self._of_address[one.address] >= bounds.most_of_address and not self._cut_first(mine):
            return False
        if len(self._all) >= bounds.most and not self._cut_first(self._owing):
            return False
        self._all.add(one)
        self._of_address[one.address] += 1
        self.owes(one)
        if len(self._owing_of[one.address]) > bounds.owing_of_address:
            self._cut_first(self._owing_of[one.address])
        if len(self._owing) > bounds.owing:
            self._cut_first(self._owing)
        return True

    def left(self, one: Connection) -> None:
        self.owes_nothing(one)
        if one not in self._all:
            return
        self._all.discard(one)
        self._of_address[one.address] -= 1
        if not self._of_address[one.address]:
            del self._of_address[one.address]

    def owes(self, one: Connection) -> None:
        """From now on, or anew: it has just made progress."""
        if one not in self._all:
            return  # it was let go
        self._owing[one] = time.monotonic()
        self._owing.move_to_end(one)
        mine = self._owing_of.setdefault(one.address, OrderedDict())
        mine[one] = None
        mine.move_to_end(one)
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(SWEEP_S, self._sweep)

    def owes_nothing(self, one: Connection) -> None:
        if self._owing.pop(one, None) is None:
            return
        mine = self._owing_of[one.address]
        del mine[one]
        if not mine:
            del self._owing_of[one.address]

    def _sweep(self) -> None:
        self._timer = None
        late = time.monotonic() - OWED_S
        while self._owing:
            one, since = next(iter(self._owing.items()))
            if since > late:
                self._timer = asyncio.get_running_loop().call_later(SWEEP_S, self._sweep)
                return
            self._cut(one, "late")

    def _cut_first(self, owing: OrderedDict[Connection, Any] | None) -> bool:
        if not owing:
            return False
        one = next(iter(owing))
        if time.monotonic() - self._said > SAY_EVERY_S:
            self._said = time.monotonic()
            log.warning("connections.crowded", address=one.address, open=len(self._all))
        self._cut(one, "crowd")
        return True

    def _cut(self, one: Connection, why: str) -> None:
        if why == "late" and one.protocol is not None and one.protocol.may_stay():
            self.owes(one)
            return
        CUT.labels(why).inc()
        self.left(one)
        if one.protocol is not None:
            one.protocol.let_go(in_words=why == "late")
            return
        with contextlib.suppress(OSError):  # it has gone by itself
            one.shutdown(socket.SHUT_RDWR)  # its transport sees the end, and closes


def _network(address: Any) -> str:
    """Who is counted together: an IPv4 address, of IPv6 the network that one machine may have."""
    host = str(address[0]).partition("%")[0] if address else ""
    if ":" not in host:
        return host
    found = ipaddress.IPv6Address(host)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.IPv6Network((found, 64), strict=False))


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
