"""Performance tests on one machine: a portal, its worker, real processes that meet."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from perftests import programs
from perftests.rules import printed
from tests.support import torch
from tests.support.portal import ROOT, Portal, environments
from tests.support.ports import free_port

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def portal() -> Iterator[Portal]:
    running = Portal()
    try:
        yield running.start()
    finally:
        running.close()


def test_l8_two_replicas_are_measured_from_a_terminal_and_beside_a_baseline(
    portal: Portal, tmp_path: Path
) -> None:
    token = portal.token("admin")
    with portal.api(token) as api:
        project = api.get("projects").json()["results"][0]["slug"]
    own = {
        "BERTH_CONFIG": str(tmp_path / "own.json"),
        "BERTH_PROJECT": project,
        "BERTH_URL": portal.url,
        "BERTH_TOKEN": token,
    }

    def berth(*words: str) -> Any:
        command = [sys.executable, "-m", "berth_cli", "-o", "json", "perftest", *words]
        env = {**os.environ, **own, "PYTHONPATH": str(ROOT / "cli")}
        done = subprocess.run(command, env=env, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (done.stderr, portal.tail())
        return json.loads(done.stdout)

    size = ("--replicas", "2", "--environment", "jupyterlab", "--max-mib", "1", "--wait")
    first = berth("run", "all-reduce", *size)
    assert (first["state"], first["backend"]) == ("succeeded", "sockets")
    assert len(first["lines"]) == 8
    assert first["headline"] > 0
    assert berth("baseline", first["name"])["is_baseline"] is True
    second = berth("run", "all-reduce", *size)
    assert second["beside_baseline"]["baseline"] == first["id"]
    scaled = berth("run", "scaling", *size)
    assert [line["replicas"] for line in scaled["lines"]] == [1, 2]


@pytest.mark.parametrize("test", ["all-reduce", "all-gather", "scaling"])
def test_two_processes_measure_by_gloo_where_there_is_pytorch(test: str) -> None:
    python = environments() / torch.environment() / "bin/python"
    port = free_port()
    words = [python, Path(programs.__file__).parent / programs.NAME]
    words += ["--test", test, "--replicas", "2", "--max-mib", "1"]
    env = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
    env |= torch.told(torch.unpacked())
    begun = [
        subprocess.Popen(words, env={**env, "RANK": str(rank)}, stdout=subprocess.PIPE, text=True)
        for rank in (1, 0)
    ]
    said = [one.communicate(timeout=120)[0] for one in begun]
    backend, lines = printed(said[1])
    assert ([one.returncode for one in begun], backend) == ([0, 0], "gloo")
    assert len(lines) == (2 if test == "scaling" else 8)
    assert not any(line.get("wrong") for line in lines)
