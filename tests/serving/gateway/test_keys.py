"""Who may call: keys and tokens, what strangers learn, limits, revocation."""

from __future__ import annotations

import asyncio
import time
from dataclasses import replace
from typing import Any

import httpx
import pytest

from serving.gateway.table import Endpoint, Principal, Row
from tests.serving.gateway.conftest import Running
from tests.serving.gateway.replica import Replica

KEY = Principal("k1", "k1", frozenset({"e1"}))


async def test_a_key_opens_its_endpoint_and_goes_no_further(
    gateway: Running, replica: Replica
) -> None:
    await gateway.route(replica)
    async with httpx.AsyncClient(base_url=gateway.url) as anyone:
        assert (await anyone.get("/v1")).status_code == 401
        assert (await anyone.get("/v1", headers={"Authorization": "Bearer x"})).status_code == 401
        assert (await anyone.get("/v1", headers={"Authorization": "Basic good"})).status_code == 401
        for name in ("X-API-Key", "api-key"):
            assert (await anyone.get("/v1", headers={name: "good"})).text == "first"
        told = {
            "Authorization": "Bearer good",
            "Cookie": "sessionid=portal",
            "X-Berth-Endpoint": "other/one",
            "X-Forwarded-For": "10.0.0.1",
            "X_Forwarded_For": "10.0.0.2",
            "Forwarded": "for=10.0.0.3",
        }
        answer = await anyone.get("/v1/models/digits:predict?full=yes", headers=told)
    assert answer.headers["X-Berth-Version"] == "v1"
    assert "set-cookie" not in answer.headers, "a model's server speaks for the whole host"
    head = replica.seen[-1].lower()
    assert head.startswith("get /v1/models/digits:predict?full=yes http/1.1\r\n")
    assert "x-berth-endpoint: team/digits\r\n" in head
    assert "x-berth-version: v1\r\n" in head
    assert "x-forwarded-for: 127.0.0.1\r\n" in head
    for hidden in ("good", "portal", "authorization", "other/one", "10.0.0"):
        assert hidden not in head
    assert not any("good" in one or "api-key" in one for one in replica.seen)


async def test_an_endpoint_of_others_and_none_are_told_alike(
    gateway: Running, replica: Replica
) -> None:
    others = Endpoint("e2", "theirs", "secret", Row("r9", "v1", (replica.address,)))
    await gateway.route(replica, others=(others,))
    async with gateway.client() as client:
        theirs = await client.get(f"http://127.0.0.1:{gateway.port}/e/theirs/secret/v1")
        none = await client.get(f"http://127.0.0.1:{gateway.port}/e/theirs/none/v1")
    assert theirs.status_code == none.status_code == 404
    assert theirs.content == none.content
    assert theirs.headers["Content-Type"] == "application/problem+json"
    assert theirs.json()["code"] == "not-found"
    assert replica.seen == []


async def test_a_token_calls_every_endpoint_of_its_projects(
    gateway: Running, replica: Replica
) -> None:
    token = Principal("t7", "u7", projects=frozenset({"team"}))
    others = Endpoint("e2", "theirs", "secret", Row("r9", "v1", (replica.address,)))
    await gateway.route(replica, others=(others,), principals={"token": token})
    assert (await gateway.get(secret="token")).status_code == 200
    url = f"http://127.0.0.1:{gateway.port}/e/theirs/secret/v1"
    assert (await gateway.get(url, secret="token")).status_code == 404


@pytest.mark.parametrize("left", ["revoked", "expired", "taken-away"])
async def test_who_may_no_longer_call_is_cut_off_in_the_middle_of_a_stream(
    gateway: Running, replica: Replica, left: str
) -> None:
    """The streams of others, at the same endpoint, go on."""
    kept = Principal("k2", "k2", frozenset({"e1"}))
    both = {"good": KEY, "kept": kept}
    await gateway.route(replica, principals=both)
    async with (
        gateway.client() as client,
        gateway.client("kept") as another,
        client.stream("GET", "/stream") as mine,
        another.stream("GET", "/stream") as theirs,
    ):
        lines, going_on = mine.aiter_lines(), theirs.aiter_lines()
        assert await anext(lines) == await anext(going_on) == "tick"
        began = time.monotonic()
        if left == "expired":
            soon = replace(KEY, expires_at=time.time() + 0.5)
            await gateway.route(replica, principals={"good": soon, "kept": kept})
        elif left == "revoked":
            await gateway.route(replica, principals={"kept": kept})
        else:
            none = replace(KEY, endpoints=frozenset())
            await gateway.route(replica, principals={"good": none, "kept": kept})
        with pytest.raises(httpx.RemoteProtocolError):  # noqa: PT012
            async for _line in lines:
                assert time.monotonic() - began < 5
        for _ in range(20):
            assert await anext(going_on) == "tick"
        refused = await client.get("/v1")
    assert refused.status_code == (404 if left == "taken-away" else 401)


async def test_limits_of_a_key(gateway: Running, replica: Replica) -> None:
    limited = replace(KEY, requests_per_s=5, concurrent=2)
    await gateway.route(replica, principals={"good": limited})
    async with gateway.client() as client:
        began = time.monotonic()
        told = [await client.get("/v1") for _ in range(40)]
        most = 5 * (time.monotonic() - began + 1) + 1  # and a window's edge
        assert [one.status_code for one in told].count(200) <= most
        refused = next(one for one in told if one.status_code == 429)
        assert refused.headers["Retry-After"] == "1"
        await asyncio.sleep(1.2)  # what was refused counts for nothing
        async with client.stream("GET", "/stream"), client.stream("GET", "/stream"):
            third = await client.get("/v1")
            assert third.status_code == 429
            assert third.json()["code"] == "too-many-at-once"
        await asyncio.sleep(0.2)
        assert (await client.get("/v1")).status_code == 200
    spent = replace(KEY, is_exhausted=True)
    await gateway.route(replica, principals={"good": spent})
    answer = await gateway.get()
    assert answer.status_code == 429
    assert 0 < int(answer.headers["Retry-After"]) <= 86400
    await gateway.route(replica, principals={"good": KEY})
    assert (await gateway.get()).status_code == 200


SPOILED: list[dict[str, Any]] = [
    {"uid": "e1;shutdown"},
    {"project": "Team"},
    {"name": "a/../b"},
    {"name": "x\ny"},
    {"main": Row("r1", "v1"), "uid": ""},
]


@pytest.mark.parametrize("wrong", SPOILED)
def test_no_name_becomes_a_command(wrong: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="can't stand"):
        Endpoint(**{"uid": "e1", "project": "p", "name": "n", "main": Row("r", "v"), **wrong})


@pytest.mark.parametrize("address", ["10.0.0.1:80;x", "host name:1", "10.0.0.1", "::1:80", "a:1\n"])
def test_no_address_becomes_a_command(address: str) -> None:
    with pytest.raises(ValueError, match="can't stand"):
        Row("r", "v", (address,))
