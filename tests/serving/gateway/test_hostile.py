"""Requests that are not what they seem, and senders that take their time."""

from __future__ import annotations

import asyncio
import stat
import time

import httpx
import pytest

from serving.gateway.table import Principal
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
async def test_f1_a_path_that_may_be_read_in_two_ways_is_no_endpoint(
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
    "lengths in a row": f"Content-Length: 4, 5\n\nabcd{SMUGGLED}",
    "length in hex": f"Content-Length: 0x4\n\nabcd{SMUGGLED}",
    "length that is large": f"Content-Length: 99999999999999999999\n\nabcd{SMUGGLED}",
    "chunked and more": f"Transfer-Encoding: chunked, identity\n\n0\n\n{SMUGGLED}",
    "chunked, then not": f"Transfer-Encoding: chunked\nTransfer-Encoding: x\n\n0\n\n{SMUGGLED}",
    "chunk of no size": f"Transfer-Encoding: chunked\n\nfffffffffffffffff\n\n{SMUGGLED}",
    "two hosts": f"Host: y\n\n{SMUGGLED}",
    "a name with a space": f"X A: b\n\n{SMUGGLED}",
    "a line that is none": f"nothing\n\n{SMUGGLED}",
    "too long": f"X-A: {'a' * 20_000}\n\n{SMUGGLED}",
    "a key of a megabyte": f"X-API-Key: {'a' * 1_000_000}\n\n",  # A11
    "two keys": "Authorization: Bearer x\n\n",
    "null in a header": "X-A: a\0b\n\n",
}


@pytest.mark.parametrize("trick", TRICKS.values(), ids=TRICKS.keys())
async def test_f1_header_tricks_are_refused(gateway: Running, replica: Replica, trick: str) -> None:
    await gateway.route(replica)
    answer = await gateway.raw(f"POST /e/team/digits/v1 HTTP/1.1\n{HEAD}{trick}")
    assert answer.split()[1] in {"400", "501"}, answer
    assert not any("smuggled" in head for head in replica.seen)
    assert len(replica.seen) <= trick.startswith("Transfer-Encoding"), "its body came too late"


async def test_f1_a_length_beside_chunks_is_not_believed(
    gateway: Running, replica: Replica
) -> None:
    """What stands behind the last chunk is a request of its own, and needs a key like any other."""
    await gateway.route(replica)
    text = f"Content-Length: 4\nTransfer-Encoding: chunked\n\n0\n\n{SMUGGLED}"
    answer = await gateway.raw(f"POST /e/team/digits/v1 HTTP/1.1\n{HEAD}{text}")
    assert len(replica.seen) == 1
    assert "content-length" not in replica.seen[0].lower()
    assert "HTTP/1.1 401" in answer or answer.count("HTTP/1.1") == 1


