"""What the libraries of stores send, over connections of ours: checked, bounded, to be cut.

Libraries wait in threads. Each thing they do is a ``Call``, which the client watches like any
connection: an answer that does not come, or only drips, is cut, and so is all when a run ends.
"""

from __future__ import annotations

import io
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar
from urllib.parse import urlsplit

from urllib3.connection import HTTPConnection
from urllib3.connectionpool import HTTPConnectionPool
from urllib3.exceptions import HTTPError

from dataplane.copy.connector import SCHEMES, Dialer, Endpoint
from dataplane.copy.http1 import COLLECT_MAX, Broken, Watched
from dataplane.copy.problems import Code, Final, Stop
from dataplane.sending import Received

T = TypeVar("T")
MOST = 64  # calls at once
BLOCK = 256 * 1024
ELSEWHERE = "The store sends elsewhere, and loads follow no redirects."
_here = threading.local()


class Call(Watched):
    """One thing that a library does, in a thread of its own. Watched as a ``Connection`` is."""

    def __init__(self) -> None:
        self._error: Exception | None = None
        self._ended = threading.Event()
        self._socket: socket.socket | None = None

    def run(self, act: Callable[[], T]) -> T:
        """Carry ``act`` out here; what ``fail`` was told is what it raises then."""
        _here.call = self
        try:
            self._go_on()
            return act()
        except Exception:
            self._go_on()
            raise
        finally:
            _here.call = None

    def soon(self, act: Callable[[], None]) -> None:
        act()

    def fail(self, error: Exception) -> None:
        self._error = self._error or error
        self._ended.set()
        if self._socket is not None:
            with suppress(OSError):  # not by TLS's own way, which is not for two threads
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def close(self) -> None:
        self.fail(Broken("The run ended."))

    def holds(self, connected: socket.socket) -> None:
        self._socket = connected
        self._go_on()

    def wait(self, seconds: float) -> None:
        """Hold back, for the bandwidth's sake."""
        self.paused = True
        self._ended.wait(seconds)
        self.paused = False
        self._go_on()

    def _go_on(self) -> None:
        if self._error is not None:
            raise self._error from None


class Transport:
    """Sends to these endpoints and nowhere else."""

    def __init__(self, dialer: Dialer, *endpoints: Endpoint) -> None:
        self._pools = {one.place: _pool(dialer, one) for one in endpoints}
        self._hosts = {one.place: one.header() for one in endpoints}

    def close(self) -> None:
        for pool in self._pools.values():
            pool.close()

    def __call__(self, method: str, url: str, headers: Mapping[str, str], body: Any) -> Received:
        parts = urlsplit(url)
        place = (parts.hostname, parts.port or SCHEMES[parts.scheme], parts.scheme == "https")
        if place not in self._pools:
            raise Stop(Final.REFUSED_ADDRESS, ELSEWHERE)
        call = _call()
        sent: Any = _Body(call, body) if isinstance(body, io.IOBase) else body
        try:
            response = self._pools[place].urlopen(
                method,
                url[url.index("/", len(parts.scheme) + 3) :],
                body=sent,
                headers={**headers, "Host": self._hosts[place]},
                retries=False,
                preload_content=False,
                decode_content=False,
            )
            with response:
                whole = bytearray()
                for piece in response.stream(BLOCK, decode_content=False):
                    whole += piece
                    call.got += len(piece)
                    if len(whole) > COLLECT_MAX:
                        raise Broken("The answer is larger than it may be.", Code.TOO_LARGE)
        except (HTTPError, OSError):
            raise Broken("The store closed the connection in the middle.") from None
        fields = {name.lower(): value for name, value in response.headers.items()}
        return Received(response.status, fields, bytes(whole))


def _call() -> Call:
    """Return what this thread does for us; a library's own threads may ask nothing."""
    call: Call | None = getattr(_here, "call", None)
    if call is None:
        raise RuntimeError
    return call


class _Body:
    """What is read of a file to be sent, counted; ``went`` of the file says how long to wait."""

    def __init__(self, call: Call, file: Any) -> None:
        self._call = call
        self._file = file

    def read(self, count: int = -1) -> bytes:
        data: bytes = self._file.read(count)
        self._call.got += len(data)
        if wait := self._file.went(len(data)):
            self._call.wait(wait)
        return data


def _pool(dialer: Dialer, endpoint: Endpoint) -> HTTPConnectionPool:
    class Checked(HTTPConnection):
        """TLS, too, is the dialer's: whatever this is told of the scheme."""

        def _new_conn(self) -> socket.socket:
            return dialer.open(endpoint, _call().holds)

        def request(self, *values: Any, **named: Any) -> None:
            if self.sock is not None:
                _call().holds(self.sock)
            super().request(*values, **named)

    pool = HTTPConnectionPool(
        endpoint.host, endpoint.port, maxsize=MOST, retries=False, timeout=None, blocksize=BLOCK
    )
    pool.ConnectionCls = Checked
    return pool
