"""Shares of traffic, replicas that come, go and die, streams, large bodies, counts."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator
from pathlib import Path

import httpx
import pytest

from serving.gateway import haproxy
from serving.gateway.table import Endpoint, Principal, Row
from serving.latency import bucket_of
from tests.serving.gateway.conftest import Running, until
from tests.serving.gateway.replica import Replica

GIB = 2**30


async def test_a_canary_has_its_share_and_callers_may_choose(
    gateway: Running, replica: Replica, other: Replica
) -> None:
    await gateway.route(replica, canary=other, percent=20)
    async with gateway.client() as client:
        answers = [await client.get("/v1") for _ in range(300)]
        shares = Counter((one.text, one.headers["X-Berth-Version"]) for one in answers)
        assert shares.keys() == {("first", "v1"), ("second", "v2")}
        assert 30 <= shares["second", "v2"] <= 95
        for wish, name in [("v1", "first"), ("v2", "second"), ("canary", "second")]:
            chosen = await client.get("/v1", headers={"X-Berth-Version": wish})
            assert chosen.text == name
        none = await client.get("/v1", headers={"X-Berth-Version": "v3"})
        assert (none.status_code, none.json()["code"]) == (404, "no-version")
        await gateway.route(replica, percent=20)  # it is not ready any more
        assert {(await client.get("/v1")).text for _ in range(40)} == {"first"}


async def test_replicas_come_and_go_without_a_new_process(
    gateway: Running, replica: Replica, other: Replica
) -> None:
    await gateway.route(replica)
    before = gateway.pid
    async with gateway.client() as client, client.stream("GET", "/stream") as stream:
        ticks = stream.aiter_lines()
        await anext(ticks)
        await gateway.route(replica, other)
        assert (await client.get("/v1")).text == "second", "it has less to do"
        await gateway.route(other)
        assert {(await client.get("/v1")).text for _ in range(20)} == {"second"}
        for _ in range(10):  # what is open stays until it ends
            assert await anext(ticks) == "tick"
    await until(lambda: not gateway.gateway._leaving)
    await gateway.route(replica, other)
    assert {(await gateway.get()).text for _ in range(20)} == {"first", "second"}
    assert gateway.pid == before


async def test_a_replica_that_is_gone_costs_no_request(
    gateway: Running, replica: Replica, other: Replica
) -> None:
    """Nothing was sent to it, so another one is tried."""
    await gateway.route(replica, other)
    other.die()
    async with gateway.client() as client:
        answers = [await client.post("/v1", content=b"{}") for _ in range(30)]
    assert {(one.status_code, one.text) for one in answers} == {(200, "first")}


async def test_a_replica_that_dies_in_the_middle_is_no_other_answer(
    gateway: Running, replica: Replica, other: Replica
) -> None:
    await gateway.route(replica, other)
    async with gateway.client() as client:
        broken = []
        for _ in range(2):
            with pytest.raises(httpx.RemoteProtocolError) as raised:
                await client.get("/half")
            broken.append(raised.value)
        assert len(broken) == 2
        lost = await client.get("/v1")
        assert (lost.status_code, lost.json()["code"]) == (503, "no-replica")
    assert [one.seen[0].split()[1] for one in (replica, other)] == ["/half", "/half"]
    assert len(replica.seen) == len(other.seen) == 1, "nothing was sent twice"
    await until(lambda: gateway.gateway.counts._by_slice)


@pytest.mark.slow
async def test_a_body_of_a_gib_is_kept_by_nobody(gateway: Running, replica: Replica) -> None:
    await gateway.route(replica)

    def memory() -> int:
        status = Path(f"/proc/{gateway.pid}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) * 1024

    async def body() -> AsyncIterator[bytes]:
        piece = b"x" * 2**20
        for _ in range(1024):
            yield piece

    before, most = memory(), 0

    async def watch() -> None:
        nonlocal most
        while True:
            most = max(most, memory())
            await asyncio.sleep(0.05)

    watching = asyncio.create_task(watch())
    async with gateway.client() as client:
        headers = {"Content-Length": str(GIB)}
        answer = await client.post("/v1", content=body(), headers=headers)
    watching.cancel()
    assert answer.text == "first"
    assert replica.received == GIB
    assert most - before < 16 * 2**20


async def test_what_was_carried_is_counted_by_caller_and_row(
    gateway: Running, replica: Replica, other: Replica
) -> None:
    await gateway.route(
        replica,
        canary=other,
        principals={
            "good": Principal("k1", "k1", frozenset({"e1"}), requests_per_s=3),
            "token": Principal("t2", "u2", projects=frozenset({"team"})),
        },
    )
    began = time.monotonic()
    for secret, asked in (("good", 20), ("token", 8)):
        async with gateway.client(secret) as client:
            for _ in range(asked):
                await client.post("/v1?secret=in-a-query", content=b"body")
    most = 3 * (time.monotonic() - began + 1) + 1  # and a window's edge
    replica.pause_s = 0.3
    await gateway.get(secret="token", headers={"X-Berth-Version": "v1"})
    counts = gateway.gateway.counts

    def counted(word: str) -> int:
        its = [one for part, one in counts._by_slice.items() if part.word == word]
        return sum(one.requests + one.refused for one in its)

    await until(lambda: (counted("k1"), counted("t2")) == (20, 9))
    taken = counts.take()
    assert counts.take() == {}
    of_key = [one for part, one in taken.items() if part.word == "k1"]
    of_token = [(part, one) for part, one in taken.items() if part.word == "t2"]
    assert sum(one.requests for one in of_key) + sum(one.refused for one in of_key) == 20
    assert sum(one.requests for one in of_key) <= most
    assert {part.row for part, _one in of_token} == {"r1"}
    assert sum(one.requests for _part, one in of_token) == 9
    slowest = max(bucket for _part, one in of_token for bucket in one.histogram)
    assert slowest >= bucket_of(0.3)
    assert all(one.bytes_in > 0 and one.bytes_out > 0 for _part, one in of_token)
    folder = gateway.gateway.folder
    kept = b"".join(one.read_bytes() for one in folder.iterdir() if one.is_file())
    assert b"good" not in kept, "a secret is nowhere, only its digest"


async def test_more_endpoints_than_backends_need_one_new_process_and_lose_nothing(
    gateway: Running, replica: Replica
) -> None:
    await gateway.route(replica)
    before = gateway.pid
    many = tuple(
        Endpoint(
            f"x{number}", "team", f"more-{number}", Row(f"y{number}", "v1", (replica.address,))
        )
        for number in range(100)
    )
    token = {"good": Principal("k1", "k1", frozenset({"e1"}), frozenset({"team"}))}
    async with under_load(gateway) as told:
        await gateway.route(replica, others=many, principals=token)
        await asyncio.sleep(0.5)
    assert gateway.pid != before
    assert set(told) == {"first"}
    assert (await gateway.get(f"http://127.0.0.1:{gateway.port}/e/team/more-99/")).text == "first"


async def test_haproxy_killed_under_load_is_back_and_no_answer_is_wrong(
    gateway: Running, replica: Replica, other: Replica
) -> None:
    await gateway.route(replica, canary=other, percent=0)
    async with under_load(gateway) as told:
        os.kill(gateway.pid, signal.SIGKILL)
        began = time.monotonic()
        answer = await gateway.get()  # it waits at the socket, which nobody closed
        took = time.monotonic() - began
        await asyncio.sleep(0.5)
    assert answer.text == "first"
    assert took < 3, "less than one second on a machine that is not busy"
    assert set(told) <= {"first", "broken"}
    assert told["first"] > told["broken"]


async def test_alone_for_too_long_it_ends(
    gateway: Running, replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody takes a key away there any more; here another one is started at once."""
    monkeypatch.setattr(haproxy, "ALONE_S", 4)
    os.kill(gateway.pid, signal.SIGKILL)
    await gateway.route(replica)
    await until(lambda: gateway.gateway._generations[-1].is_alive)
    before = gateway.pid
    await asyncio.sleep(6)
    assert gateway.pid == before
    haproxy.write(
        gateway.gateway.folder / "control.pid", f"4194305\n{os.getppid()}\n"
    )  # there is none
    await until(lambda: gateway.pid != before)


class under_load:  # noqa: N801 - read as a phrase
    """Eight callers, one request after the other; what each was answered."""

    def __init__(self, gateway: Running) -> None:
        self.gateway = gateway
        self.told: Counter[str] = Counter()
        self._over = False

    async def __aenter__(self) -> Counter[str]:
        self._tasks = [asyncio.create_task(self._call()) for _ in range(8)]
        await until(lambda: self.told.total() > 50)
        return self.told

    async def __aexit__(self, *_: object) -> None:
        self._over = True
        await asyncio.gather(*self._tasks)

    async def _call(self) -> None:
        async with self.gateway.client() as client:
            while not self._over:
                try:
                    answer = await client.get("/v1")
                    self.told[answer.text if answer.status_code == 200 else str(answer)] += 1
                except httpx.TransportError:
                    self.told["broken"] += 1
