"""The one way out: how Berth reaches an address that a user wrote.

A name is resolved once, every answer is checked, and the socket is opened to that very address,
so that a second answer of the name server changes nothing. Redirects are never followed,
proxies and ``.netrc`` of the machine are never used, and time and size are bounded. Only the
operator's settings on disk may open a private range.
"""

from __future__ import annotations

import ipaddress
import queue
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

import httpcore
from django.conf import settings
from django.utils.translation import gettext as _

from common import trust
from dataplane import addresses
from dataplane.addresses import (
    IPAddress,
    NotAHost,
    Policy,
)


class Trouble(StrEnum):
    ADDRESS = "address"  # not an address at all, or one that is written to confuse
    REFUSED = "refused"  # leads where Berth does not go
    UNKNOWN_HOST = "unknown-host"
    UNREACHABLE = "unreachable"
    TIMEOUT = "timeout"
    TLS = "tls"
    TOO_LARGE = "too-large"
    PROTOCOL = "protocol"  # the other side does not speak HTTP properly


class OutboundError(Exception):
    """One answer for every way in which a request did not come to an answer."""

    def __init__(
        self, trouble: Trouble, text: str, values: Mapping[str, str | int] | None = None
    ) -> None:
        """``text`` with places for ``values``: who keeps it can say it in another language."""
        self.text, self.values = text, dict(values or {})
        self.message = text % self.values if self.values else text
        super().__init__(self.message)
        self.trouble = trouble


def clean_host(host: str) -> str:
    """Return the host in one spelling, or raise: a name, or an address in its usual form."""
    try:
        return addresses.clean_host(host)
    except NotAHost as error:
        raise _wrong(error) from None


def split_host(text: str, *, default_port: int) -> tuple[str, int]:
    """Split ``host``, ``host:port`` or ``[v6]:port``; raise when it is neither."""
    try:
        return addresses.split_host(text, default_port=default_port)
    except NotAHost as error:
        raise _wrong(error) from None


def _wrong(error: NotAHost) -> OutboundError:
    return OutboundError(
        Trouble.ADDRESS, _("“%(host)s” is not the name of a host."), {"host": error.shown}
    )


def policy_from_settings() -> Policy:
    """Return what the operator's settings allow."""
    ports = frozenset(map(int, settings.BERTH_OUTBOUND_PORTS))
    openings = tuple(map(addresses.opening, settings.BERTH_OUTBOUND_ALLOW))
    hosts = settings.BERTH_INSECURE_REGISTRIES
    plain = frozenset(addresses.split_host(host, default_port=80) for host in hosts)
    return Policy(ports, openings, plain)


TRIED = 4  # addresses of one name
Resolve = Callable[[str, int, float], list[IPAddress]]


class Deadline:
    """A moment after which nothing is waited for, however slowly bytes drip."""

    def __init__(self, at: float) -> None:
        self._at = at

    def left(self, at_most: float | None = None) -> float:
        left = self._at - time.monotonic()
        if left <= 0:
            raise OutboundError(Trouble.TIMEOUT, _("It did not answer in time."))
        return left if at_most is None else min(left, at_most)


class GuardedBackend(httpcore.NetworkBackend):
    """Opens connections for the pool; the name stays the one of SNI and of the Host header."""

    def __init__(self, policy: Policy, deadline: Deadline, resolve: Resolve) -> None:
        self._policy = policy
        self._deadline = deadline
        self._resolve = resolve
        self._sockets = httpcore.SyncBackend()

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,  # noqa: ARG002 - the pool's signature
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        found = self._resolve(host, port, self._deadline.left(timeout))
        allowed = [a for a in found if self._policy.permits(host, a, port)][:TRIED]
        if not allowed:
            raise OutboundError(
                Trouble.REFUSED, _("It is not at a public address, and Berth asks only those.")
            )
        for n, address in enumerate(allowed):
            try:
                stream = self._sockets.connect_tcp(
                    str(address), port, self._deadline.left(timeout), None, socket_options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout):
                if n == len(allowed) - 1:
                    raise
                continue
            return GuardedStream(self._checked(stream, host, port), self._deadline)
        raise AssertionError  # the loop returns or raises

    def connect_unix_socket(self, *_args: Any, **_kwargs: Any) -> httpcore.NetworkStream:
        raise OutboundError(Trouble.ADDRESS, _("This is not a web address."))

    def _checked(
        self, stream: httpcore.NetworkStream, host: str, port: int
    ) -> httpcore.NetworkStream:
        """Believe the socket, not the list: it says where it really leads."""
        peer = stream.get_extra_info("server_addr")
        address = ipaddress.ip_address(str(peer[0]).partition("%")[0])
        if not self._policy.permits(host, address, port) or peer[1] != port:
            stream.close()
            raise OutboundError(Trouble.REFUSED, _("It leads to another address than it said."))
        return stream


