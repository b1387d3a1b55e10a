"""Servers that answer late, lie, break off or speak no HTTP, and a gateway that is killed: no wrong answer."""

from __future__ import annotations

import asyncio
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator

import httpx
import pytest

from serving.gateway import rooms
from serving.gateway.table import Endpoint, Principal, Row
from tests.serving.gateway.conftest import Running, until
from tests.serving.gateway.replica import Replica


class Says(Replica):
    """Answers each request with the same bytes."""

    answer = b""

    async def _act(
        self, head: str, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        writer.write(self.answer)
        await writer.drain()
        if b"close" in self.answer:
            writer.close()


@pytest.fixture
async def says() -> AsyncIterator[Says]:
    one = Says("says")
    await one.start()
    yield one
    one.die()


async def test_e1_gateway_killed_again_and_again_no_answer_is_anothers_and_nothing_is_sent_twice(
    gateway: Running, replica: Replica, other: Replica
) -> None:
    """Each of 32 callers sends numbers; a replica gives back the number that it was sent."""
    await gateway.route(replica, other)
    told, sent, over = Counter[str](), 0, False

    async def caller(who: int) -> None:
        nonlocal sent
        async with gateway.client() as client:
            while not over:
                sent += 1
                number = f"{who}-{sent}"
                try:
                    answer = await client.post(f"/echo?{number}", content=number.encode())
                except httpx.TransportError:
                    told["broken"] += 1
                else:
                    is_right = (answer.status_code, answer.text) == (200, number)
                    told["right" if is_right else f"{answer.status_code} {answer.text}"] += 1

    callers = [asyncio.create_task(caller(who)) for who in range(32)]
    for _ in range(3):
        good = told["right"]
        await until(lambda good=good: told["right"] > good + 100)
        killed = gateway.pid
        os.kill(killed, signal.SIGKILL)
        await until(lambda killed=killed: gateway.pid != killed)
    good = told["right"]
    await until(lambda: told["right"] > good + 100)
    over = True
    await asyncio.gather(*callers)
    assert told.keys() <= {"right", "broken"}
    assert told["broken"] <= 3 * 32, "only what was in hand then"
    numbers = [head.split()[1] for one in (replica, other) for head in one.seen]
    assert len(numbers) == len(set(numbers)), "nothing was sent twice"


async def test_e7_a_replica_that_answers_late_is_waited_for_and_holds_up_no_other(
    gateway: Running, replica: Replica, other: Replica
) -> None:
    replica.pause_s = 2.0
    await gateway.route(replica, canary=other)
    fast = {"X-Berth-Version": "v2"}
    async with gateway.client() as client:
        late = [asyncio.create_task(client.post("/v1", content=b"x")) for _ in range(20)]
        await until(lambda: len(replica.seen) == 20)
        for _ in range(20):
            assert (await client.post("/v1", headers=fast)).text == "second"
        assert not any(one.done() for one in late)
        assert {(await one).text for one in late} == {"first"}


async def test_e19_a_replica_that_lies_about_its_queue_gets_at_most_so_many_times_more(
    gateway: Running, replica: Replica, other: Replica
) -> None:
    """It says that it is idle and answers nothing; the other says how much it has."""
    replica.figures = "vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n"
    other.figures = "vllm:num_requests_running 9\nvllm:num_requests_waiting 99\n"
    replica.pause_s = 600.0
    await gateway.route(replica, other, metrics="/metrics")
    async with gateway.client(limits=httpx.Limits(max_connections=500)) as client:
        first = asyncio.create_task(client.get("/v1"))
        await until(lambda: gateway.gateway._weights.get(other.address) == rooms.LEAST)
        more = [asyncio.create_task(client.get("/v1")) for _ in range(300)]
        await until(lambda: len(replica.seen) + len(other.seen) == 301)
        share = rooms.MOST / rooms.LEAST
        assert len(other.seen) >= 301 / (share + 1) * 0.7
        await until(lambda: sum(one.done() for one in (first, *more)) == len(other.seen))
        replica.figures = "vllm:num_requests_waiting NaN\n"  # as good as none: the mean
        await until(
            lambda: (
                gateway.gateway._weights[replica.address] == gateway.gateway._weights[other.address]
            )
        )
        for one in (first, *more):
            one.cancel()
        await asyncio.gather(first, *more, return_exceptions=True)


NO_HTTP = {
    "no HTTP": b"SSH-2.0-OpenSSH\r\n\r\nclose",
    "nothing": b"close",
    "a head without end": b"HTTP/1.1 200 OK\r\nX: " + b"x" * 20_000 + b"close",
    "two lengths": b"HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxclose",
    "a line in a header": b"HTTP/1.1 200 OK\r\nX: a\0b\r\nContent-Length: 0\r\n\r\nclose",
    "a number that is none": b"HTTP/1.1 2x0 OK\r\nContent-Length: 0\r\n\r\nclose",
}


@pytest.mark.parametrize("answer", NO_HTTP.values(), ids=NO_HTTP.keys())
async def test_f1_what_is_no_answer_is_told_as_that(
    gateway: Running, says: Says, answer: bytes
) -> None:
    says.answer = answer if answer != b"close" else b""
    await gateway.route(says)
    if not says.answer:
        asked = asyncio.create_task(gateway.get())
        await until(lambda: says.seen)
        says.die()
        told = await asked
    else:
        told = await gateway.get()
    assert (told.status_code, told.json()["code"]) == (502, "replica-failed")
    assert len(says.seen) == 1, "and it is not asked again"


async def test_f1_a_second_answer_that_nobody_asked_for_reaches_no_caller(
    gateway: Running, says: Says
) -> None:
    """A server could so answer the next caller, whoever that is."""
    one = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\nmine"
    says.answer = one + one.replace(b"mine", b"evil")
    await gateway.route(says)
    async with gateway.client() as client:
        answers = [await client.get("/v1") for _ in range(30)]
    assert {(answer.status_code, answer.text) for answer in answers} == {(200, "mine")}
    assert len(says.seen) == 30


async def test_f4_callers_that_read_nothing_take_little_and_hold_up_nobody(
    gateway: Running, replica: Replica, other: Replica
) -> None:
    """200 of them, each with an answer of 8 MiB on its way."""
    await gateway.route(replica, canary=other)

    def memory() -> int:
        with open(f"/proc/{gateway.pid}/status") as status:  # noqa: PTH123
            return int(status.read().partition("VmRSS:")[2].split()[0]) * 1024

    before, lazy = memory(), []
    for _ in range(200):
        reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port, limit=1024)
        writer.transport.pause_reading()  # type: ignore[attr-defined]
        head = "GET /e/team/digits/large HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer good\r\n\r\n"
        writer.write(head.encode())
        lazy.append((reader, writer))
    await until(lambda: len(replica.seen) == 200)
    fast = {"X-Berth-Version": "v2"}
    async with gateway.client() as client:
        for _ in range(50):
            assert (await client.get("/v1", headers=fast)).text == "second"
    assert memory() - before < 200 * 128 * 1024
    for _reader, writer in lazy:
        writer.transport.abort()
    await until(lambda: gateway.gateway.answering.get("r1") == 0)


