"""The real thing on one machine: what a program leaves goes to a real store when its run ends."""

from __future__ import annotations

import base64
import json
import os
import secrets
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.loaders.test_real_load import portal_open_to
from tests.support.portal import ROOT, Portal
from tests.support.store_fixtures import begun
from tests.support.stores import GoogleStore, RcloneS3, Store, run_client

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


def berth(portal: Portal, *words: str) -> subprocess.CompletedProcess[str]:
    """Type a command as admin, in the project."""
    env = {**os.environ, "PYTHONPATH": str(ROOT / "cli"), "BERTH_URL": portal.url}
    env |= {"BERTH_TOKEN": portal.token("admin"), "BERTH_PROJECT": "demo"}
    command = [sys.executable, "-m", "berth_cli", *words]
    return subprocess.run(command, env=env, capture_output=True, text=True, check=False)


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

    def until_job(self, job: str, state: str) -> None:
        deadline = time.monotonic() + WITHIN_S
        while time.monotonic() < deadline:
            found = self.api.get(f"{self.base}/{job}").json()["status"]
            if found["state"] == state:
                return
            time.sleep(0.1)
        raise AssertionError(found)

    def folder(self, found: dict[str, Any]) -> Path:
        return self.portal.var / "volumes" / found["volume_id"] / str(found["folder"])

    def credentials(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.api.get("projects/demo/credentials").json()["results"]
        return found

    def objects(self, bucket: str, prefix: str) -> dict[str, bytes]:
        """Return what lies at the store, as another client reads it."""
        (keys,) = run_client(self.store, [{"do": "listed", "bucket": bucket, "prefix": prefix}])
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


def test_a_cancelled_run_is_copied_too_and_a_volume_keeps_it_where_it_is(
    outputs: Outputs, bucket: str
) -> None:
    job = outputs.run(LEAVES + "sleep 600", name="long", output=f"s3://{bucket}/results/")
    outputs.until_job(job, "running")
    stays = outputs.run(LEAVES, name="stays", output="volume:shared/kept")
    folder = outputs.folder(outputs.get(job))
    deadline = time.monotonic() + WITHIN_S
    while not (folder / "accuracy.txt").exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert outputs.api.post(f"{outputs.base}/{job}/cancel").status_code == 202
    found = outputs.until(job, "complete", "partial", "failed")
    assert (found["state"], found["files"]) == ("complete", 2)
    assert outputs.objects(bucket, f"results/long-{job}/1/")["accuracy.txt"] == b"0.9\n"
    kept = outputs.until(stays, "kept")
    assert kept["folder"] == f"kept/stays-{stays}/1"
    assert (outputs.folder(kept) / "model" / "w.bin").read_text() == "weights\n"


def test_a_store_that_refuses_is_said_and_mended_it_takes_what_was_kept(
    outputs: Outputs, store: RcloneS3, bucket: str, portal: Portal
) -> None:
    """The output bucket denies: nothing is lost. Long after it was copied its folder goes."""
    store.change_keys()
    job = outputs.run(LEAVES, name="denied", output=f"s3://{bucket}/results")
    found = outputs.until(job, "complete", "partial", "failed")
    assert found["state"] == "failed", found
    assert found["message"].startswith("The store refused the credential."), found
    assert (outputs.folder(found) / "accuracy.txt").read_text() == "0.9\n"
    told = berth(portal, "job", "artifacts", "denied")
    assert "failed" in told.stdout, told
    lake = next(r for r in outputs.credentials() if r["name"] == "lake")
    keys = {"access_key": store.keys.access, "secret_key": store.keys.secret}
    at = f"projects/demo/credentials/{lake['id']}/rotate"
    rotated = outputs.api.post(at, json=keys)
    assert rotated.status_code == 200, rotated.text
    again = berth(portal, "job", "artifacts", "denied", "1", "--again")
    assert again.returncode == 0, again
    found = outputs.until(job, "complete", "partial", "failed")
    assert (found["state"], found["files"]) == ("complete", 2), found
    assert set(outputs.objects(bucket, f"results/denied-{job}/1/")) == {
        "_BERTH_COMPLETE",
        "accuracy.txt",
        "model/w.bin",
    }
    folder = outputs.folder(found)
    assert folder.is_dir()
    portal.shell(_LATER.format(job=job))
    deadline = time.monotonic() + WITHIN_S
    while folder.exists() and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not folder.exists()
    assert outputs.get(job)["state"] == "complete"
    assert len(outputs.objects(bucket, f"results/denied-{job}/1/")) == 3


_LATER = """
from datetime import timedelta
from common.clock import now
from jobs.models import Run
from jobs.output_copies import outputs_tidy
Run.objects.filter(job__short_id={job!r}).update(ended_at=now() - timedelta(days=30))
answer = outputs_tidy()
"""


@pytest.mark.long("an export by the same program: loaders/test_real_gcs.py")
def test_a_bucket_of_google_takes_it_too() -> None:
    google = begun(GoogleStore)
    assert isinstance(google, GoogleStore)
    with google, portal_open_to(google.outbound()) as running:
        asked = running.api(running.token("admin"))
        key = {"kind": "gcs", "name": "lake", "key": json.dumps(google.account.document())}
        assert asked.post("projects/demo/credentials", json=key).status_code == 201
        bucket = google.make_bucket("results")
        outputs = Outputs(asked, running, google)
        job = outputs.run(LEAVES, name="google", output=f"gs://{bucket}/jobs")
        found = outputs.until(job, "complete", "partial", "failed")
        assert found["state"] == "complete", found
        assert set(outputs.objects(bucket, f"jobs/google-{job}/1/")) == {
            "_BERTH_COMPLETE",
            "accuracy.txt",
            "model/w.bin",
        }


def test_curves_of_a_run_whose_folder_went_come_back_from_its_bucket(
    outputs: Outputs, bucket: str, portal: Portal
) -> None:
    from tests.jobs.test_real_tensorboard import WRITES, opened, scalars, until

    said = {"memory_mib": 512, "env": {"WRITES": WRITES}, "output": f"s3://{bucket}/results"}
    job = outputs.run('python3 -c "$WRITES" 5 0', name="went", **said)
    folder = outputs.folder(outputs.until(job, "complete"))
    portal.shell(_LATER.format(job=job))
    until(lambda: (folder.exists(), outputs.get(job)["volume"]), lambda told: told == (False, None))
    _workspace, asked = opened(outputs.api, portal, job)
    points = until(lambda: scalars(asked), lambda found: len(found) == 5)
    assert [step for _at, step, _value in points] == [0, 1, 2, 3, 4]
    assert folder.is_dir()
