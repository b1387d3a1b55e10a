"""Long streams of one cluster, for asyncio: exec, port-forward, following a log, plain reads.

Everything here is bounded by the slower side: a reader that does not read stops the pod's
output at its source, nothing piles up in between. Dead peers are found by TCP keep-alive, not by
pings, because a pong waits behind data that nobody reads.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import ssl
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self
from urllib.parse import quote, urlencode, urlsplit

import httpcore
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import (
    ConnectionClosed,
    InvalidHandshake,
    InvalidMessage,
    InvalidStatus,
    InvalidURI,
)
from websockets.typing import Subprotocol

from runtime.drivers.kubernetes.access import Bearer, KubeAccess
from runtime.protocol import DriverError, Unreachable
from runtime.streams import STDERR, STDIN, STDOUT, Ended, Gone, Pod

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
        made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _KEEPALIVE:
            made.setsockopt(socket.IPPROTO_TCP, option, value)
        return made
    raise problem or OSError("no address")


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


STATUS, RESIZE = 3, 4  # channels after those of the command itself
_CLOSE = 255  # v5: the next byte names the channel whose end this is
_V5, _V4 = Subprotocol("v5.channel.k8s.io"), Subprotocol("v4.channel.k8s.io")
_CHUNK = 32 * 1024
_FRAME_MAX = 2 * 1024 * 1024
_OPEN_S = 15.0
_SMALL = 64 * 1024
_READ_MAX = 16 * 1024 * 1024


class KubeStreams:
    """One per cluster and event loop (``runtime.streams``); holds a small pool for plain reads."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self._pool = httpcore.AsyncConnectionPool(
            ssl_context=endpoint.tls,
            max_connections=512,
            max_keepalive_connections=8,
            keepalive_expiry=30,
            network_backend=CheckedBackend(endpoint),
        )

    async def aclose(self) -> None:
        await self._pool.aclose()

    async def exec(
        self, pod: Pod, command: Sequence[str], *, tty: bool = False, stdin: bool = True
    ) -> Exec:
        """Start ``command`` in the container; it has the environment of the main process."""
        query = [("command", word) for word in command]
        query += [("container", pod.container), ("stdout", "true")]
        query += [("stdin", "true")] if stdin else []
        query += [("tty", "true")] if tty else [("stderr", "true")]
        made = await self._connect(_path(pod, "exec"), query, [_V5, _V4], small=tty)
        return Exec(made)

    async def forward(self, pod: Pod, port: int) -> Forward:
        """Open one connection to ``localhost:port`` of the pod."""
        made = await self._connect(_path(pod, "portforward"), [("ports", str(port))], [_V4])
        return Forward(made)

    async def log(
        self, pod: Pod, *, follow: bool = False, tail: int | None = None, since: str = ""
    ) -> AsyncGenerator[bytes, None]:
        """Yield what the container writes as it comes; ends with the container."""
        query = [("container", pod.container)]
        query += [("follow", "true")] if follow else []
        query += [("tailLines", str(tail))] if tail is not None else []
        query += [("sinceTime", since)] if since else []
        async with self._get(_path(pod, "log"), query) as response:
            async for part in response.aiter_stream():
                yield part

    async def read(self, path: str, query: Sequence[tuple[str, str]] = ()) -> dict[str, Any]:
        """Return one JSON document."""
        body = bytearray()
        async with self._get(path, query) as response:
            async for part in response.aiter_stream():
                body += part
                if len(body) > _READ_MAX:
                    raise Unreachable("The cluster's answer is too large.")
        return dict(json.loads(bytes(body)))

    @contextlib.asynccontextmanager
    async def _get(
        self, path: str, query: Sequence[tuple[str, str]]
    ) -> AsyncIterator[httpcore.Response]:
        timeout = {"connect": 5.0, "read": None, "write": 10.0, "pool": 10.0}
        extensions: dict[str, Any] = {"timeout": timeout}
        if self.endpoint.tls_name:
            extensions["sni_hostname"] = self.endpoint.tls_name
        headers: dict[bytes | str, bytes | str] = {
            "Host": urlsplit(self.endpoint.server).netloc,
            **dict(self.endpoint.headers().items()),
        }
        try:
            async with self._pool.stream(
                "GET", self.endpoint.url(path, query), headers=headers, extensions=extensions
            ) as response:
                if response.status != 200:  # noqa: PLR2004 - HTTP
                    body = bytearray()
                    async for part in response.aiter_stream():
                        body += part[: 65536 - len(body)]
                    raise _refused(response.status, bytes(body))
                yield response
        except (httpcore.NetworkError, httpcore.ProtocolError, httpcore.TimeoutException) as error:
            raise Unreachable(_lost(error)) from error
        except (OSError, ssl.SSLError) as error:
            raise Unreachable(_lost(error)) from error

    async def _connect(
        self,
        path: str,
        query: Sequence[tuple[str, str]],
        protocols: list[Subprotocol],
        *,
        small: bool = False,
    ) -> ClientConnection:
        endpoint = self.endpoint
        tls: dict[str, Any] = {}
        if endpoint.tls is not None:
            tls = {"ssl": endpoint.tls, "server_hostname": endpoint.tls_name or endpoint.host}
        try:
            # A socket of our own: its address was checked, and redirects can't be followed.
            async with asyncio.timeout(_OPEN_S):
                sock = await open_socket(endpoint, endpoint.host, endpoint.port)
            if small:  # many terminals that nobody reads must not take the memory
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _SMALL)
            return await connect(
                endpoint.url(path, query, ws=True),
                sock=sock,
                subprotocols=protocols,
                additional_headers=dict(endpoint.headers()),
                user_agent_header="berth",
                compression=None,
                proxy=None,
                open_timeout=_OPEN_S,
                ping_interval=None,
                close_timeout=2,
                max_size=_FRAME_MAX,
                max_queue=2 if small else 8,
                **tls,
            )
        except InvalidStatus as error:
            raise _refused(error.response.status_code, bytes(error.response.body or b"")) from error
        except (InvalidHandshake, InvalidMessage, OSError, TimeoutError, ValueError) as error:
            raise Unreachable(_lost(error)) from error
        except InvalidURI as error:  # of a redirect to a page, which is not followed either
            raise Unreachable(_lost(error)) from error


