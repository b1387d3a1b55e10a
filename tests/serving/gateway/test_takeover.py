"""A process that was taken over from, and those of a control process that was killed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Self

import httpx
import pytest

from serving.gateway import haproxy
from serving.gateway.control import Gateway
from serving.gateway.haproxy import Generation, RoutingError, processes
from serving.gateway.table import Endpoint, Principal, RoutingTable, Row
from tests.serving.gateway.conftest import Running, digest, until
from tests.serving.gateway.replica import Replica

KEY = Principal("k1", "k1", frozenset({"e1"}))
KEPT = Principal("k2", "k2", frozenset({"e1"}))
BOTH = {"good": KEY, "kept": KEPT}


def many(address: str, count: int = 100) -> tuple[Endpoint, ...]:
    """More rows than a process has backends, so that the next one takes over."""
    return tuple(
        Endpoint(f"x{n}", "team", f"more-{n}", Row(f"y{n}", "v1", (address,) if address else ()))
        for n in range(count)
    )


class open_stream:  # noqa: N801 - read as a phrase
    """A stream of one caller, and whether it goes on."""

    def __init__(self, gateway: Running, secret: str) -> None:
        self.client = gateway.client(secret)

    async def __aenter__(self) -> Self:
        self._stream = self.client.stream("GET", "/stream")
        self._lines = (await self._stream.__aenter__()).aiter_lines()
        assert await anext(self._lines) == "tick"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stream.__aexit__(None, None, None)
        await self.client.aclose()

    async def goes_on(self, ticks: int = 40) -> bool:
        with contextlib.suppress(httpx.RemoteProtocolError):
            for _ in range(ticks):
                assert await anext(self._lines) == "tick"
            return True
        return False

    async def ends(self, within_s: float = 10) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                while await self.goes_on():
                    pass
                return True
        return False


@pytest.mark.parametrize("when", ["with it", "after it", "after it, and it hangs"])
async def test_a_key_that_is_revoked_ends_in_the_process_before_too(
    gateway: Running, replica: Replica, when: str
) -> None:
    await gateway.route(replica, principals=BOTH)
    before = gateway.gateway._generations[-1]
    async with open_stream(gateway, "good") as mine, open_stream(gateway, "kept") as theirs:
        kept_open = gateway.client("good")
        assert (await kept_open.get("/v1")).status_code == 200
        others = many(replica.address)
        if when != "with it":
            await gateway.route(replica, principals=BOTH, others=others)
            await until(lambda: gateway.gateway.answering.get("r1") == 2)
            assert await mine.goes_on()
        if when == "after it, and it hangs":
            os.kill(before.pid, signal.SIGSTOP)
        await gateway.route(replica, principals={"kept": KEPT}, others=others)
        assert gateway.pid != before.pid
        assert await mine.ends()
        with contextlib.suppress(httpx.TransportError):
            assert (await kept_open.get("/v1")).status_code == 401
        if when == "after it, and it hangs":
            assert not before.is_alive, "it can't be told, so it ends altogether"
            return
        assert await theirs.goes_on()
        await until(lambda: gateway.gateway.answering.get("r1") == 1)
        await kept_open.aclose()
    await until(lambda: len(gateway.gateway._generations) == 1)
    assert not before.is_alive, "nobody holds it after its last stream"


async def test_who_waits_is_told_when_another_process_takes_over(
    gateway: Running, replica: Replica
) -> None:
    """It is too late only for who waits then: rows that sleep have room from the beginning."""
    await gateway.route(wait_s=50)
    held = asyncio.create_task(gateway.get())
    await until(lambda: gateway.gateway.waiting)
    began, before = time.monotonic(), gateway.pid
    await gateway.route(wait_s=50, others=many(""))
    assert gateway.pid != before
    assert (await held).status_code == 503
    assert time.monotonic() - began < 10
    held, before = asyncio.create_task(gateway.get()), gateway.pid
    await until(lambda: gateway.gateway.waiting)
    await gateway.route(replica, others=many(replica.address))
    assert ((await held).text, gateway.pid) == ("first", before)


@pytest.mark.parametrize(
    "how", ["a start that failed too late", "a signal", "a signal, and nobody can ask it"]
)
async def test_a_process_that_gave_way_to_none_is_replaced(
    gateway: Running, replica: Replica, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """It lives on with its streams, but whoever comes new would wait for ever."""
    await gateway.route(replica)
    before = gateway.gateway._generations[-1]
    async with open_stream(gateway, "good") as mine:
        if how != "a start that failed too late":
            before.finish()
            if how != "a signal":
                before.hang_up()
        else:
            asked = Generation._say

            async def say(one: Generation, commands: list[str]) -> list[str]:
                if one is not before:
                    raise RoutingError("Nothing in time.")
                return await asked(one, commands)

            with monkeypatch.context() as slow:
                slow.setattr(haproxy, "STARTS_WITHIN_S", 1.0)
                slow.setattr(Generation, "_say", say)
                with pytest.raises(RoutingError):
                    await gateway.gateway.renew()
        async with asyncio.timeout(10):
            assert (await gateway.get()).text == "first"
            await until(lambda: gateway.pid != before.pid)
        assert await mine.goes_on()
    await until(lambda: len(gateway.gateway._generations) == 1)
    assert not before.is_alive


CONTROL = """
import asyncio, json, socket, sys
from pathlib import Path
from typing import Self
from serving.gateway.control import Gateway
from tests.support.routing_table import from_json

