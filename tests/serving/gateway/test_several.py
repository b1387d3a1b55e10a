"""Several gateways beside one database: what holds for all of them together."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import socket
import time
from collections.abc import AsyncIterator
from typing import Any

import httpx
import pytest
from asgiref.sync import sync_to_async

from serving.gateway import program, tallies
from tests.serving.gateway.conftest import PATIENCE_S
from tests.serving.gateway.replica import Replica
from tests.serving.gateway.test_program import answers, becomes, call, endpoint, key_for, process

pytestmark = pytest.mark.django_db(transaction=True)
__all__ = ["endpoint"]  # a fixture

PER_SECOND = 20


@pytest.fixture
async def urls(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[list[str]]:
    """Two that have heard of each other."""
    from runtime.models import Lease

    monkeypatch.setattr(tallies, "AGAIN_S", 0.5)
    monkeypatch.setattr(program, "READS_EVERY_S", 0.5)
    async with contextlib.AsyncExitStack() as stack:
        found = []
        for _ in range(2):
            one = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=1024))
            found.append(await stack.enter_async_context(process(one)))
        async with asyncio.timeout(PATIENCE_S):
            while await Lease.objects.filter(name__startswith=tallies.GATEWAY).acount() < 2:  # noqa: ASYNC110
                await asyncio.sleep(0.1)
        yield found


async def test_f2_a_limit_of_a_key_holds_for_all_of_them_together(
    urls: list[str], endpoint: Any, replica: Replica
) -> None:
    """Each allows its part: who asks one alone gets that, who asks all gets the limit."""
    await sync_to_async(answers)(endpoint, replica)
    limits = {"requests_per_second": PER_SECOND, "concurrent": 4}
    await sync_to_async(key_for)(endpoint, "of-a-key", **limits)
    await asyncio.gather(*(becomes(200, url, "of-a-key") for url in urls))
    await asyncio.sleep(2)  # until both have read that there are two
    began, seconds, good = time.monotonic(), 4.0, [0, 0]

    async def ask(which: int) -> None:
        headers = {"Authorization": "Bearer of-a-key"}
        async with httpx.AsyncClient(timeout=PATIENCE_S, headers=headers) as client:
            while time.monotonic() - began < seconds:
                answer = await client.post(f"{urls[which]}/digits/v1", content=b"{}")
                good[which] += answer.status_code == 200
                await asyncio.sleep(0.005)

    await asyncio.gather(ask(0), ask(1))
    took = time.monotonic() - began
    assert sum(good) <= PER_SECOND * (took + 1), "the limit of both together, and a window's edge"
    assert min(good) >= PER_SECOND / 2 * 0.6 * seconds, "neither gives less than most of its part"

    async with contextlib.AsyncExitStack() as stack:
        client = await stack.enter_async_context(httpx.AsyncClient(timeout=PATIENCE_S))
        opened = []
        for url in urls:
            for _ in range(3):
                await asyncio.sleep(0.2)
                headers = {"Authorization": "Bearer of-a-key"}
                stream = client.stream("GET", f"{url}/digits/stream", headers=headers)
                opened.append((await stack.enter_async_context(stream)).status_code)
    assert opened == [200, 200, 429] * 2


async def test_a3_a_revoked_key_ends_streams_at_all_of_them(
    urls: list[str], endpoint: Any, replica: Replica
) -> None:
    from common.clock import now
    from serving.models import EndpointKey

    await sync_to_async(answers)(endpoint, replica)
    key = await sync_to_async(key_for)(endpoint, "of-a-key")
    await asyncio.gather(*(becomes(200, url, "of-a-key") for url in urls))
    headers = {"Authorization": "Bearer of-a-key"}
    async with contextlib.AsyncExitStack() as stack:
        client = await stack.enter_async_context(httpx.AsyncClient(timeout=PATIENCE_S))
        streams = [
            await stack.enter_async_context(
                client.stream("GET", f"{url}/digits/stream", headers=headers)
            )
            for url in urls
        ]
        lines = [one.aiter_lines() for one in streams]
        assert [await anext(one) for one in lines] == ["tick", "tick"]
        await EndpointKey.objects.filter(pk=key.pk).aupdate(revoked_at=now())
        began = time.monotonic()
        for one in lines:
            with pytest.raises(httpx.RemoteProtocolError):  # noqa: PT012
                async for _line in one:
                    assert time.monotonic() - began < 10
    for url in urls:
        assert (await call(url, "of-a-key")).status_code == 401


def test_who_was_killed_counts_no_longer_once_another_began_in_its_place() -> None:
    first, second = (tallies.Tallies(secrets.token_hex(8)) for _ in range(2))
    for one in (first, second):
        for moment in (100.0, 200.0):
            one.write_pressures({}, {}, moment=moment)
    third = tallies.Tallies("third")
    assert (first.others(), third.others()) == (1, 2)
    tallies.Tallies(first.name).leave()
    assert (second.others(), third.others()) == (0, 1)