class _Duplex:
    """A WebSocket whose frames carry a channel number first."""

    def __init__(self, made: ClientConnection) -> None:
        self._ws = made

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_error: object) -> None:
        await self.close()

    async def close(self) -> None:
        with contextlib.suppress(Exception):
            await self._ws.close()

    async def _send(self, channel: int, data: bytes) -> None:
        try:
            for at in range(0, len(data), _CHUNK):
                await self._ws.send(bytes([channel]) + data[at : at + _CHUNK])
        except ConnectionClosed as error:
            raise Gone("The connection to the container is closed.") from error

    async def _frames(self) -> AsyncIterator[tuple[int, bytes]]:
        try:
            async for frame in self._ws:
                data = frame.encode() if isinstance(frame, str) else frame
                if data:
                    yield data[0], data[1:]
        except ConnectionClosed:
            return


class Exec(_Duplex):
    """One command that runs in a container. ``ended`` is known after ``output`` is over."""

    def __init__(self, made: ClientConnection) -> None:
        super().__init__(made)
        self.ended = Ended(None, "The connection to the container was lost.")
        self._sized = False

    async def output(self) -> AsyncIterator[tuple[int, bytes]]:
        """Yield (STDOUT or STDERR, bytes) until the command is over."""
        async for channel, data in self._frames():
            if channel in {STDOUT, STDERR}:
                if data:
                    yield channel, data
            elif channel == STATUS:
                self.ended = ended_of(data)

    async def write(self, data: bytes) -> None:
        await self._send(STDIN, data)

    async def end_of_input(self) -> None:
        """Close the command's standard input. Servers before 1.30 can't; there it stays open."""
        if self._ws.subprotocol == _V5:
            with contextlib.suppress(ConnectionClosed):
                await self._ws.send(bytes([_CLOSE, STDIN]))

    async def resize(self, columns: int, rows: int) -> None:
        """Say how large the window is; what ended meanwhile needs none."""
        size = {"Width": max(1, min(columns, 1000)), "Height": max(1, min(rows, 1000))}
        with contextlib.suppress(Gone):
            await self._send(RESIZE, json.dumps(size).encode())


class Forward(_Duplex):
    """One TCP connection into a pod. It has no half-close: the end of either side ends it."""

    def __init__(self, made: ClientConnection) -> None:
        super().__init__(made)
        self.problem = ""

    async def received(self) -> AsyncIterator[bytes]:
        greeted: set[int] = set()
        async for channel, data in self._frames():
            if channel not in greeted:  # the first frame of each says which port it is
                greeted.add(channel)
                data = data[2:]  # noqa: PLW2901
            if not data:
                continue
            if channel == 0:
                yield data
            elif channel == 1:
                self.problem += data.decode(errors="replace")

    async def send(self, data: bytes) -> None:
        await self._send(0, data)


def _path(pod: Pod, subresource: str) -> str:
    return f"/api/v1/namespaces/{quote(pod.namespace)}/pods/{quote(pod.name)}/{subresource}"


def ended_of(data: bytes) -> Ended:
    """Read a Kubernetes Status: 0 on success, the exit code, or None with what went wrong."""
    try:
        status = json.loads(data)
    except ValueError:
        return Ended(None, data.decode(errors="replace")[:300])
    if status.get("status") == "Success":
        return Ended(0)
    for cause in (status.get("details") or {}).get("causes") or []:
        if cause.get("reason") == "ExitCode":
            with contextlib.suppress(TypeError, ValueError):
                return Ended(int(cause.get("message")))
    return Ended(None, str(status.get("message", ""))[:1000])


def _refused(code: int, body: bytes) -> DriverError:
    try:
        said = str(json.loads(body).get("message", ""))
    except (ValueError, AttributeError):
        said = body.decode(errors="replace")
    said = said.strip()[:300] or f"The cluster answered {code}."
    if code in {400, 404, 409}:
        return Gone(said)
    if code in {401, 403}:
        return Unreachable(f"The cluster refuses Berth: {said}")
    return Unreachable(said)


def _lost(error: BaseException) -> str:
    return f"The cluster does not answer ({type(error).__name__})."