async def wake(uid):
    return ""

listener = socket.socket(fileno=int(sys.argv[1]))
asyncio.run(Gateway(Path(sys.argv[2]), listener, wake).run(from_json(json.loads(sys.argv[3]))))
"""


@contextlib.asynccontextmanager
async def another_control(listener: socket.socket, folder: Path, table: str) -> AsyncIterator[None]:
    """A control process, which is killed; HAProxy goes on."""
    fd = listener.fileno()
    process = subprocess.Popen(  # noqa: ASYNC220 - it begins at once
        [sys.executable, "-c", CONTROL, str(fd), str(folder), table], pass_fds=(fd,)
    )
    known = processes(folder)
    try:
        await until(lambda: processes(folder) - known and list(folder.glob("admin-*.sock")))
        yield
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("controls", [1, 2])
async def test_what_was_revoked_while_no_control_process_ran_ends(
    listener: socket.socket, replica: Replica, controls: int
) -> None:
    """Also in a process that another one took over from, which nobody can ask any more."""
    folder = Path(tempfile.mkdtemp(prefix="gw-"))
    row = {"uid": "r1", "version": "v1", "replicas": [replica.address]}
    told = {
        "endpoints": [{"uid": "e1", "project": "team", "name": "digits", "main": row}],
        "principals": {
            digest(secret): {"word": one.word, "caller": one.caller, "endpoints": ["e1"]}
            for secret, one in BOTH.items()
        },
    }

    async def wake(_uid: str) -> str:
        return ""

    gateway = Gateway(folder, listener, wake)
    running = Running(gateway, listener.getsockname()[1])
    first = Endpoint("e0", "team", "first", Row("r0", "v1", (replica.address,)))
    second = Endpoint("e1", "team", "digits", Row("r1", "v1", (replica.address,)))
    try:
        async with contextlib.AsyncExitStack() as opened:
            for n in range(controls):
                async with another_control(listener, folder, json.dumps(told)):
                    if n == 0:
                        mine = await opened.enter_async_context(open_stream(running, "good"))
                        theirs = await opened.enter_async_context(open_stream(running, "kept"))
                        assert await mine.goes_on()
            assert await mine.goes_on(), "without a control process"
            table = RoutingTable((first, second), {digest("kept"): KEPT})
            task = asyncio.create_task(gateway.run(table))
            assert await mine.ends()
            if controls == 1:
                assert await theirs.goes_on()
                await until(lambda: gateway.answering == {"r0": 0, "r1": 1})
            await until(lambda: gateway._generations[-1].process)  # which listens alone
            assert (await running.get(secret="good")).status_code == 401
            assert (await running.get(secret="kept")).status_code == 200
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        assert processes(folder) == set()
    finally:
        for pid in processes(folder):
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(folder)
