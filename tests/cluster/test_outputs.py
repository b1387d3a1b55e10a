"""What a job on a cluster leaves: a folder in a volume, a Job that copies it, a bucket that denies."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from typing import Any

import pytest

from tests.cluster.lakes import owner_with_its_key, portal_by_a_store
from tests.cluster.visitors import Person
from tests.support.clustered import ClusteredPortal, ok
from tests.support.stores import VersityS3, run_client

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.pods,
    pytest.mark.long("jobs/test_real_outputs.py; a Job that copies: cluster/test_loads.py"),
    pytest.mark.real,
    pytest.mark.timeout(600),
]
WITHIN_S = 180.0
LEAVES = 'mkdir "$BERTH_OUTPUT/model" && echo weights > "$BERTH_OUTPUT/model/w.bin"; exit 3'


@pytest.fixture(scope="module")
def portal(devcluster: dict[str, Any], store: VersityS3) -> Iterator[ClusteredPortal]:
    with portal_by_a_store(devcluster, store, "out") as running:
        yield running


@pytest.fixture(scope="module")
def ann(portal: ClusteredPortal, store: VersityS3) -> Person:
    return owner_with_its_key(portal, store)


def artifacts(ann: Person, job: str) -> dict[str, Any]:
    """Return what its run left when that is settled."""
    deadline = time.monotonic() + WITHIN_S
    while time.monotonic() < deadline:
        found: dict[str, Any] = ok(ann.api.get(f"projects/demo/jobs/{job}/runs/1/artifacts")).json()
        if found["state"] in {"complete", "partial", "failed"}:
            return found
        time.sleep(0.2)
    raise AssertionError(
        f"{found}\n{ok(ann.api.get(f'projects/demo/jobs/{job}')).json()['status']}"
    )


def test_a_bucket_that_denies_is_said_and_mended_takes_what_a_pod_left(
    ann: Person, store: VersityS3, devcluster: dict[str, Any]
) -> None:
    bucket = store.make_bucket(f"out-{secrets.token_hex(4)}")
    (lake,) = ok(ann.api.get("projects/demo/credentials")).json()["results"]
    rotate = f"projects/demo/credentials/{lake['id']}/rotate"
    stranger = store.user("user")  # the store knows it, and the bucket is another one's
    ok(ann.api.post(rotate, json={"access_key": stranger.access, "secret_key": stranger.secret}))
    said = {
        "name": "leaves",
        "image": devcluster["images"]["tool"]["reference"],
        "command": ["bash", "-c", LEAVES],
        "output": f"s3://{bucket}/results",
        "cpu_milli": 200,
        "memory_mib": 256,
    }
    job = ok(ann.api.post("projects/demo/jobs", json=said)).json()["id"]
    found = artifacts(ann, job)
    assert found["state"] == "failed"
    assert "denied" in found["message"] or "rights" in found["message"], found
    again = {"access_key": store.keys.access, "secret_key": store.keys.secret}
    ok(ann.api.post(rotate, json=again))
    ok(ann.api.post(f"projects/demo/jobs/{job}/runs/1/artifacts/copy"))
    found = artifacts(ann, job)
    assert (found["state"], found["files"]) == ("complete", 1), found
    prefix = f"results/leaves-{job}/1/"
    (there,) = run_client(store, [{"do": "listed", "bucket": bucket, "prefix": prefix}])
    assert set(there) == {f"{prefix}model/w.bin", f"{prefix}_BERTH_COMPLETE"}
