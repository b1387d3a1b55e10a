"""A gateway with a real HAProxy, in front of model servers of the tests."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import shutil
import socket
import tempfile
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

from serving.gateway import haproxy
from serving.gateway.control import Gateway
from serving.gateway.table import Endpoint, Principal, RoutingTable, Row
from tests.serving.gateway.replica import Replica

PATIENCE_S = 60.0


def digest(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


@dataclass
class Running:
    """One gateway; endpoint ``e1`` at /e/team/digits, whose key is *good*."""

    gateway: Gateway
    port: int
    woken: list[str] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)  # what the next wakes are answered
    table: RoutingTable = field(default_factory=RoutingTable)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/e/team/digits"

    @property
    def pid(self) -> int:
        return self.gateway._generations[-1].pid

    def client(self, secret: str = "good", **more: Any) -> httpx.AsyncClient:
        headers = {"Authorization": f"Bearer {secret}"}
        return httpx.AsyncClient(base_url=self.url, headers=headers, timeout=PATIENCE_S, **more)

    async def get(self, path: str = "/v1/models", secret: str = "good", **more: Any) -> Any:
        async with self.client(secret) as client:
            return await client.get(path, **more)

    async def route(
        self,
        *replicas: Replica,
        canary: Replica | None = None,
        percent: int = 0,
        principals: dict[str, Principal] | None = None,
        metrics: str = "",
        others: tuple[Endpoint, ...] = (),
        **more: Any,
    ) -> None:
        """Send requests for ``e1`` to these replicas, and to this one of its canary."""
        addresses = tuple(one.address for one in replicas)
        beside = (canary.address,) if canary is not None else ()
        endpoint = Endpoint(
            "e1",
            "team",
            "digits",
            Row("r1", "v1", addresses, metrics),
            Row("r2", "v2", beside),
            percent,
            **more,
        )
        if principals is None:
            principals = {"good": Principal("k1", "k1", frozenset({"e1"}))}
        self.table = RoutingTable(
            (endpoint, *others), {digest(secret): one for secret, one in principals.items()}
        )
        await self.gateway.apply(self.table)

    async def raw(self, text: str) -> str:
        """Send bytes as they are; return all that comes until it is closed or, after that, silent."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        writer.write(text.replace("\n", "\r\n").encode())
        answer = b""
        with contextlib.suppress(TimeoutError, ConnectionError):
            while part := await asyncio.wait_for(reader.read(65536), 1.0 if answer else 15.0):
                answer += part
        writer.close()
        return answer.decode()


@pytest.fixture
async def listener() -> AsyncIterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0), backlog=1024) as one:
        yield one


@pytest.fixture
async def gateway(listener: socket.socket) -> AsyncIterator[Running]:
    async with running_gateway(listener) as running:
        yield running


@contextlib.asynccontextmanager
async def running_gateway(listener: socket.socket, certificate: str = "") -> AsyncIterator[Running]:
    """A gateway of its own; with a certificate and its key it speaks TLS."""
    folder = Path(tempfile.mkdtemp(prefix="gw-"))  # pytest's own is too long for a socket's path
    if certificate:
        haproxy.write(folder / haproxy.CERTIFICATE, certificate)

    async def wake(uid: str) -> str:
        running.woken.append(uid)
        return running.refusals.pop(0) if running.refusals else ""

    gateway = Gateway(folder, listener, wake)
    running = Running(gateway, listener.getsockname()[1])
    task = asyncio.create_task(gateway.run(RoutingTable()))
    try:
        await until(lambda: gateway._generations or task.done())
        yield running
    finally:
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        shutil.rmtree(folder)


@pytest.fixture
async def replica() -> AsyncIterator[Replica]:
    one = await Replica("first").start()
    yield one
    one.die()


@pytest.fixture
async def other() -> AsyncIterator[Replica]:
    one = await Replica("second").start()
    yield one
    one.die()


async def until(is_so: Any, within_s: float = PATIENCE_S) -> None:
    async with asyncio.timeout(within_s):
        while not is_so():  # noqa: ASYNC110 - of many kinds
            await asyncio.sleep(0.02)
