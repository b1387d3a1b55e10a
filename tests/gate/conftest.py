"""A gate that serves, a fake cluster behind it, and a workspace that "runs" there."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from accounts import crypto
from tests.gate.fake_kube import FakeKube

ORIGIN = "http://localhost:8000"
PATIENCE_S = 60.0  # with a machine that is busy; nothing here is about how soon


@pytest.fixture
async def kube(tmp_path: Path) -> AsyncIterator[FakeKube]:
    home = tmp_path / "home"
    home.mkdir()
    async with FakeKube(home) as one:
        yield one


@pytest.fixture
def workspace(transactional_db: None, project: Any, alice: Any) -> Any:
    """A running workspace of alice on a cluster."""
    from clusters.models import Cluster
    from notebooks.models import Workspace
    from runtime.models import ObservedWorkload
    from volumes.models import Volume

    Cluster.objects.create(key="k1", name="K1", driver="kubernetes", reachable=True)
    home = Volume.objects.create(project=project, owner=alice, name="home", cluster_key="k1")
    row = Workspace.objects.create(
        project=project,
        owner=alice,
        name="lab",
        home=home,
        cluster_key="k1",
        phase="running",
        desired="running",
        observed_generation=1,
        launch=1,
    )
    ObservedWorkload.objects.create(
        cluster_key="k1",
        uid=row.uid,
        kind="workspace",
        seen="ready",
        launch=1,
        data={"detail": {"namespace": "berth-vision", "pod": f"ws-{row.short_id}-0"}},
        seen_at=row.created_at,
    )
    return row


_whose: dict[str, int] = {}  # session key → person


def with_ticket(path: str, cookie: str) -> str:
    """The path as the portal's page of whoever has this cookie would ask for it."""
    name = [*path.partition("?")[0].split("/"), "", "", ""][3]
    sealed = crypto.issue_ticket(crypto.Ticket(cookie, _whose.get(cookie, 0), name))
    return f"{path}{'&' if '?' in path else '?'}ticket={sealed}"


class WithTickets(httpx.Auth):
    def __init__(self, cookie: str) -> None:
        self.cookie = cookie

    def auth_flow(self, request: httpx.Request) -> Iterator[httpx.Request]:  # type: ignore[override]
        path = with_ticket(request.url.raw_path.decode(), self.cookie)
        request.url = request.url.copy_with(raw_path=path.encode())
        yield request


@dataclass
class Running:
    """One gate on a port of this machine."""

    gate: Any
    port: int

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def client(self, cookie: str = "", **headers: str) -> httpx.AsyncClient:
        """As a page of whoever has this cookie: a ticket goes along, the cookie does not."""
        sent = {"Origin": ORIGIN, **headers}
        auth = WithTickets(cookie) if cookie else None
        return httpx.AsyncClient(base_url=self.url, headers=sent, auth=auth, timeout=PATIENCE_S)

    @contextlib.asynccontextmanager
    async def socket(
        self, path: str, cookie: str = "", origin: str | None = ORIGIN, token: str = ""
    ) -> AsyncIterator[ClientConnection]:
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        path = with_ticket(path, cookie) if cookie else path
        async with connect(
            f"ws://127.0.0.1:{self.port}{path}",
            origin=origin,  # type: ignore[arg-type]
            additional_headers=headers,
            compression=None,
            proxy=None,
            max_size=None,
            open_timeout=PATIENCE_S,
            ping_timeout=PATIENCE_S,
        ) as ws:
            yield ws


@contextlib.asynccontextmanager
async def serving(kube_url: str, *, patience_s: float = 30) -> AsyncIterator[Running]:
    """A gate whose only cluster is at ``kube_url``; ``patience_s``: with who answers no ping."""
    from common.serving import for_browsers
    from gate.server import BACKLOG, Listener, config
    from gate.service import Connections, Gate, Located
    from runtime.drivers.kubernetes.streams import Endpoint, KubeStreams

    place = Located("1", KubeStreams(Endpoint(kube_url)))
    made = Gate(Connections(lambda _key, known: None if known == "1" else place))
    one = socket.socket()
    one.bind(("127.0.0.1", 0))
    one.listen(BACKLOG)
    how = config(made.app())
    how.ws_ping_timeout = patience_s
    server = Listener(how)
    bounded = for_browsers(one)
    running = asyncio.create_task(server.serve(sockets=[bounded]))
    watching = asyncio.create_task(made.guard.run())
    try:
        yield Running(made, bounded.getsockname()[1])
    finally:
        watching.cancel()
        await made.guard.drain(3)
        server.should_exit = True
        await running
        await made.connections.aclose()


@pytest.fixture
async def gate(
    kube: FakeKube, workspace: Any, settings: Any, monkeypatch: Any
) -> AsyncIterator[Running]:
    from gate import guard

    monkeypatch.setattr(guard, "RECHECK_S", 0.3)
    settings.BERTH_PUBLIC_URL = ORIGIN
    async with serving(kube.url) as running:
        yield running


@pytest.fixture
def cookie(as_user: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the session cookie of somebody who signed in."""

    async def of(user: Any) -> str:
        client = await sync_to_async(as_user)(user)
        key = str(client.cookies["berth_session"].value)
        _whose[key] = user.pk
        return key

    return of


@pytest.fixture
def volume(transactional_db: None, project: Any, alice: Any) -> Any:
    from volumes.models import Volume

    return Volume.objects.create(
        project=project, created_by=alice, kind="data", name="data", phase="running"
    )


async def told(ws: ClientConnection) -> dict[str, Any]:
    """Return the next message in words, over any bytes in between."""
    async with asyncio.timeout(PATIENCE_S):
        while True:
            message = await ws.recv()
            if isinstance(message, str):
                return dict(json.loads(message))


async def screen(ws: ClientConnection, until: bytes) -> bytes:
    """Return what is on the screen once ``until`` is there."""
    seen = b""
    try:
        async with asyncio.timeout(PATIENCE_S):
            async for message in ws:
                if isinstance(message, bytes):
                    seen += message
                if until in seen:
                    return seen
    except (TimeoutError, ConnectionClosed):
        pass
    pytest.fail(f"{until!r} never came, only {seen[-500:]!r}")


async def until(holds: Callable[[], object]) -> None:
    """Wait for what becomes true a moment later; it tells nobody."""
    async with asyncio.timeout(PATIENCE_S):
        while not holds():  # noqa: ASYNC110
            await asyncio.sleep(0.02)


__all__ = ["ORIGIN", "PATIENCE_S", "Running", "screen", "told", "until"]
