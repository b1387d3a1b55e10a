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
import resource
import socket
import time
import typing
from collections import Counter, OrderedDict
from dataclasses import dataclass
from typing import Any

import prometheus_client
import structlog

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


class Protocol(typing.Protocol):
    """What reads a connection and knows how it ends."""

    def may_stay(self) -> bool:
        """Whether it is late through no fault of the other side."""

    def let_go(self, *, in_words: bool) -> None: ...


class Connection(socket.socket):
    """An accepted socket, counted until it is closed."""

    crowd: Crowd
    address: str
    protocol: Protocol | None = None  # none before its handshake is over

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
