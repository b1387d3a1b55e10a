"""``web`` as it runs: half-open requests keep nobody from the portal and from ``/hub/api``."""

import asyncio
import gc
import os
import signal
import socket
from typing import Any

import pytest

from common import serving
from portal.server import web

pytestmark = pytest.mark.django_db(transaction=True)
HALF = b"GET /livez HTTP/1.1\r\nHost: loc"


async def test_half_open_requests_keep_nobody_from_the_portal_and_its_workloads(
    monkeypatch: Any,
) -> None:
    monkeypatch.setattr(serving, "OWING_OF_ADDRESS", 100)
    public, internal = listening(), listening()
    ports = public.getsockname()[1], internal.getsockname()[1]
    running = asyncio.create_task(web.serve(public, internal))
    held = []
    try:
        for port in ports:
            for _ in range(300):
                reader, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.write(HALF)
                held.append((reader, writer))
        for port in ports:
            for source in ("127.0.0.1", "127.0.0.2"):
                assert b"200 OK" in await livez(port, source)
        let_go = [one for one, _ in held if one.at_eof() or one.exception()]
        assert len(let_go) >= 2 * (300 - 100)
    finally:
        for _, writer in held:
            writer.close()
        os.kill(os.getpid(), signal.SIGTERM)
        await running
        gc.unfreeze()  # a server's start froze what tests made


def listening() -> socket.socket:
    one = socket.socket()
    one.bind(("0.0.0.0", 0))
    one.listen(1024)
    return one


async def livez(port: int, source: str) -> bytes:
    async with asyncio.timeout(30):
        reader, writer = await asyncio.open_connection("127.0.0.1", port, local_addr=(source, 0))
        writer.write(b"GET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        said = await reader.read()
        writer.close()
        return said