class GuardedStream(httpcore.NetworkStream):
    """A stream that ends at the deadline."""

    def __init__(self, stream: httpcore.NetworkStream, deadline: Deadline) -> None:
        self._stream = stream
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._stream.read(max_bytes, self._deadline.left(timeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._stream.write(buffer, self._deadline.left(timeout))

    def close(self) -> None:
        self._stream.close()

    def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,
    ) -> httpcore.NetworkStream:
        inner = self._stream.start_tls(ssl_context, server_hostname, self._deadline.left(timeout))
        return GuardedStream(inner, self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def system_resolve(host: str, port: int, seconds: float) -> list[IPAddress]:
    """Ask the name server once, at most ``seconds`` long (it knows no limit of its own)."""
    try:
        return [ipaddress.ip_address(host)]
    except ValueError:
        pass
    answers: queue.SimpleQueue[list[str] | None] = queue.SimpleQueue()

    def ask() -> None:
        try:
            found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
            answers.put([str(entry[4][0]) for entry in found])
        except (OSError, UnicodeError):
            answers.put(None)

    threading.Thread(target=ask, name="outbound-resolve", daemon=True).start()
    try:
        found = answers.get(timeout=seconds)
    except queue.Empty:
        raise OutboundError(Trouble.TIMEOUT, _("Its name was not answered in time.")) from None
    if not found:
        raise OutboundError(Trouble.UNKNOWN_HOST, _("There is no host of this name."))
    return [ipaddress.ip_address(text.partition("%")[0]) for text in dict.fromkeys(found)]


URL_MAX = 2048
_DEFAULT_PORTS = {"http": 80, "https": 443}
_AGENT = "berth/1"


@dataclass(frozen=True)
class Bounds:
    """``seconds`` and ``total_bytes`` are for the client's whole life, not for one request."""

    seconds: float = 5.0
    body_bytes: int = 4 * 1024 * 1024
    total_bytes: int = 16 * 1024 * 1024
    requests: int = 12
    schemes: frozenset[str] = frozenset({"https"})


@dataclass(frozen=True)
class Answer:
    """Header names are in small letters; the first of several counts."""

    status: int
    headers: Mapping[str, str]
    body: bytes


@dataclass
class _Target:
    url: httpcore.URL
    host_header: bytes = field(default=b"")


class Client:
    """Use as a context manager. Not for several threads."""

    def __init__(
        self, policy: Policy, bounds: Bounds | None = None, *, resolve: Resolve = system_resolve
    ) -> None:
        self._policy = policy
        self._bounds = bounds or Bounds()
        self._deadline = Deadline(time.monotonic() + self._bounds.seconds)
        self._bytes_left = self._bounds.total_bytes
        self._requests_left = self._bounds.requests
        self._pool = httpcore.ConnectionPool(
            ssl_context=trust.authorities(),
            max_connections=4,
            http1=True,
            http2=False,
            network_backend=GuardedBackend(policy, self._deadline, resolve),
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        self._pool.close()

    def request(
        self,
        method: str,
        url: str,
        *,
        headers: Mapping[str, str] | None = None,
        content: bytes | None = None,
        insecure: bool = False,
    ) -> Answer:
        """Ask once; a redirect is an answer like any other.

        ``insecure`` allows plain http for an address that the operator named.
        """
        if self._requests_left <= 0:
            raise OutboundError(Trouble.PROTOCOL, _("It asks for too many further requests."))
        self._requests_left -= 1
        target = self._target(url, insecure=insecure)
        sent = [(b"Host", target.host_header), (b"User-Agent", _AGENT.encode())]
        sent += [(b"Accept-Encoding", b"identity")]
        sent += [(k.encode("ascii"), _line(v)) for k, v in (headers or {}).items()]
        timeouts = dict.fromkeys(("connect", "read", "write", "pool"), self._deadline.left())
        with (
            _translated(),
            self._pool.stream(
                method, target.url, headers=sent, content=content, extensions={"timeout": timeouts}
            ) as response,
        ):
            return self._read(response)

    def check(self, url: str, *, insecure: bool = False) -> str:
        """Return the host of ``url``, or raise what a request would say before it asks anybody."""
        target = self._target(url, insecure=insecure)
        host, port = target.url.host.decode(), target.url.port or 0
        try:
            address = ipaddress.ip_address(host)
        except ValueError:
            return host  # a name: where it leads is looked at each time
        if not self._policy.permits(host, address, port):
            raise OutboundError(
                Trouble.REFUSED, _("It is not at a public address, and Berth asks only those.")
            )
        return host

    def _target(self, url: str, *, insecure: bool) -> _Target:
        if len(url) > URL_MAX or not url.isascii() or not url.isprintable() or " " in url:
            raise OutboundError(Trouble.ADDRESS, _("This is not a web address."))
        try:
            parts = urlsplit(url)
            port = parts.port
        except ValueError:
            raise OutboundError(Trouble.ADDRESS, _("This is not a web address.")) from None
        allowed = self._bounds.schemes | ({"http"} if insecure else set())
        if parts.scheme not in _DEFAULT_PORTS or parts.scheme not in allowed:
            raise OutboundError(Trouble.ADDRESS, _("Only https:// addresses are asked."))
        if "@" in parts.netloc or parts.fragment or "\\" in url:
            raise OutboundError(Trouble.ADDRESS, _("An address holds no user name and no “#”."))
        host = clean_host(f"[{parts.hostname}]" if ":" in (parts.hostname or "") else _host(parts))
        port = _DEFAULT_PORTS[parts.scheme] if port is None else port
        if not self._policy.permits_port(host, port):
            raise OutboundError(
                Trouble.REFUSED,
                _("Port %(port)d is not one that Berth connects to."),
                {"port": port},
            )
        path = parts.path or "/"
        target = f"{path}?{parts.query}" if parts.query else path
        named = f"[{host}]" if ":" in host else host
        if port != _DEFAULT_PORTS[parts.scheme]:
            named = f"{named}:{port}"
        return _Target(
            httpcore.URL(
                scheme=parts.scheme.encode(), host=host.encode(), port=port, target=target.encode()
            ),
            named.encode(),
        )

    def _read(self, response: httpcore.Response) -> Answer:
        headers: dict[str, str] = {}
        for name, value in response.headers:
            headers.setdefault(name.decode("ascii", "replace").lower(), value.decode("latin-1"))
        if headers.get("content-encoding", "identity").lower() != "identity":
            raise OutboundError(Trouble.PROTOCOL, _("It compresses its answer unasked."))
        limit = min(self._bounds.body_bytes, self._bytes_left)
        parts: list[bytes] = []
        size = 0
        for part in response.iter_stream():
            size += len(part)
            if size > limit:
                raise OutboundError(Trouble.TOO_LARGE, _("The answer is larger than it may be."))
            parts.append(part)
        self._bytes_left -= size
        return Answer(response.status, headers, b"".join(parts))


def _host(parts: object) -> str:
    """Return the host as it was spelled, without the port: ``urlsplit`` hides odd letters."""
    netloc = str(getattr(parts, "netloc", ""))
    return netloc.rpartition(":")[0] if ":" in netloc else netloc


def _line(value: str) -> bytes:
    if any(c in value for c in "\r\n\0"):
        raise OutboundError(Trouble.ADDRESS, _("A header holds one line."))
    return value.encode("latin-1", "replace")


@contextmanager
def _translated() -> Iterator[None]:
    """Turn the library's errors into ours; nothing of the request is in the text."""
    try:
        yield
    except httpcore.TimeoutException:
        raise OutboundError(Trouble.TIMEOUT, _("It did not answer in time.")) from None
    except httpcore.ConnectError as error:
        if isinstance(error.__context__, ssl.SSLError) or "certificate" in str(error).lower():
            text = _("Its certificate is not valid, or it does not speak TLS.")
            raise OutboundError(Trouble.TLS, text) from None
        raise OutboundError(Trouble.UNREACHABLE, _("It can't be reached.")) from None
    except (httpcore.NetworkError, OSError):
        raise OutboundError(Trouble.UNREACHABLE, _("The connection broke.")) from None
    except (httpcore.ProtocolError, httpcore.UnsupportedProtocol, ValueError):
        raise OutboundError(Trouble.PROTOCOL, _("It does not answer as a web server.")) from None
