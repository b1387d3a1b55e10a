"""Where a cluster's API server is, for asyncio: addresses are checked before they are used."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpcore

from runtime.drivers.kubernetes.access import Bearer, KubeAccess

_KEEPALIVE = ((socket.TCP_KEEPIDLE, 20), (socket.TCP_KEEPINTVL, 10), (socket.TCP_KEEPCNT, 3))


def any_address(_address: str) -> None:
    """The check that refuses nothing."""


@dataclass(frozen=True)
class Endpoint:
    """Where an API server is and who we are there. ``check`` sees each address before use."""

    server: str
    tls: ssl.SSLContext | None = None
    headers: Callable[[], Mapping[str, str]] = dict
    check: Callable[[str], None] = any_address
    tls_name: str = ""  # proved instead of the host's name

    @classmethod
    def of(cls, access: KubeAccess, check: Callable[[str], None]) -> Endpoint:
        bearer = Bearer(access)
        secure = access.server.startswith("https://")
        return cls(
            access.server,
            access.tls() if secure else None,
            bearer.headers,
            check,
            access.tls_server_name,
        )

    @property
    def host(self) -> str:
        return urlsplit(self.server).hostname or ""

    @property
    def port(self) -> int:
        parts = urlsplit(self.server)
        return parts.port or (443 if parts.scheme == "https" else 80)

    def url(self, path: str, query: Sequence[tuple[str, str]] = (), *, ws: bool = False) -> str:
        base = self.server.rstrip("/")
        if ws:
            base = "ws" + base.removeprefix("http")
        return f"{base}{path}" + (f"?{urlencode(query)}" if query else "")


async def open_socket(endpoint: Endpoint, host: str, port: int) -> socket.socket:
    """Return a connected socket whose address ``endpoint.check`` accepted."""
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    problem: OSError | None = None
    for family, kind, proto, _name, address in found:
        endpoint.check(str(address[0]))
        made = socket.socket(family, kind, proto)
        made.setblocking(False)
        try:
            await loop.sock_connect(made, address)
        except OSError as error:
            made.close()
            problem = error
            continue
        except BaseException:
            made.close()
            raise
        _tune(made)
        return made
    raise problem or OSError("no address")


def _tune(made: socket.socket) -> None:
    made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in _KEEPALIVE:
        made.setsockopt(socket.IPPROTO_TCP, option, value)


class CheckedBackend(httpcore.AnyIOBackend):
    """Connects to addresses that were checked; TLS still proves the name."""

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__()
        self._endpoint = endpoint

    async def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,  # noqa: ASYNC109 - the base class's word
        local_address: str | None = None,
        socket_options: Any = None,
    ) -> httpcore.AsyncNetworkStream:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        for item in found:
            self._endpoint.check(str(item[4][0]))
        options = [(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)]
        options += [(socket.IPPROTO_TCP, option, value) for option, value in _KEEPALIVE]
        problem: Exception | None = None
        for item in found:
            try:
                return await super().connect_tcp(
                    str(item[4][0]), port, timeout, local_address, socket_options or options
                )
            except (httpcore.ConnectError, httpcore.ConnectTimeout) as error:
                problem = error  # another address of the same name may answer
        raise problem or httpcore.ConnectError(f"{host} has no address")
