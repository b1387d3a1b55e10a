"""A real node proxy in front of a small workload that says what reached it."""

import asyncio
import json
import os
import shutil
import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import Self

import httpx
import pytest
from websockets.asyncio.server import ServerConnection, serve
from websockets.datastructures import Headers
from websockets.exceptions import ConnectionClosed
from websockets.http11 import Request, Response

from tests.support.ports import free_port

ROOT = Path(__file__).resolve().parents[2]
TOKEN = "route-api-token-of-the-test"
PATIENCE_S = 30.0  # with a machine that is busy


class Workload:
    """Answers HTTP with the request as JSON, and echoes on WebSockets; runs in a thread."""

    def __init__(self) -> None:
        self.port = 0
        self.closed = threading.Event()  # set when a WebSocket ended
        self._ready = threading.Event()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(PATIENCE_S)
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)
        self._loop.close()

    def _run(self) -> None:
        self._loop.run_until_complete(self._main())

    async def _main(self) -> None:
        self._stop = asyncio.Event()
        async with serve(self._echo, "127.0.0.1", 0, process_request=self._http) as server:
            self.port = server.sockets[0].getsockname()[1]
            self._ready.set()
            await self._stop.wait()

    async def _echo(self, connection: ServerConnection) -> None:
        try:
            async for message in connection:
                await connection.send(message)
        except ConnectionClosed:
            pass  # what a cut looks like from here
        finally:
            self.closed.set()

    async def _http(self, _: ServerConnection, request: Request) -> Response | None:
        if request.headers.get("Upgrade"):
            return None
        if request.path.startswith("/slow"):
            await self._stop.wait()
        headers = {k.lower(): v for k, v in request.headers.raw_items()}
        body = json.dumps({"path": request.path, "headers": headers}).encode()
        length = {"Content-Type": "application/json", "Content-Length": str(len(body))}
        return Response(HTTPStatus.OK, "OK", Headers(length), body)


@dataclass
class Proxy:
    port: int
    api_port: int
    process: subprocess.Popen[bytes]
    api: httpx.Client = field(init=False)

    def __post_init__(self) -> None:
        self.api = httpx.Client(
            base_url=f"http://127.0.0.1:{self.api_port}/api",
            headers={"Authorization": f"token {TOKEN}"},
            trust_env=False,
            timeout=PATIENCE_S,
        )

    def get(self, path: str = "/", host: str = "a.nb.localhost", **headers: str) -> httpx.Response:
        names = {k.replace("_", "-"): v for k, v in headers.items()}
        with httpx.Client(trust_env=False) as client:
            return client.get(
                f"http://127.0.0.1:{self.port}{path}",
                headers={"Host": host, **names},
                timeout=PATIENCE_S,
            )

    def route(self, key: str, port: int) -> None:
        answer = self.api.post(f"/routes/{key}", json={"target": f"http://127.0.0.1:{port}"})
        assert answer.status_code == 201


def start_proxy(tmp_path: Path, *options: str) -> Proxy:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    port, api_port = free_port(), free_port()
    command = [node, str(ROOT / "proxy/berth-proxy.mjs"), "--port", str(port)]
    with (tmp_path / "proxy.log").open("ab") as log:
        process = subprocess.Popen(
            [*command, "--api-port", str(api_port), *options],
            env={**os.environ, "CONFIGPROXY_AUTH_TOKEN": TOKEN},
            stdout=log,
            stderr=log,
        )
    proxy = Proxy(port, api_port, process)
    wait_for(proxy)
    return proxy


def wait_for(proxy: Proxy) -> None:
    deadline = time.monotonic() + 2 * PATIENCE_S
    while time.monotonic() < deadline:
        try:
            proxy.api.get("/berth/epoch")
            socket.create_connection(("127.0.0.1", proxy.port), PATIENCE_S).close()  # opened last
        except (httpx.TransportError, OSError):
            assert proxy.process.poll() is None, "the proxy ended at its start"
            threading.Event().wait(0.05)
        else:
            return
    pytest.fail("the proxy did not start")


def stop_proxy(proxy: Proxy) -> None:
    proxy.api.close()
    proxy.process.terminate()
    proxy.process.wait(2 * PATIENCE_S)


@pytest.fixture
def workload() -> Iterator[Workload]:
    with Workload() as one:
        yield one


@pytest.fixture
def proxy(tmp_path: Path, workload: Workload) -> Iterator[Proxy]:
    """Host routing; the workload itself plays the portal's page for what has no route."""
    fallback = f"http://127.0.0.1:{workload.port}/hub/424"
    one = start_proxy(tmp_path, "--host-routing", "--fallback-url", fallback)
    yield one
    stop_proxy(one)
