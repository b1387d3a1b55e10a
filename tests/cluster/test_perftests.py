"""Performance tests over pods of a cluster: what two of them pass to each other, and where."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.clustered import KEY, ClusteredPortal, ok

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.pods,
    pytest.mark.long("perftests/test_real_perftests.py; gangs: cluster/test_training.py"),
    pytest.mark.real,
    pytest.mark.timeout(300),
]
HERE = "projects/demo/perftests"
WITHIN_S = 120.0


@pytest.fixture(scope="module")
def portal(devcluster: dict[str, Any]) -> Iterator[ClusteredPortal]:
    env = {"BERTH_PERFTEST_IMAGE": devcluster["images"]["tool"]["reference"]}
    running = ClusteredPortal(devcluster, f"pt{secrets.token_hex(2)}-", env=env)
    try:
        yield running.start()
    finally:
        running.close()


def test_l8_an_all_reduce_over_two_pods_is_kept_with_the_node_that_it_ran_on(
    portal: ClusteredPortal, devcluster: dict[str, Any]
) -> None:
    with portal.api(portal.token("admin")) as api:
        said = {"test": "all-reduce", "replicas": 2, "cluster": KEY, "max_mib": 1}
        made = ok(api.post(HERE, json=said)).json()
        until = time.monotonic() + WITHIN_S
        while (found := api.get(f"{HERE}/{made['id']}").json())["state"] == "running":
            job = api.get(f"projects/demo/jobs/{made['job']}").json()
            assert time.monotonic() < until, (job["status"], portal.tail())
            time.sleep(0.5)
        logs = api.get(f"projects/demo/jobs/{made['job']}/logs").text
    assert (found["state"], found["backend"]) == ("succeeded", "sockets"), (found, logs)
    assert (found["cluster"], found["nodes"]) == (KEY, [devcluster["node"]])
    assert len(found["lines"]) == 8
    assert not any(line["wrong"] for line in found["lines"])
