"""The files of AI Platform Training, unchanged, on a whole portal with real processes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.jobs.test_training_input import FILES
from tests.support.portal import ROOT, Portal

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]
WITHIN_S = 120.0
HERE = {  # what an operator of a small machine says
    "machines": {
        "n1-standard-8": {"cpu": 1, "memory_gib": 1},
        "n1-highcpu-4": {"cpu": 0.5, "memory_gib": 0.5},
    },
    "runtimes": {name: {"environment": "jupyterlab"} for name in ("2.10", "2.11")},
}
Berth = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def portal() -> Iterator[Portal]:
    running = Portal(
        env={"BERTH_AI_PLATFORM": json.dumps(HERE), "BERTH_SIMULATED_GPUS": "2xTESLA V100-16"}
    )
    try:
        yield running.start()
    finally:
        running.close()


@pytest.fixture(scope="module")
def berth(portal: Portal, tmp_path_factory: pytest.TempPathFactory) -> Berth:
    """Run the program as people do: as a process of its own, in the folder of the package."""
    own = {
        "BERTH_CONFIG": str(tmp_path_factory.mktemp("own") / "config.json"),
        "BERTH_PROJECT": "demo",
        "BERTH_URL": portal.url,
        "BERTH_TOKEN": portal.token("admin"),
        "PYTHONPATH": str(ROOT / "cli"),
    }

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "berth_cli", "ai-platform", "jobs", *words],
            cwd=FILES,
            env={**os.environ, **own},
            timeout=WITHIN_S,
            check=False,
            capture_output=True,
            text=True,
        )

    return run


def told(berth: Berth, name: str) -> dict[str, Any]:
    answer = berth("describe", name)
    assert answer.returncode == 0, answer.stderr
    return dict(yaml.safe_load(answer.stdout))


def test_c19_the_file_of_one_machine_runs_to_its_end_unchanged(berth: Berth) -> None:
    submitted = ("submit", "training", "mnist_1", "--config", "config.yaml")
    package = ("--package-path", "./trainer")
    planned = berth(*submitted, *package, "--plan")
    assert planned.returncode == 0, planned.stderr
    assert "REFUSED" not in planned.stdout
    done = berth(*submitted, *package, "--stream-logs", "--labels", "try=first")
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        *("jobId: mnist_1", "state: QUEUED"),
        "replica 0 of 1, results to gs://team-bucket/jobs/mnist",
        "slope 0.7279",
    ]
    row = told(berth, "mnist_1")
    assert (row["state"], row["labels"]) == ("SUCCEEDED", {"team": "vision", "try": "first"})
    assert row["createTime"] <= row["startTime"] <= row["endTime"]
    given = yaml.safe_load((FILES / "config.yaml").read_text())["trainingInput"]
    assert row["trainingInput"] == given


def test_c19_master_and_workers_each_run_the_package(berth: Berth, portal: Portal) -> None:
    submitted = ("submit", "training", "wide", "--config", "workers.yaml")
    done = berth(*submitted, "--package-path", "trainer", "--stream-logs")
    assert done.returncode == 0, done.stderr
    assert told(berth, "wide")["state"] == "SUCCEEDED"
    with portal.api(portal.token("admin")) as api:
        row = api.get("projects/demo/jobs", params={"q": "wide"}).json()["results"][0]
        logs = [
            api.get(f"projects/demo/jobs/{row['id']}/logs", params={"replica": n}).json()["text"]
            for n in range(3)
        ]
    assert all("slope 2.0000" in log for log in logs), logs


def test_c19_one_is_cancelled_and_one_fails_by_its_own_program(berth: Berth) -> None:
    submit = ("submit", "training")
    small = ("--config", "workers.yaml", "--package-path", "trainer", "--worker-count", "0")
    begun = berth(*submit, "long", *small, "--", "--sleep", "600")
    assert begun.returncode == 0, begun.stderr
    deadline = time.monotonic() + WITHIN_S
    while told(berth, "long")["state"] != "RUNNING":
        assert time.monotonic() < deadline
        time.sleep(0.3)
    assert berth("cancel", "long").returncode == 0
    while (state := told(berth, "long")["state"]) != "CANCELLED":
        assert state == "CANCELLING"
        assert time.monotonic() < deadline
        time.sleep(0.3)
    bad = berth(*submit, "bad", *small, "--stream-logs", "--", "--epochs", "many")
    assert bad.returncode == 2
    assert "invalid int value" in bad.stdout
    assert "exit code 2" in told(berth, "bad")["errorMessage"]
    listed = berth("list", "--format", "json")
    states = {row["jobId"]: row["state"] for row in json.loads(listed.stdout)}
    assert (states["long"], states["bad"]) == ("CANCELLED", "FAILED")


def test_kubectl_finds_it_as_its_own(berth: Berth, portal: Portal, tmp_path: Path) -> None:
    """The real kubectl, with the program where pip puts it."""
    import shutil

    if shutil.which("kubectl") is None:
        pytest.skip("there is no kubectl")
    plugin = tmp_path / "kubectl-ai_platform"
    plugin.write_text(
        f"#!{sys.executable}\nfrom berth_cli.main import kubectl_main\nkubectl_main()\n"
    )
    plugin.chmod(0o755)
    own = {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT / "cli"),
        "BERTH_CONFIG": str(tmp_path / "config.json"),
        "BERTH_PROJECT": "demo",
        "BERTH_URL": portal.url,
        "BERTH_TOKEN": portal.token("admin"),
    }
    done = subprocess.run(
        ["kubectl", "ai-platform", "jobs", "describe", "mnist_1"],
        env={**os.environ, **own},
        timeout=WITHIN_S,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert yaml.safe_load(done.stdout)["state"] == "SUCCEEDED"
