"""F4: two thousand sockets at the gate's own listener that nobody reads.

Behind each stands an API server that writes without end, no pod: the number is what the gate
holds, not what a node can run. It, and those who do not read, are processes of their own, so
that this process's memory is the gate's.
"""

from __future__ import annotations

import asyncio
import contextlib
import resource
import sys
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest

from accounts import crypto
from gate import terminal
from tests.gate.conftest import ORIGIN, Running, serving, told, with_ticket

pytestmark = [
    pytest.mark.long("a thousand readers; one that does not read: gate/test_streams.py"),
    pytest.mark.timeout(900),
]
SOCKETS = 2000
FILES = 3 * SOCKETS
MIB_EACH = 0.5  # of the gate's own memory, for a reader that does not read


@contextlib.asynccontextmanager
async def crowd(*words: str) -> AsyncIterator[str]:
    """Start a process of the crowd; gives its first line, which comes when it is ready."""
    command = [sys.executable, "-m", "tests.gate.crowd", *words]
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        async with asyncio.timeout(240):
            line = await process.stdout.readline()
        assert line, "the crowd ended early"
        yield line.decode().strip()
    finally:
        process.stdin.close()
        await process.wait()


def url(port: str) -> str:
    return f"http://127.0.0.1:{port}"


@pytest.fixture
async def gate(workspace: Any, settings: Any, monkeypatch: Any) -> AsyncIterator[Running]:
    settings.BERTH_PUBLIC_URL = ORIGIN
    settings.BERTH_GATE_STREAMS_PER_USER = 2 * SOCKETS
    monkeypatch.setattr(terminal, "SLOW_S", 600.0)  # all of them at once, none cut meanwhile
    monkeypatch.setattr(crypto, "AGE_S", 600)  # one for all: to open them takes over a minute
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    if before[1] < FILES:
        pytest.skip(f"this machine allows {before[1]} open files, the gate needs {FILES}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(before[0], FILES), before[1]))
    async with crowd("kube") as port, serving(url(port), patience_s=600) as running:
        yield running
    resource.setrlimit(resource.RLIMIT_NOFILE, before)


async def test_f4_two_thousand_sockets_that_nobody_reads_hurt_nobody(
    gate: Running, workspace: Any, alice: Any, bob: Any, cookie: Any
) -> None:
    from asgiref.sync import sync_to_async

    from work.models import Share

    await sync_to_async(Share.objects.create)(workload=workspace, user=bob)
    theirs, path = await cookie(bob), f"/gate/terminal/{workspace.short_id}"
    quick = f"/gate/exec/{workspace.short_id}?command=quick"
    before_s, before_mib = await usually(gate, quick, theirs), memory_mib()
    mine = with_ticket(path, await cookie(alice))
    async with crowd("readers", str(gate.port), mine, str(SOCKETS)) as held:
        assert int(held) == SOCKETS
        await until_open(gate, SOCKETS)
        await asyncio.sleep(5)  # every buffer on the way is full
        grown = memory_mib() - before_mib
        during_s = min([await usually(gate, quick, theirs) for _ in range(3)])
    assert grown < SOCKETS * MIB_EACH, grown
    assert during_s < before_s + 1
    await until_open(gate, 0)
    assert min([await asked(gate, quick, theirs) for _ in range(5)]) < before_s + 1
    await within(
        180,
        lambda: memory_mib() - before_mib < grown / 10 + 20,
        lambda: f"{memory_mib() - before_mib} of {grown} MiB are not given back",
    )


async def until_open(gate: Running, count: int) -> None:
    await within(
        180,
        lambda: len(gate.gate.guard.streams) == count,
        lambda: f"{len(gate.gate.guard.streams)} streams are open, not {count}",
    )


async def within(seconds: float, look: Callable[[], bool], what: Callable[[], Any] = str) -> None:
    deadline = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < deadline, what()
        await asyncio.sleep(0.1)


async def usually(gate: Running, path: str, cookie: str) -> float:
    """Return what it takes as a rule: the median of nine."""
    return sorted([await asked(gate, path, cookie) for _ in range(9)])[4]


async def asked(gate: Running, path: str, cookie: str) -> float:
    """Seconds until somebody else's command has run."""
    began = time.monotonic()
    async with gate.socket(path, cookie) as ws:
        assert (await told(ws))["type"] == "ready"
        assert await ws.recv() == b"\x01quick\n"
    return time.monotonic() - began


def memory_mib() -> float:
    rows = Path("/proc/self/status").read_text().splitlines()
    return int(next(row for row in rows if "VmRSS" in row).split()[1]) / 1024
