"""A request for an endpoint that sleeps: held, bounded, and asked for once."""

from __future__ import annotations

import asyncio
import time

import httpx
import pytest

from serving.gateway import control
from tests.serving.gateway.conftest import Running, until
from tests.serving.gateway.replica import Replica


async def test_many_wait_for_one_waking(gateway: Running, replica: Replica) -> None:
    await gateway.route()
    async with gateway.client() as client:
        asked = [asyncio.create_task(client.post("/v1", content=b"x" * 100)) for _ in range(20)]
        await until(lambda: gateway.gateway.waiting.get("e1") == 20)
        assert gateway.woken == ["e1"]
        began = time.monotonic()
        await gateway.route(replica)
        answers = await asyncio.gather(*asked)
    assert time.monotonic() - began < 10
    assert {(one.status_code, one.text) for one in answers} == {(200, "first")}
    await until(lambda: gateway.gateway.waiting == {})


async def test_nobody_without_a_key_wakes_anything(gateway: Running) -> None:
    await gateway.route()
    async with httpx.AsyncClient(base_url=gateway.url) as anyone:
        assert (await anyone.get("/v1")).status_code == 401
    assert (await gateway.get(secret="wrong")).status_code == 401
    assert gateway.woken == []


async def test_waiting_has_an_end_and_room_for_so_many(gateway: Running) -> None:
    await gateway.route(wait_s=4, waiting=2)
    async with gateway.client() as client:
        held = [asyncio.create_task(client.get("/v1")) for _ in range(2)]
        await until(lambda: gateway.gateway.waiting.get("e1") == 2)
        third = await client.get("/v1")
        assert not any(one.done() for one in held), "it was told at once"
        late = await asyncio.gather(*held)
    for answer in (third, *late):
        assert answer.status_code == 503
        assert answer.json()["code"] == "no-replica"
        assert answer.headers["Retry-After"] == "5"


async def test_the_request_of_who_went_away_is_never_sent(
    gateway: Running, replica: Replica
) -> None:
    """HAProxy may notice only then that its client is gone; until then it holds its place."""
    await gateway.route()
    async with gateway.client() as client:
        for _ in range(5):
            held = asyncio.create_task(client.get("/v1"))
            await until(lambda: gateway.gateway.waiting)
            held.cancel()
        await asyncio.sleep(0.2)
        await gateway.route(replica)
        assert (await client.get("/mine")).text == "first"
    await asyncio.sleep(0.5)
    assert [head.split()[1] for head in replica.seen] == ["/mine"]


async def test_a_body_is_not_read_while_its_request_waits(
    gateway: Running, replica: Replica
) -> None:
    await gateway.route()
    reader, writer = await asyncio.open_connection("127.0.0.1", gateway.port)
    size = 64 * 2**20
    writer.write(
        b"POST /e/team/digits/v1 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer good\r\n"
        b"Content-Length: %d\r\n\r\n" % size
    )
    writer.write(b"x" * size)
    await until(lambda: gateway.gateway.waiting)
    await asyncio.sleep(0.5)
    assert writer.transport.get_write_buffer_size() > size / 2, "it stays with its sender"
    await gateway.route(replica)
    assert b" 200 OK" in await reader.readuntil(b"\r\n\r\n")
    assert replica.received == size
    writer.close()


async def test_who_waits_for_what_was_stopped_is_told(gateway: Running) -> None:
    await gateway.route(wait_s=50)
    async with gateway.client() as client:
        held = asyncio.create_task(client.get("/v1"))
        await until(lambda: gateway.gateway.waiting)
        began = time.monotonic()
        await gateway.route(wait_s=0, waiting=0)
        assert (await held).status_code == 503
        assert time.monotonic() - began < 10
        await gateway.route(wait_s=0, waiting=0, stopped="Stopped by its owner.")
        told = await client.get("/v1")
    assert (told.status_code, told.json()["code"]) == (503, "stopped")
    assert told.json()["detail"] == "Stopped by its owner."
    assert "Retry-After" not in told.headers, "nobody knows when somebody starts it"
    assert (await gateway.get(secret="wrong")).status_code == 401, (
        "of which strangers learn nothing"
    )


async def test_a_canary_that_is_ready_is_not_waited_for_while_the_first_row_restarts(
    gateway: Running, replica: Replica
) -> None:
    """As in each promotion: all of the traffic goes to the canary meanwhile."""
    await gateway.route(wait_s=30)
    wishes: list[dict[str, str]] = [{}, {"X-Berth-Version": "canary"}, {"X-Berth-Version": "v2"}]
    async with gateway.client() as client:
        held = [asyncio.create_task(client.get("/v1", headers=wish)) for wish in wishes]
        await until(lambda: gateway.gateway.waiting.get("e1") == 3)
        began = time.monotonic()
        await gateway.route(canary=replica, percent=100, wait_s=30)
        assert [(await one).text for one in held] == ["first"] * 3, "it came while they waited"
        for wish in wishes:
            assert (await client.get("/v1", headers=wish)).text == "first"
        assert time.monotonic() - began < 10
        await until(lambda: gateway.gateway.waiting == {})
        await gateway.route(canary=replica, percent=0, wait_s=1)
        assert (await client.get("/v1")).status_code == 503, "of which nothing goes to the canary"


async def test_a_wake_that_failed_is_tried_again_and_who_waits_is_told(
    gateway: Running, replica: Replica, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(control, "WAKES_EVERY_S", 1.5)
    why = 'Its owner\'s budget "B\\" is spent; 予算 %[src]\n.'
    gateway.refusals.append(why)
    await gateway.route(wait_s=50)
    began = time.monotonic()
    refused = await gateway.get()
    assert (refused.status_code, refused.json()["code"]) == (503, "not-woken")
    assert refused.json()["detail"] == why, "as it is, whatever letters it has"
    assert refused.headers["Retry-After"] == "30"
    assert (await gateway.get()).status_code == 503, "nobody waits for what can't wake"
    assert time.monotonic() - began < 10
    await until(lambda: not gateway.gateway._refused)
    assert gateway.woken == ["e1"]
    held = asyncio.create_task(gateway.get())
    await until(lambda: len(gateway.woken) >= 3)  # it is still asleep, so it is asked again
    assert not held.done()
    await gateway.route(replica)
    assert (await held).text == "first"
