"""Following a log through the gate."""

import asyncio
import json
from collections.abc import AsyncIterator
from typing import Any

import pytest

from gate import logs
from tests.gate.conftest import ORIGIN, PATIENCE_S, Running, serving, until
from tests.gate.fake_kube import FakeKube


async def test_the_owner_follows_the_log_until_the_container_ends(
    gate: Running, workspace: Any, alice: Any, cookie: Any, kube: FakeKube
) -> None:
    kube.log = "héllo\n".encode()
    async with gate.client(await cookie(alice)) as client:
        got = await client.get(f"/gate/logs/{workspace.short_id}")
    assert got.headers["content-type"].startswith("text/event-stream")
    events = [block.split("\n") for block in got.text.split("\n\n") if block.startswith("event")]
    assert [e[0] for e in events] == ["event: reset", "event: end"]
    assert json.loads(events[0][1][6:])["text"] == "héllo\n"


async def test_logs_are_the_owners(
    gate: Running, workspace: Any, bob: Any, charlie: Any, operator: Any, cookie: Any
) -> None:
    for user, status in ((bob, 403), (operator, 403), (charlie, 404)):
        async with gate.client(await cookie(user)) as client:
            got = await client.get(f"/gate/logs/{workspace.short_id}")
            assert got.status_code == status


_QUIET = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n7\r\na line\n\r\n"


async def test_who_leaves_a_quiet_log_is_counted_no_more(
    workspace: Any, alice: Any, cookie: Any, settings: Any
) -> None:
    async def one_line_then_nothing(
        reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(_QUIET)
        await reader.read()  # until the gate goes
        writer.close()

    settings.BERTH_PUBLIC_URL = ORIGIN
    kube = await asyncio.start_server(one_line_then_nothing, "127.0.0.1", 0)
    port = kube.sockets[0].getsockname()[1]
    async with kube, serving(f"http://127.0.0.1:{port}") as gate:
        async with (
            gate.client(await cookie(alice)) as client,
            client.stream("GET", f"/gate/logs/{workspace.short_id}") as answer,
        ):
            async for line in answer.aiter_lines():
                if line == "event: reset":
                    break
            assert len(gate.gate.guard.streams) == 1
        await until(lambda: not gate.gate.guard.streams)


@pytest.mark.parametrize("turns", range(8))
async def test_who_leaves_as_a_line_comes_is_counted_no_more(turns: int) -> None:
    """``asyncio.wait_for`` lost a cancellation that came together with an item."""
    more = asyncio.Event()

    class Streams:
        async def log(self, *_: Any, **__: Any) -> AsyncIterator[bytes]:
            yield b"one"
            await more.wait()
            yield b"two"
            await asyncio.Event().wait()

    first = asyncio.Event()

    async def follow() -> None:
        async for _ in logs._parts(Streams(), None):  # type: ignore[arg-type]
            first.set()

    following = asyncio.create_task(follow())
    await first.wait()
    more.set()
    for _ in range(turns):
        await asyncio.sleep(0)
    following.cancel()
    done, _ = await asyncio.wait({following}, timeout=PATIENCE_S)
    assert done
    assert following.cancelled()
