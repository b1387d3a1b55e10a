"""A container of AI Platform Training on a cluster: its file, and a package sent along."""

from __future__ import annotations

import json
import os
import secrets
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.jobs.test_training_input import FILES
from tests.support.clustered import KEY, ClusteredPortal
from tests.support.portal import ROOT

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.pods,
    pytest.mark.real,
    pytest.mark.timeout(600),
]
HERE = {
    "machines": {
        "n1-highcpu-4": {"cpu": 0.2, "memory_gib": 0.25},
        "n1-highcpu-8": {"cpu": 0.3, "memory_gib": 0.3},
    }
}


@pytest.fixture(scope="module")
def portal(devcluster: dict[str, Any]) -> Iterator[ClusteredPortal]:
    env = {"BERTH_AI_PLATFORM": json.dumps(HERE)}
    running = ClusteredPortal(devcluster, f"tr{secrets.token_hex(2)}-", env=env)
    try:
        yield running.start()
    finally:
        running.close()


def test_c19_the_file_of_a_container_runs_on_two_pods_with_the_code_that_was_sent(
    portal: ClusteredPortal, devcluster: dict[str, Any], tmp_path: Path
) -> None:
    document = yaml.safe_load((FILES / "distributed.yaml").read_text())
    image = devcluster["images"]["jupyterlab"]["reference"]
    training = document["trainingInput"]
    training["masterConfig"]["imageUri"] = training["workerConfig"]["imageUri"] = image
    training |= {"workerCount": 1, "parameterServerCount": 0, "pythonModule": "trainer.task"}
    config = tmp_path / "config.yaml"
    config.write_text(yaml.safe_dump(document))
    token = portal.token("admin")
    own = {
        "BERTH_CONFIG": str(tmp_path / "own.json"),
        "BERTH_PROJECT": "demo",
        "BERTH_URL": portal.url,
        "BERTH_TOKEN": token,
        "PYTHONPATH": str(ROOT / "cli"),
    }
    words = ["submit", "training", "pods", "--config", str(config), "--cluster", KEY]
    words += ["--package-path", "trainer", "--stream-logs"]
    done = subprocess.run(
        [sys.executable, "-m", "berth_cli", "ai-platform", "jobs", *words],
        cwd=FILES,
        env={**os.environ, **own},
        timeout=300,
        check=False,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, (done.stderr, portal.tail())
    with portal.api(token) as api:
        row = api.get("projects/demo/ai-platform/jobs/pods").json()
        job = api.get("projects/demo/jobs", params={"q": "pods"}).json()["results"][0]
        logs = [
            api.get(f"projects/demo/jobs/{job['id']}/logs", params={"replica": n}).json()["text"]
            for n in range(2)
        ]
    assert row["state"] == "SUCCEEDED"
    assert row["trainingInput"]["masterConfig"]["imageUri"] == image
    for log in logs:
        said, trained = log.splitlines()[-2:]
        assert said.endswith("results to gs://team-bucket/jobs/distributed")
        assert trained == "slope 2.0000"
