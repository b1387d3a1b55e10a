"""The client: one deadline and one budget of bytes for all of its requests."""

from __future__ import annotations

import ssl
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Self
from urllib.parse import urlsplit

import httpcore
from django.utils.translation import gettext as _

from common.outbound import trust
from common.outbound.addresses import Policy, clean_host
from common.outbound.errors import OutboundError, Trouble
from common.outbound.network import Deadline, GuardedBackend, Resolve, system_resolve

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
