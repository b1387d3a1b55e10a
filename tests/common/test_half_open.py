"""Connections that owe a request, or that take no answer, are let go; what moves lives on."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from common import serving
from common.serving import Bounds, Listening, bounded
from tests.support.store_certificates import Authority

OWED_S = 0.4
ASK = b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"
HALF = b"GET / HTTP/1.1\r\nHost: loc"
HERE, THERE = "127.0.0.1", "127.0.0.2"
App = Callable[[Any, Any, Any], Awaitable[None]]
Serve = Callable[..., Any]


@pytest.fixture(autouse=True)
def soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "OWED_S", OWED_S)
    monkeypatch.setattr(serving, "SWEEP_S", 0.05)
    monkeypatch.setattr(serving, "STUCK_S", OWED_S)


class Portal:
    """An application that reads the body and says how long it was, or streams."""

    def __init__(self) -> None:
        self.left = 0  # clients that went in the middle of their body

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        size, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.left += 1
                return
            size, more = size + len(message["body"]), message.get("more_body", False)
        await send({"type": "http.response.start", "status": 200, "headers": []})
        part = {"type": "http.response.body", "more_body": True}
        if scope["path"] == "/stream":
            for _ in range(20):
                await send({**part, "body": b": still here\n\n"})
                await asyncio.sleep(OWED_S / 5)
        while scope["path"] == "/flood" and (await self._is_there(send, part)):
            pass
        await send({"type": "http.response.body", "body": str(size).encode()})

    async def _is_there(self, send: Any, part: Any) -> bool:
        await send({**part, "body": b"x" * 65536})
        await asyncio.sleep(0)
        return True


@contextlib.asynccontextmanager
async def serve(app: App, bounds: Bounds | None = None, **extra: Any) -> AsyncIterator[Listening]:
    one = socket.socket()
    one.bind(("0.0.0.0", 0))
    one.listen(1024)
    listening = bounded(one, bounds or Bounds())
    how = serving.config(app, ws="none", timeout_graceful_shutdown=1, **extra)
    server = serving.Listener(how)
    running = asyncio.create_task(server.serve(sockets=[listening]))
    try:
        yield listening
    finally:
        server.should_exit = True
        await running


async def connect(to: Listening, source: str = HERE, **extra: Any) -> Any:
    port = to.getsockname()[1]
    return await asyncio.open_connection(HERE, port, local_addr=(source, 0), **extra)


async def asked(to: Listening, source: str = HERE, request: bytes = ASK) -> bytes:
    async with asyncio.timeout(20):
        reader, writer = await connect(to, source)
        writer.write(request.replace(b"Host", b"Connection: close\r\nHost"))
        said: bytes = await reader.read()
        writer.close()
        return said


async def rest(reader: asyncio.StreamReader) -> bytes:
    """What is said until the other side hangs up."""
    async with asyncio.timeout(20):
        with contextlib.suppress(ConnectionResetError):
            return await reader.read()
    return b""


async def test_a_head_that_does_not_end_is_cut() -> None:
    async with serve(Portal()) as here:
        reader, writer = await connect(here)
        writer.write(HALF)
        trickling = asyncio.create_task(_trickle(writer, b"a", every_s=OWED_S / 8))
        assert b"408 Request Timeout" in await rest(reader)
        trickling.cancel()


async def test_who_says_nothing_is_let_go_without_a_word() -> None:
    async with serve(Portal()) as here:
        reader, writer = await connect(here)
        assert await rest(reader) == b""
        reader, writer = await connect(here)
        writer.write(ASK)
        assert (await rest(reader)).endswith(b"0\r\n\r\n")  # and no second answer


async def test_a_body_that_makes_no_progress_is_cut() -> None:
    app = Portal()
    async with serve(app) as here:
        reader, writer = await connect(here)
        writer.write(b"POST / HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9999\r\n\r\n")
        trickling = asyncio.create_task(_trickle(writer, b"a", every_s=OWED_S / 8))
        assert b"408 Request Timeout" in await rest(reader)
        trickling.cancel()
        await _until(lambda: app.left == 1)


async def test_what_moves_lives_on_for_as_long_as_it_takes() -> None:
    async with serve(Portal()) as here:
        slow = asyncio.create_task(_uploaded(here))
        assert (await asked(here, request=ASK.replace(b"/ ", b"/stream "))).count(b"still") == 20
        assert b"20480" in await slow


async def test_an_answer_that_nobody_takes_is_cut() -> None:
    async with serve(Portal()) as here:
        small = socket.socket()
        small.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        small.setblocking(False)
        loop = asyncio.get_running_loop()
        await loop.sock_connect(small, (HERE, here.getsockname()[1]))
        await loop.sock_sendall(small, ASK.replace(b"/ ", b"/flood "))
        await _until(lambda: len(here.crowd) == 1)
        await _until(lambda: len(here.crowd) == 0)
        small.close()


async def test_half_open_requests_of_one_address_keep_nobody_out() -> None:
    """Of them the oldest goes; others, the internal listener and the same address are served."""
    app = Portal()
    async with (
        serve(app, Bounds(most=150, owing=120, owing_of_address=100)) as here,
        serve(app) as inside,
    ):
        serving.OWED_S = 60.0
        held = []
        for _ in range(300):
            _, writer = await connect(here)
            writer.write(HALF)
            held.append(writer)
        await _until(lambda: len(here.crowd) == 100)
        for at, source in ((here, THERE), (inside, HERE), (here, HERE)):
            assert b"200 OK" in await asked(at, source)
        assert len(here.crowd) <= 100
        for writer in held:
            writer.close()


async def test_what_is_answered_is_never_cut_for_a_crowd() -> None:
    async with serve(Portal(), Bounds(most_of_address=3, owing_of_address=2)) as here:
        streams = []
        for _ in range(3):
            reader, writer = await connect(here)
            streams.append((reader, writer))
            writer.write(ASK.replace(b"/ ", b"/stream "))
            assert b"200 OK" in await reader.readline()
        assert await asked(here) == b""  # no more of this address
        assert b"200 OK" in await asked(here, THERE)
        for reader, _ in streams:
            assert (await rest(reader)).count(b"still") == 20
        assert b"200 OK" in await asked(here)


async def test_a_handshake_that_does_not_end_is_cut(tmp_path: Any) -> None:
    ours = Authority(tmp_path)
    tls = {"ssl_certfile": str(ours.serving), "ssl_keyfile": str(ours.serving_key)}
    async with serve(Portal(), Bounds(owing_of_address=5), **tls) as here:
        silent = [await connect(here) for _ in range(20)]
        await _until(lambda: len(here.crowd) <= 5)
        trusting = ssl.create_default_context()
        trusting.check_hostname, trusting.verify_mode = False, ssl.CERT_NONE
        reader, writer = await connect(here, ssl=trusting)
        writer.write(ASK)
        assert b"200 OK" in await reader.readline()
        await _until(lambda: len(here.crowd) == 0)  # after the time that each has
        for _, other in [*silent, (reader, writer)]:
            other.close()


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("10.0.0.1", "10.0.0.2", False),
        ("2001:db8::1", "2001:db8::ffff", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("fe80::1%eth0", "fe80::2%eth0", True),
    ],
)
def test_a_network_of_ipv6_is_counted_as_one(one: str, other: str, same: bool) -> None:
    assert (serving._network((one, 1)) == serving._network((other, 1))) is same


async def _uploaded(to: Listening) -> bytes:
    reader, writer = await connect(to)
    writer.write(b"POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 20480\r\n\r\n")
    for _ in range(20):
        writer.write(b"x" * 1024)
        await asyncio.sleep(OWED_S / 5)
    return await rest(reader)


async def _trickle(writer: asyncio.StreamWriter, what: bytes, *, every_s: float) -> None:
    while True:
        writer.write(what)
        await asyncio.sleep(every_s)


async def _until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not true():  # noqa: ASYNC110 - it tells nobody
            await asyncio.sleep(0.02)
