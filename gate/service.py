"""The public side of the gate: routes, and what all of them share."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from django.utils.translation import gettext as _
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, WebSocketRoute
from starlette.types import ASGIApp
from starlette.websockets import WebSocket

from clusters import registry
from clusters.models import Cluster
from common.errors import BerthError, NotFound, Unavailable
from common.streams import look
from gate import files, logs, terminal, volumes
from gate.guard import Guard
from gate.volumes import Carrier
from gate.web import alive, as_error, cors, refusal
from runtime.protocol import DriverError
from runtime.streams import Streams

HttpHandler = Callable[[Request, "Gate"], Awaitable[Response]]
SocketHandler = Callable[[WebSocket, "Gate"], Awaitable[None]]


@dataclass(frozen=True)
class Located:
    """New streams to a cluster; ``version`` changes with its credential."""

    version: str
    streams: Streams


Locate = Callable[[str, str], Located | None]
KEEP_S = 30.0


class Connections:
    """``locate(key, known_version)`` is synchronous; None: nothing changed."""

    def __init__(self, locate: Locate) -> None:
        self._locate = locate
        self._made: dict[str, tuple[str, float, Streams]] = {}
        self._locks: dict[str, asyncio.Lock] = {}

    async def of(self, cluster_key: str) -> Streams:
        async with self._locks.setdefault(cluster_key, asyncio.Lock()):
            clock = asyncio.get_running_loop().time()
            version, looked, streams = self._made.get(cluster_key, ("", 0.0, None))
            if streams is not None and clock - looked < KEEP_S:
                return streams
            found = await look(lambda: self._locate(cluster_key, version))
            if found is not None:
                if streams is not None:
                    await streams.aclose()
                version, streams = found.version, found.streams
            assert streams is not None  # noqa: S101 - locate answers when nothing is known
            self._made[cluster_key] = (version, clock, streams)
            return streams

    async def aclose(self) -> None:
        for _version, _looked, streams in self._made.values():
            await streams.aclose()
        self._made.clear()


def locate(key: str, known: str) -> Located | None:
    """Open the credential of a cluster; None when ``known`` is still its version."""
    cluster = Cluster.objects.filter(key=key, enabled=True).first()
    if cluster is None:
        raise NotFound(_("This cluster is not attached any more."))
    version = f"{cluster.pk}/{cluster.revision}"  # another one may have come by the same key
    if version == known:
        return None
    streams = registry.streams_of(cluster)
    if streams is None:
        raise Unavailable(_("This process holds no key to clusters."))
    return Located(version, streams)


class Gate:
    """One per process."""

    def __init__(self, connections: Connections | None = None) -> None:
        self.connections = connections or Connections(locate)
        self.guard = Guard()
        self.carrier = Carrier()

    def app(self) -> ASGIApp:
        one = "/gate/{part}/{workspace}"
        routes = [
            Route("/livez", alive),
            WebSocketRoute("/gate/terminal/{workspace}", self._socket(terminal.terminal)),
            WebSocketRoute("/gate/exec/{workspace}", self._socket(terminal.execute)),
            self._route(one.format(part="logs", workspace="{workspace}"), logs.follow),
            *(
                self._route(f"/gate/files/{{workspace}}/{name}", handler, method)
                for name, handler, method in files.ROUTES
            ),
            self._route("/gate/volumes/{volume}/{act:path}", volumes.serve, *volumes.METHODS),
        ]
        return Starlette(routes=routes)

    async def aclose(self) -> None:
        await self.connections.aclose()
        await self.carrier.aclose()

    def _route(self, path: str, handler: HttpHandler, *methods: str) -> Route:
        async def answer(request: Request) -> Response:
            if request.method == "OPTIONS":
                # only the portal's page may send more than a simple request; ``cors`` names it
                response = cors(Response(status_code=204))
                response.headers["Access-Control-Allow-Methods"] = "GET, PUT, POST, PATCH, DELETE"
                response.headers["Access-Control-Allow-Headers"] = "Content-Type, X-Berth-Checksum"
                response.headers["Access-Control-Max-Age"] = "600"
                return response
            try:
                return cors(await handler(request, self))
            except (BerthError, DriverError) as error:
                return refusal(request, as_error(error))

        return Route(path, answer, methods=[*(methods or ("GET",)), "OPTIONS"])

    def _socket(self, handler: SocketHandler) -> Callable[[WebSocket], Awaitable[None]]:
        async def serve(ws: WebSocket) -> None:
            await handler(ws, self)

        return serve
