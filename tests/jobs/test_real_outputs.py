"""The real thing on one machine: what a program leaves goes to a real store when its run ends."""

from __future__ import annotations

import base64
import json
import secrets
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.loaders.test_real_load import portal_open_to
from tests.support.portal import Portal
from tests.support.store_fixtures import begun
from tests.support.stores import RcloneS3, Store, run_client

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

WITHIN_S = 120.0
LEAVES = (
    'mkdir -p "$BERTH_OUTPUT/model"; echo weights > "$BERTH_OUTPUT/model/w.bin"; '
    'echo 0.9 > "$BERTH_OUTPUT/accuracy.txt"; '
)


@pytest.fixture(scope="module")
def store() -> Iterator[RcloneS3]:
    server = begun(RcloneS3)
    assert isinstance(server, RcloneS3)
    with server:
        yield server


@pytest.fixture(scope="module")
def portal(store: RcloneS3) -> Iterator[Portal]:
    with portal_open_to(store.outbound()) as running:
        yield running


@pytest.fixture(scope="module")
def api(portal: Portal, store: RcloneS3) -> httpx.Client:
    found = portal.api(portal.token("admin"))
    said = {"kind": "s3-compatible", "name": "lake", "endpoint": store.url, "region": "us-east-1"}
    keys = {"access_key": store.keys.access, "secret_key": store.keys.secret}
    made = found.post("projects/demo/credentials", json={**said, **keys, "path_style": True})
    assert made.status_code == 201, made.text
    return found


class Outputs:
    """What a person does, by the API."""

    def __init__(self, api: httpx.Client, portal: Portal, store: Store) -> None:
        self.api, self.portal, self.store = api, portal, store
        self.base = "projects/demo/jobs"

    def run(self, script: str, **said: Any) -> str:
        size = {"cpu_milli": 500, "memory_mib": 256, "environment": "jupyterlab"}
        command = {"command": ["bash", "-c", script]}
        made = self.api.post(self.base, json={**size, **command, **said})
        assert made.status_code == 202, made.text
        return str(made.json()["id"])

    def get(self, job: str, run: int = 1) -> dict[str, Any]:
        answer = self.api.get(f"{self.base}/{job}/runs/{run}/artifacts")
        assert answer.status_code == 200, answer.text
        found: dict[str, Any] = answer.json()
        return found

    def until(self, job: str, *states: str, run: int = 1) -> dict[str, Any]:
        deadline = time.monotonic() + WITHIN_S
        while time.monotonic() < deadline:
            found = self.get(job, run)
            if found["state"] in states:
                return found
            time.sleep(0.1)
        raise AssertionError(f"{found}\n{self.portal.tail(30)}")

    def objects(self, bucket: str, prefix: str) -> dict[str, bytes]:
        """Return what lies at the store, as another client reads it."""
        (keys,) = run_client(self.store, [{"do": "list", "bucket": bucket, "prefix": prefix}])
        asked = [{"do": "get", "bucket": bucket, "key": key} for key in keys]
        bodies = map(base64.b64decode, run_client(self.store, asked))
        return {k.removeprefix(prefix): body for k, body in zip(keys, bodies, strict=True)}


@pytest.fixture
def outputs(api: httpx.Client, portal: Portal, store: RcloneS3) -> Outputs:
    return Outputs(api, portal, store)


@pytest.fixture
def bucket(store: RcloneS3) -> str:
    return store.make_bucket(f"out-{secrets.token_hex(4)}")


@pytest.mark.parametrize(("end", "state"), [("exit 0", "succeeded"), ("exit 3", "failed")])
def test_what_a_run_leaves_is_copied_as_a_whole_however_it_ended(
    outputs: Outputs, bucket: str, end: str, state: str
) -> None:
    job = outputs.run(LEAVES + end, name=f"leaves {state}", output=f"s3://{bucket}/results")
    found = outputs.until(job, "complete", "partial", "failed")
    assert found["state"] == "complete", found
    assert outputs.api.get(f"{outputs.base}/{job}").json()["status"]["state"] == state
    assert found["url"] == f"s3://{bucket}/results/leaves-{state}-{job}/1/"
    assert {one["path"]: one["size"] for one in found["named"]} == {
        "accuracy.txt": 4,
        "model/w.bin": 8,
    }
    stored = outputs.objects(bucket, f"results/leaves-{state}-{job}/1/")
    assert json.loads(stored.pop("_BERTH_COMPLETE")) == {"files": 2, "bytes": 12}
    assert stored == {"accuracy.txt": b"0.9\n", "model/w.bin": b"weights\n"}
