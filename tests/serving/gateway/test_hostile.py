"""Requests that are not what they seem, and senders that take their time."""

from __future__ import annotations

import asyncio
import stat
import time

import pytest

from tests.serving.gateway.conftest import Running, digest, until
from tests.serving.gateway.replica import Replica

HEAD = "Host: x\nAuthorization: Bearer good\n"
PATHS = [
    "/e/team/digits%2fv1",
    "/e/team%2fdigits/v1",
    "/e//team/digits/v1",
    "//e/team/digits/v1",
    "/e/./team/digits/v1",
    "/e/other/../team/digits/v1",
    "/e/team/%64igits/v1",
    "/e/team/digits%00/v1",
    "/e/team/digits;x/v1",
    "/e/team\\digits/v1",
    "/e/TEAM/digits/v1",
    "/E/team/digits/v1",
    "/%65/team/digits/v1",
    "/e/team/digits?/v1",
    "/e/team",
    "/e/",
    "/",
    "*",
]


@pytest.mark.parametrize("path", PATHS)
async def test_a_path_that_may_be_read_in_two_ways_is_no_endpoint(
    gateway: Running, replica: Replica, path: str
) -> None:
    await gateway.route(replica)
    answer = await gateway.raw(f"GET {path} HTTP/1.1\n{HEAD}Connection: close\n\n")
    if path == "/e/team/digits?/v1":  # a question to the endpoint's root
        assert replica.seen[0].startswith("GET /?/v1 ")
        return
    assert answer.split()[1] in {"400", "404"}, answer
    assert replica.seen == []


SMUGGLED = "GET /e/team/digits/smuggled HTTP/1.1\nHost: x\n\n"
TRICKS = {
    "two lengths": f"Content-Length: 4\nContent-Length: 5\n\nabcd{SMUGGLED}",
    "length with a sign": f"Content-Length: +4\n\nabcd{SMUGGLED}",
    "chunked spelt wrongly": f"Transfer-Encoding: xchunked\n\n0\n\n{SMUGGLED}",
    "space before the colon": f"Content-Length : 4\n\nabcd{SMUGGLED}",
    "two keys": "Authorization: Bearer x\n\n",
    "null in a header": "X-A: a\0b\n\n",
}


@pytest.mark.parametrize("trick", TRICKS.values(), ids=TRICKS.keys())
async def test_header_tricks_are_refused(gateway: Running, replica: Replica, trick: str) -> None:
    await gateway.route(replica)
    answer = await gateway.raw(f"POST /e/team/digits/v1 HTTP/1.1\n{HEAD}{trick}")
    assert answer.split()[1] in {"400", "501"}, answer
    assert replica.seen == []


async def test_a_length_beside_chunks_is_not_believed(gateway: Running, replica: Replica) -> None:
    """What stands behind the last chunk is a request of its own, and needs a key like any other."""
    await gateway.route(replica)
    text = f"Content-Length: 4\nTransfer-Encoding: chunked\n\n0\n\n{SMUGGLED}"
    answer = await gateway.raw(f"POST /e/team/digits/v1 HTTP/1.1\n{HEAD}{text}")
    assert len(replica.seen) == 1
    assert "content-length" not in replica.seen[0].lower()
    assert "HTTP/1.1 401" in answer or answer.count("HTTP/1.1") == 1


async def test_a_sender_of_one_letter_at_a_time_is_let_go(
    gateway: Running, replica: Replica
) -> None:
    await gateway.route(replica)
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    began = time.monotonic()
    writer.write(b"GET /e/team/digits/v1 HTTP/1.1\r\nHost: ")
    ended = asyncio.create_task(reader.read(65536))
    while not ended.done() and time.monotonic() - began < 15:
        writer.write(b"x")
        await asyncio.sleep(0.5)
    assert b" 408 " in await ended
    assert replica.seen == []


async def test_nothing_but_http_1_is_spoken_in_clear(gateway: Running, replica: Replica) -> None:
    """Whoever stands before it with TLS may send several callers over one connection: as they are."""
    await gateway.route(replica)
    answer = await gateway.raw("PRI * HTTP/2.0\n\nSM\n\n")
    assert " 400 " in answer.split("\n")[0]


async def test_others_of_the_machine_read_no_digest_and_command_nothing(
    gateway: Running, replica: Replica
) -> None:
    """By the files themselves: the folder is closed too, but somebody may open it."""
    gateway.gateway.folder.chmod(0o755)
    await gateway.route(replica)
    gateway.gateway._generations[-1].kill()  # the next process reads its maps from files
    await until(lambda: gateway.gateway._generations[-1].is_alive)
    files = {one.name: one for one in gateway.gateway.folder.iterdir()}
    assert gateway.gateway.folder / "calls.sock" in files.values()
    assert digest("good") in files["keys.map"].read_text()
    assert any(name.startswith("admin-") for name in files)
    opened = {name for name, one in files.items() if stat.S_IMODE(one.stat().st_mode) & 0o077}
    assert not opened
