"""TensorBoard in a pod: what another pod writes, read from the volume that both see."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.visitors import portal_of_people
from tests.jobs.test_real_tensorboard import opened, run, scalars, until
from tests.support.clustered import ClusteredPortal

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.pods,
    pytest.mark.long("of processes: jobs/test_real_tensorboard.py"),
    pytest.mark.real,
    pytest.mark.timeout(600),
]


@pytest.fixture(scope="module")
def portal(devcluster: dict[str, Any]) -> Iterator[ClusteredPortal]:
    with portal_of_people(devcluster, "curve", {"BERTH_LOCAL_CLUSTER": "no"}) as running:
        yield running


def test_a_pod_shows_what_another_one_writes_and_files_are_told(
    portal: ClusteredPortal, devcluster: dict[str, Any]
) -> None:
    api = portal.api(portal.token("ann"))
    image = devcluster["images"]["jupyterlab"]["reference"]
    job = run(api, "curve", "6000", "0.2", output="volume:shared/kept", image=image, environment="")
    until(
        lambda: api.get(f"projects/demo/jobs/{job}").json(),
        lambda row: row["status"]["state"] == "running",
    )
    _workspace, asked = opened(api, portal, job)
    first = until(lambda: scalars(asked), lambda points: len(points) > 2)
    until(lambda: scalars(asked), lambda points: len(points) > len(first))
    files = f"projects/demo/jobs/{job}/runs/1/artifacts/files"
    found = until(lambda: api.post(files).json(), lambda said: said.get("is_open"))
    assert [one["path"].split(".")[2] for one in found["files"]] == ["tfevents"]
    assert api.post(f"projects/demo/jobs/{job}/cancel").status_code == 202