async def test_a1_a_key_of_another_tenant_opens_nothing_by_any_way(
    gateway: Running, replica: Replica
) -> None:
    """By name, by version, in other letters, behind a name of one's own, with their words in headers."""
    theirs = Endpoint("e2", "theirs", "secret", Row("r9", "v1", (replica.address,)), origins=())
    keys = {
        "good": Principal("k1", "k1", frozenset({"e1"})),
        "token": Principal("t1", "u1", projects=frozenset({"team"})),
    }
    await gateway.route(others=(theirs,), principals=keys, wait_s=0, waiting=0)
    paths = [
        "/e/theirs/secret/v1",
        "/e/team/../theirs/secret",
        "/e/team/digits/../../theirs/secret",
    ]
    paths += ["/e/theirs/secret", "/e/theirs%2fsecret/v1", "/e/theirs//secret", "/e/theirs;/secret"]
    headers = {
        "X-Berth-Endpoint": "theirs/secret",
        "X-Forwarded-Prefix": "/e/theirs/secret",
        "X-Forwarded-Host": "theirs",
        "X-Original-URL": "/e/theirs/secret",
        "X-Rewrite-URL": "/e/theirs/secret",
    }
    for secret in keys:
        for path in paths:
            answer = await gateway.raw(
                f"GET {path} HTTP/1.1\nHost: x\nAuthorization: Bearer {secret}\nConnection: close\n\n"
            )
            assert answer.split()[1] in {"404", "503"}, (path, answer)
        for version in ("r9", "e2", "v1/../e2", "../e2", "canary/e2"):
            answer = await gateway.get(secret=secret, headers={"X-Berth-Version": version})
            assert answer.status_code in {404, 503}
        answer = await gateway.get(secret=secret, headers=headers)
        assert answer.status_code == 503, "its own, which sleeps"
    assert replica.seen == []
    assert "e2" not in gateway.woken
