"""The code of a repository and of a volume on one real machine: fetched, run, and run again."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchmarks.lib import poll
from tests.support.git_served import GitServed, git_served
from tests.support.portal import Portal

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]
SIZE = {"environment": "jupyterlab", "cpu_milli": 500, "memory_mib": 512}


@pytest.fixture(scope="module")
def served() -> Iterator[GitServed]:
    with tempfile.TemporaryDirectory() as folder, git_served(Path(folder)) as running:
        Path(folder).chmod(0o755)  # the portal is another user
        running.make("trainer", **{"train.py": "import lib.a", "lib__a.py": "print('first')"})
        yield running


@pytest.fixture(scope="module")
def portal(served: GitServed) -> Iterator[Portal]:
    running = Portal(served.settings)
    try:
        yield running.start()
    finally:
        running.close()


@pytest.fixture(scope="module")
def api(portal: Portal) -> httpx.Client:
    return portal.api(portal.token("admin"))


def until(api: httpx.Client, one: str, *states: str, within_s: float = 120.0) -> dict[str, Any]:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        found: dict[str, Any] = api.get(f"projects/demo/jobs/{one}").json()
        if found["status"]["state"] in states:
            return found
        time.sleep(0.2)
    raise AssertionError(f"not {states}: {found['status']}")


def log(api: httpx.Client, one: str) -> str:
    return str(api.get(f"projects/demo/jobs/{one}/logs").json()["text"]).strip()


def workers(portal: Portal) -> list[int]:
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            words = (process / "cmdline").read_bytes()
            is_its = str(portal.var).encode() in (process / "environ").read_bytes()
        except OSError:
            continue
        if is_its and b"portal.server.worker" in words:
            found.append(int(process.name))
    return found


def test_code_of_a_repository_runs_though_the_worker_was_killed_on_the_way(
    portal: Portal, served: GitServed, api: httpx.Client
) -> None:
    asked = threading.Event()

    def late(_handler: Any) -> bool:
        asked.set()
        time.sleep(8)
        return False

    served.before = late
    said = {"name": "train", "command": ["python3", "train.py"], "code": served.code("trainer")}
    one = api.post("projects/demo/jobs", json={**said, **SIZE}).json()["id"]
    assert asked.wait(60)

    def is_told() -> bool:
        status = api.get(f"projects/demo/jobs/{one}").json()["status"]
        return (status["reason"], served.host in status["message"]) == ("fetching-code", True)

    poll(is_told, within_s=30, every_s=0.1)
    for pid in workers(portal):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    served.before = lambda _handler: False
    until(api, one, "succeeded")
    assert log(api, one) == "first"

    first = served.git(served.tree("trainer"), "rev-parse", "HEAD").strip()
    served.commit("trainer", **{"lib__a.py": "print('second')"})
    began = time.monotonic()
    api.post(f"projects/demo/jobs/{one}/start")
    until(api, one, "succeeded")
    took = time.monotonic() - began
    assert log(api, one) == "second"
    assert took < 60
    api.post(f"projects/demo/jobs/{one}/runs/1/again", json={"replicas": 2})
    found = until(api, one, "succeeded")
    assert (log(api, one), len(found["replicas"])) == ("first", 2)
    told = api.get(f"projects/demo/jobs/{one}/runs").json()["results"]
    assert [run["commit"] == first for run in told] == [True, False, True]


def test_code_in_a_volume_is_where_it_begins(api: httpx.Client) -> None:
    program = "import os, sys; print(os.getcwd() == os.environ['BERTH_CODE'], sys.argv[1:])"
    script = 'mkdir -p "$BERTH_VOLUMES/shared/exp" && echo "$0" > "$BERTH_VOLUMES/shared/exp/go.py"'
    said = {"name": "write", "command": ["bash", "-c", script, program], **SIZE}
    until(api, api.post("projects/demo/jobs", json=said).json()["id"], "succeeded")
    code = {"name": "read", "command": ["python3", "go.py", "a b"], "code": "volume:shared/exp"}
    one = api.post("projects/demo/jobs", json={**code, **SIZE}).json()["id"]
    until(api, one, "succeeded")
    assert log(api, one) == "True ['a b']"
