"""Eight trials on one machine: a portal, its worker, real processes, what they print."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from tests.support.portal import Portal

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
