"""What stands around a gate in the test of many sockets, each in a process of its own.

``python -m tests.gate.crowd kube`` is an API server whose every command writes without end.
``python -m tests.gate.crowd readers PORT PATH COUNT`` opens terminals and reads none.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys

from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed

from tests.gate.conftest import ORIGIN
from tests.gate.fake_kube import V5

PART = b"\x01" + b"0123456789abcde\n" * 2048
AT_ONCE = 20
UPGRADE_S = 180.0


async def _endless(ws: ServerConnection) -> None:
    """Write until the reader's side is full; the command ``quick`` ends at once."""
    assert ws.request is not None
    if "quick" in ws.request.path:
        await ws.send(b"\x01quick\n")
        return
    with contextlib.suppress(ConnectionClosed):
        while True:
            await ws.send(PART)


async def kube() -> None:
    async with serve(
        _endless,
        "127.0.0.1",
        0,
        subprotocols=[V5],  # type: ignore[list-item]
        compression=None,
        ping_interval=None,
    ) as server:
        await _ready(server.sockets[0].getsockname()[1])


async def readers(port: int, path: str, count: int) -> None:
    room = asyncio.Semaphore(AT_ONCE)
    loop = asyncio.get_running_loop()

    async def one() -> socket.socket:
        async with room:
            made = socket.socket()
            made.setblocking(False)
            await loop.sock_connect(made, ("127.0.0.1", port))
            await loop.sock_sendall(made, _hello(port, path))
            async with asyncio.timeout(UPGRADE_S):
                head = await loop.sock_recv(made, 12)
            if head != b"HTTP/1.1 101":
                raise RuntimeError(head)
            return made

    held = await asyncio.gather(*(one() for _ in range(count)))
    await _ready(len(held))


async def _ready(word: int) -> None:
    """Say it to whoever started this process, and stay until he closes the other end."""
    sys.stdout.write(f"{word}\n")
    sys.stdout.flush()
    await asyncio.to_thread(sys.stdin.read)


def _hello(port: int, path: str) -> bytes:
    lines = [
        f"GET {path} HTTP/1.1",
        f"Host: 127.0.0.1:{port}",
        "Upgrade: websocket",
        "Connection: Upgrade",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: MDEyMzQ1Njc4OWFiY2RlZg==",
        f"Origin: {ORIGIN}",
    ]
    return "\r\n".join([*lines, "", ""]).encode()


if __name__ == "__main__":
    if sys.argv[1] == "kube":
        asyncio.run(kube())
    else:
        asyncio.run(readers(int(sys.argv[2]), sys.argv[3], int(sys.argv[4])))
