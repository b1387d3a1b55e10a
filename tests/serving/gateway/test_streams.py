"""What stays open: WebSockets and their messages, events of a server, chunks in both directions."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from typing import Any

import pytest
from websockets.asyncio.client import connect
from websockets.asyncio.server import ServerConnection, serve
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Subprotocol

from serving.gateway.table import Principal
from tests.serving.gateway.conftest import Running, until
from tests.serving.gateway.replica import Replica


class Echo(Replica):
    """A server of somebody's own, with a WebSocket library: gives back each message."""

    async def begin(self) -> Any:
        async def echo(one: ServerConnection) -> None:
            assert one.request is not None
            self.seen.append(f"{one.request.path} {one.request.headers}")
            async for message in one:
                if message == "close":
                    await one.close(4321, "as it was asked to")
                await one.send(message)

        server = await serve(
            echo, "127.0.0.1", 0, max_size=2**25, subprotocols=[Subprotocol("v1.echo")]
        )
        self.port = next(iter(server.sockets)).getsockname()[1]
        return server


@pytest.fixture
async def echo() -> AsyncIterator[Echo]:
    one = Echo("echo")
    server = await one.begin()
    yield one
    server.close()


def opened(gateway: Running, secret: str, query: str = "") -> connect:
    return connect(
        f"{gateway.url.replace('http', 'ws', 1)}/chat{query}",
        additional_headers={"Authorization": f"Bearer {secret}"} if secret else {},
        proxy=None,
        max_size=2**25,
        subprotocols=[Subprotocol("v1.echo")],
    )


async def test_messages_of_a_websocket_go_both_ways_as_they_are(
    gateway: Running, echo: Echo
) -> None:
    await gateway.route(echo)
    async with opened(gateway, "good", "?room=1") as one:
        assert one.subprotocol == "v1.echo"
        large = os.urandom(8 * 2**20)
        for message in ("", "漢字 \0", b"\x00\xff" * 70_000, large):
            await one.send(message)
            assert await one.recv() == message
        await one.send([b"in ", b"three ", b"pieces"])
        assert await one.recv() == b"in three pieces"
        await (await one.ping())
        await one.send("close")
        with pytest.raises(ConnectionClosed):
            await one.recv()
        assert (one.close_code, one.close_reason) == (4321, "as it was asked to")
    assert echo.seen[0].startswith("/chat?room=1 ")
    assert "good" not in echo.seen[0]
    await until(lambda: any(one.bytes_out > 8 * 2**20 for one in counted(gateway)))


def counted(gateway: Running) -> list[Any]:
    return list(gateway.gateway.counts._by_slice.values())


async def test_a3_a_websocket_of_a_revoked_key_is_closed_and_none_is_opened(
    gateway: Running, echo: Echo
) -> None:
    limited = Principal("k1", "k1", frozenset({"e1"}), concurrent=2)
    kept = Principal("k2", "k2", frozenset({"e1"}))
    await gateway.route(echo, principals={"good": limited, "kept": kept})
    async with (
        opened(gateway, "good") as one,
        opened(gateway, "good") as two,
        opened(gateway, "kept") as another,
    ):
        with pytest.raises(InvalidStatus, match="429"):  # F2: they count as requests in hand
            await opened(gateway, "good")
        await gateway.route(echo, principals={"kept": kept})
        for closed in (one, two):
            with pytest.raises(ConnectionClosed):
                await asyncio.wait_for(closed.recv(), 10)
        await another.send("goes on")
        assert await another.recv() == "goes on"
    for secret in ("good", ""):
        with pytest.raises(InvalidStatus, match="401"):
            await opened(gateway, secret)


async def test_events_of_a_server_arrive_one_by_one_as_it_sends_them(
    gateway: Running, replica: Replica
) -> None:
    """It sends the next only when the caller has said, by another request, that one is there."""
    await gateway.route(replica)
    async with (
        gateway.client() as client,
        client.stream("GET", "/events", headers={"Accept": "text/event-stream"}) as stream,
    ):
        assert stream.headers["Content-Type"] == "text/event-stream"
        lines = stream.aiter_lines()
        for number in range(20):
            assert await asyncio.wait_for(anext(lines), 10) == f"id: {number}"
            assert await asyncio.wait_for(anext(lines), 10) == "data: token"
            assert await asyncio.wait_for(anext(lines), 10) == ""
            await client.post("/next")


async def test_a_body_in_chunks_arrives_as_it_is_sent(gateway: Running, replica: Replica) -> None:
    """And an answer may begin before the request has ended."""
    await gateway.route(replica)
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    head = "POST /e/team/digits/chunks HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer good\r\n"
    writer.write(f"{head}Transfer-Encoding: chunked\r\n\r\n".encode())
    assert b" 200 OK" in await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), 10)
    for part in (b"one", b"three", b"seventeen"):
        writer.write(b"%x\r\n%s\r\n" % (len(part), part))
        assert part in await asyncio.wait_for(reader.readuntil(part + b"\r\n"), 10)
    writer.write(b"0\r\n\r\n")
    assert await asyncio.wait_for(reader.readuntil(b"0\r\n\r\n"), 10)
    writer.close()