async def test_f4_a_sender_of_one_letter_at_a_time_is_let_go(
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


async def test_a4_what_a_caller_says_of_itself_reaches_no_server(
    gateway: Running, replica: Replica
) -> None:
    """In whatever spelling servers may take for the gateway's word."""
    await gateway.route(replica)
    names = ["X-Forwarded-For", "x-forwarded-user", "X_Forwarded_For", "X-Forwarded-Prefix"]
    names += ["Forwarded", "X-Real-IP", "X-Berth-Endpoint", "X_Berth_Endpoint", "X-Berth-User"]
    names += ["Cookie", "Api-Key", "X-Forwarded-Client-Cert"]
    told = "".join(f"{name}: forged\n" for name in names)
    answer = await gateway.raw(f"GET /e/team/digits/v1 HTTP/1.1\n{HEAD}{told}Connection: close\n\n")
    assert answer.split()[1] == "200", answer
    head = replica.seen[0].lower()
    assert "forged" not in head
    assert "x-forwarded-for: 127.0.0.1\r\n" in head
    assert "x-berth-endpoint: team/digits\r\n" in head
    named = "close, X-Forwarded-For, X-Berth-Endpoint, Host"
    await gateway.raw(f"GET /e/team/digits/v1 HTTP/1.1\n{HEAD}Connection: {named}\n\n")
    head = replica.seen[1].lower()
    for kept in (
        "\r\nhost: x\r\n",
        "x-forwarded-for: 127.0.0.1\r\n",
        "x-berth-endpoint: team/digits\r\n",
    ):
        assert kept in head, "named as of one connection, and there nevertheless"


HOSTS = {
    "another host": ("/e/team/digits/v1", "Host: other.example\n"),
    "the whole address": ("http://x/e/team/digits/v1", "Host: x\n"),
    "the whole address of another": ("http://other.example/e/team/digits/v1", "Host: x\n"),
    "with a name before it": ("http://a:b@x/e/team/digits/v1", "Host: x\n"),
    "of another scheme": ("ftp://x/e/team/digits/v1", "Host: x\n"),
}


@pytest.mark.parametrize(("address", "host"), HOSTS.values(), ids=HOSTS.keys())
async def test_f1_whatever_host_is_named_the_path_decides(
    gateway: Running, replica: Replica, address: str, host: str
) -> None:
    await gateway.route(replica)
    rest = f"{host}Authorization: Bearer good\nConnection: close\n\n"
    answer = await gateway.raw(f"GET {address} HTTP/1.1\n{rest}")
    assert answer.split()[1] in {"200", "400"}, answer
    for head in replica.seen:
        assert head.split()[1].endswith("/v1"), head
        assert "/e/team" not in head.split()[1]


WEBSOCKET = "Sec-WebSocket-Version: 13\nSec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\n\n"


async def test_f1_nothing_is_a_tunnel_but_a_websocket(gateway: Running, replica: Replica) -> None:
    """Through another one requests would go on that nobody looks at."""
    await gateway.route(replica)
    ask = "GET /e/team/digits/upgrade HTTP/1.1\n" + HEAD
    await gateway.raw(
        ask
        + "Connection: Upgrade, HTTP2-Settings\nUpgrade: h2c\nHTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA\n\n"
    )
    await gateway.raw(ask + "Connection: Upgrade\nUpgrade: TLS/1.0\n\n")
    await gateway.raw(ask + "Connection: Upgrade\nUpgrade: anything, websocket/h2c\n\n")
    await gateway.raw(
        ask + "Connection: Upgrade\nUpgrade: websocket\nUpgrade: TLS/1.0\n" + WEBSOCKET
    )
    assert len(replica.seen) == 4
    for head in replica.seen:
        assert "upgrade:" not in head.lower(), head
    answer = await gateway.raw(f"CONNECT {replica.address} HTTP/1.1\n{HEAD}\n")
    assert answer.split()[1] in {"400", "404", "405"}
    assert len(replica.seen) == 4


async def test_a7_a_key_in_an_address_is_none(gateway: Running, replica: Replica) -> None:
    await gateway.route(replica)
    async with httpx.AsyncClient(base_url=gateway.url) as anyone:
        for name in ("access_token", "api_key", "key", "token"):
            assert (await anyone.get(f"/v1?{name}=good")).status_code == 401
        told = await anyone.get(f"http://good@127.0.0.1:{gateway.port}/e/team/digits/v1")
        assert told.status_code == 401
    for secret in ("go od", "good,good", '"good"', "GOOD", "", "good\tx", "a" * 9000):
        text = f"GET /e/team/digits/v1 HTTP/1.1\nHost: x\nAuthorization: Bearer {secret}\n"
        answer = await gateway.raw(f"{text}Connection: close\n\n")
        assert answer.split()[1] == ("400" if "," in secret else "401"), secret
    assert replica.seen == []


async def test_f2_a_limit_is_a_keys_wherever_it_says_that_it_comes_from(
    gateway: Running, replica: Replica
) -> None:
    limited = Principal("k1", "k1", frozenset({"e1"}), requests_per_s=3)
    await gateway.route(replica, principals={"good": limited})
    told, began = [], time.monotonic()
    for n in range(40):
        headers = {"X-Forwarded-For": f"10.0.0.{n}", "X-Real-IP": f"10.0.0.{n}"}
        told.append((await gateway.get(headers=headers)).status_code)  # each by a connection
    most = 3 * (time.monotonic() - began + 1) + 1  # and a window's edge
    assert told.count(200) <= most
    assert told.count(200) + told.count(429) == 40


async def test_f4_who_sends_its_body_slowly_holds_up_nobody_and_is_told_in_the_end(
    gateway: Running, replica: Replica, other: Replica
) -> None:
    await gateway.route(replica, canary=other)
    slow = []
    for _ in range(100):
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
        head = "POST /e/team/digits/v1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer good\r\n"
        writer.write(f"{head}Content-Length: 1000\r\n\r\nx".encode())
        slow.append((reader, writer))
    await until(lambda: len(replica.seen) == 100)
    for _ in range(20):
        assert (await gateway.get(headers={"X-Berth-Version": "v2"})).text == "second"
    for _reader, writer in slow[1:]:
        writer.close()
    await until(lambda: gateway.gateway.answering.get("r1") == 1)
    reader, writer = slow[0]
    writer.write(b"x" * 999)
    assert b" 200 OK" in await reader.readuntil(b"\r\n")
    writer.close()
