"""Loads against a store that misbehaves: in this process, or as a process of their own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from dataplane.copy import lanes
from dataplane.copy import plan as plans
from dataplane.copy.calls import Times
from dataplane.copy.problems import Stop
from dataplane.copy.progress import Progress
from dataplane.copy.run import run
from tests.support.copying import Copying
from tests.support.files_served import Served
from tests.support.hostile_store import HostileS3

# The pauses between two tries are short; a store that answers is waited for as long as a busy
# machine may stand still. What tests silence has shorter times.
QUICK = Times(
    answer_s=30.0,
    slow_s=15.0,
    slow_bytes=2000,
    first_pause_s=0.01,
    longest_pause_s=0.05,
    tries=4,
)


@pytest.fixture
def files(tmp_path: Path) -> Iterator[Served]:
    one = Served(tmp_path)
    yield one
    one.close()


@pytest.fixture
def hostile() -> Iterator[HostileS3]:
    with HostileS3() as store:
        yield store


@pytest.fixture
def copying(tmp_path: Path, hostile: HostileS3) -> Copying:
    return Copying(tmp_path, hostile.place(), hostile.outbound())


@pytest.fixture(params=["one core", "many cores"])
def processor(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Large bodies are read by one lane more than there are cores, and by four at most."""
    count = 1.0 if request.param == "one core" else 8.0
    monkeypatch.setattr(lanes, "cores", lambda: count)


@pytest.fixture
def load(
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., tuple[Stop, Progress]]:
    """Carry out a load here, with times that a test can wait for."""

    def carry_out(
        copying: Copying, times: Times = QUICK, stopping: threading.Event | None = None, **more: Any
    ) -> tuple[Stop, Progress]:
        monkeypatch.setenv("BERTH_VOLUMES", str(copying.base))
        copying.volume.mkdir(parents=True, exist_ok=True)
        copying.launch += 1
        text = plans.json.dumps({**copying.plan(), **more})
        progress = Progress()
        order = run(plans.read(text), progress, stopping or threading.Event(), times)
        return order, progress

    return carry_out
