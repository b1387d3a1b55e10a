"""Eight trials on one machine: a portal, its worker, real processes, what they print."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.portal import ROOT, Portal

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]
WITHIN_S = 120.0
PROGRAM = """
import sys
x = float(sys.argv[1])
for step in range(1, 6):
    print(f"score={-(x - 3) ** 2 - 1 / step}", flush=True)
"""


@pytest.fixture(scope="module")
def portal() -> Iterator[Portal]:
    running = Portal()
    try:
        yield running.start()
    finally:
        running.close()


TRAINER = """
import argparse
asked = argparse.ArgumentParser()
asked.add_argument("--x", type=float)
print(f"loss={(asked.parse_args().x - 3) ** 2}", flush=True)
"""
CONFIG = """
trainingInput:
  scaleTier: CUSTOM
  masterType: n1-highcpu-2
  pythonModule: trainer.task
  hyperparameters:
    goal: MINIMIZE
    hyperparameterMetricTag: loss
    maxTrials: 2
    maxParallelTrials: 2
    params:
    - {parameterName: x, type: DOUBLE, minValue: 0, maxValue: 6}
"""


def test_c19_hyperparameters_of_a_file_are_a_search_whose_trials_are_told_back(
    portal: Portal, tmp_path: Path
) -> None:
    (tmp_path / "trainer").mkdir()
    (tmp_path / "trainer/__init__.py").touch()
    (tmp_path / "trainer/task.py").write_text(TRAINER)
    (tmp_path / "config.yaml").write_text(CONFIG)
    token = portal.token("admin")
    with portal.api(token) as api:
        project = api.get("projects").json()["results"][0]["slug"]
    own = {
        "BERTH_CONFIG": str(tmp_path / "own.json"),
        "BERTH_PROJECT": project,
        "BERTH_URL": portal.url,
        "BERTH_TOKEN": token,
        "PYTHONPATH": str(ROOT / "cli"),
    }

    def berth(*words: str) -> str:
        command = [sys.executable, "-m", "berth_cli", "ai-platform", "jobs", *words]
        asked: dict[str, Any] = {"env": {**os.environ, **own}, "cwd": tmp_path}
        done = subprocess.run(command, **asked, capture_output=True, text=True, check=False)
        assert done.returncode == 0, (done.stderr, portal.tail())
        return done.stdout

    berth("submit", "training", "tune", "--config", "config.yaml", "--package-path", "trainer")
    until = time.monotonic() + WITHIN_S
    while True:
        told = json.loads(berth("describe", "tune", "--format", "json"))
        if told["state"] != "RUNNING":
            break
        assert time.monotonic() < until, (told, portal.tail())
        time.sleep(1)
    output = told["trainingOutput"]
    assert (told["state"], output["completedTrialCount"]) == ("SUCCEEDED", "2"), told
    losses = [one["finalMetric"]["objectiveValue"] for one in output["trials"]]
    assert losses == sorted(losses)
    assert losses[0] == pytest.approx((float(output["trials"][0]["hyperparameters"]["x"]) - 3) ** 2)
    assert "tune" in berth("list")


GANG = """
import os, sys, time
x, rank, size = float(sys.argv[1]), int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
for step in range(20 if x < 3 else 200):
    print(f"loss={x + 9e6 * rank + size}", flush=True)
    time.sleep(0 if x < 3 else 1)
"""


def test_trials_of_two_replicas_are_heard_by_rank_0_and_one_that_lags_ends_early(
    portal: Portal,
) -> None:
    values = ["1", "1.5", "2", "50"]
    said = {
        "name": "gangs",
        "metric": "loss",
        "objective": "minimize",
        "algorithm": "grid",
        "parameters": [{"name": "x", "type": "categorical", "values": values}],
        "trials_max": 4,
        "parallel": 1,
        "early_stopping": True,
        "job": {
            "environment": "jupyterlab",
            "command": ["python", "-c", GANG],
            "args": ["${trialParameters.x}"],
            "framework": "pytorch",
            "replicas": 2,
            "cpu_milli": 250,
            "memory_mib": 256,
        },
    }
    with portal.api(portal.token("admin")) as api:
        project = api.get("projects").json()["results"][0]["slug"]
        here = f"projects/{project}/experiments"
        made = api.post(here, json=said)
        assert made.status_code == 202, made.text
        one, until = f"{here}/{made.json()['id']}", time.monotonic() + WITHIN_S
        while (found := api.get(one).json())["state"] in {"running", "stopping"}:
            assert time.monotonic() < until, (found, portal.tail())
            time.sleep(0.3)
    assert (found["state"], found["best"]["value"]) == ("succeeded", 3.0), found
    assert [t["state"] for t in found["trials"]] == ["succeeded"] * 3 + ["early-stopped"]
    assert 4 <= len(found["trials"][3]["curve"]) < 200


def test_eight_trials_two_at_a_time_find_the_best_and_it_becomes_a_job(portal: Portal) -> None:
    said = {
        "name": "search x",
        "metric": "score",
        "parameters": [{"name": "x", "type": "double", "min": -10, "max": 10}],
        "trials_max": 8,
        "parallel": 2,
        "job": {
            "environment": "jupyterlab",
            "command": ["python", "-c", PROGRAM],
            "args": ["${trialParameters.x}"],
            "cpu_milli": 500,
            "memory_mib": 512,
        },
    }
    with portal.api(portal.token("admin")) as api:
        project = api.get("projects").json()["results"][0]["slug"]
        here = f"projects/{project}/experiments"
        made = api.post(here, json=said)
        assert made.status_code == 202, made.text
        one = f"{here}/{made.json()['id']}"
        together, until = 0, time.monotonic() + WITHIN_S
        while (found := api.get(one).json())["state"] == "running":
            running = sum(trial["state"] == "running" for trial in found["trials"])
            together = max(together, running)
            assert time.monotonic() < until, (found, portal.tail())
            time.sleep(0.3)
        assert (found["state"], found["reason"]) == ("succeeded", "max-trials"), (
            found,
            [api.get(f"projects/{project}/jobs/{t['job']}").json() for t in found["trials"]],
        )
        assert [trial["state"] for trial in found["trials"]] == ["succeeded"] * 8
        assert together == 2
        for trial in found["trials"]:
            x = trial["parameters"]["x"]
            assert len(trial["curve"]) == 5
            assert trial["value"] == pytest.approx(-((x - 3) ** 2) - 0.2)
        best = max(found["trials"], key=lambda trial: trial["value"])
        assert found["best"]["number"] == best["number"]
        job = api.post(f"{one}/promote", json={}).json()
        kept = api.get(f"projects/{project}/jobs/{job['id']}").json()
        assert kept["spec"]["args"] == [str(best["parameters"]["x"])]
