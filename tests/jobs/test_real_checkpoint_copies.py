"""The real thing on one machine: checkpoints at a real store, and back when their folder is lost."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.jobs.running import Jobs
from tests.loaders.test_real_load import settings_open_to
from tests.support.dataplane import dataplane_environment
from tests.support.portal import Portal
from tests.support.store_fixtures import begun
from tests.support.stores import RcloneS3, run_client

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

# Each half second a checkpoint that takes a moment to write; it says with which it begins.
KEEPS = """
cd "$BERTH_CHECKPOINTS"; n=0
[ -L .latest ] && n=$(cat .latest/step); echo "begins at $n"
[ "$n" -ge 4 ] && exit 0
while :; do
  n=$((n + 1)); mkdir .new; echo "$n" > .new/step; sleep 0.3; cp .new/step .new/weights
  mv .new "step-$n"; sleep 0.2
done
"""


@pytest.fixture(scope="module")
def store() -> Iterator[RcloneS3]:
    server = begun(RcloneS3)
    assert isinstance(server, RcloneS3)
    with server:
        yield server


@pytest.fixture(scope="module")
def portal(store: RcloneS3) -> Iterator[Portal]:
    dataplane_environment()
    running = Portal({**settings_open_to(store.outbound()), "BERTH_CHECKPOINT_SECONDS": "1"})
    try:
        yield running.start()
    finally:
        running.close()


@pytest.fixture(scope="module")
def api(portal: Portal, store: RcloneS3) -> httpx.Client:
    found = portal.api(portal.token("admin"))
    said = {"kind": "s3-compatible", "name": "lake", "endpoint": store.url, "region": "us-east-1"}
    keys = {"access_key": store.keys.access, "secret_key": store.keys.secret}
    made = found.post("projects/demo/credentials", json={**said, **keys, "path_style": True})
    assert made.status_code == 201, made.text
    return found


def until(look: Any, within_s: float = 120) -> Any:
    deadline = time.monotonic() + within_s
    while not (found := look()):
        assert time.monotonic() < deadline, found
        time.sleep(0.2)
    return found


def test_g13_its_folder_is_lost_and_it_goes_on_from_the_newest_copy(
    portal: Portal, api: httpx.Client, store: RcloneS3
) -> None:
    bucket = store.make_bucket("kept")
    said = {"command": ["bash", "-c", KEEPS], "environment": "jupyterlab", "cpu_milli": 100}
    said |= {"memory_mib": 256, "checkpoints": "shared/runs", "volumes": ["shared"]}
    body = {**said, "checkpoints_to": f"s3://{bucket}/of"}
    made = api.post("projects/demo/jobs", json=body)
    assert made.status_code == 202, made.text
    one = made.json()["id"]
    jobs = Jobs(portal, owner="admin")

    def copies() -> dict[str, Any]:
        found: dict[str, Any] = api.get(f"projects/demo/jobs/{one}").json()["checkpoint_copies"]
        return found or {"kept": []}

    def kept(least: int) -> list[str]:
        names = [row["name"] for row in copies()["kept"]]
        return names if names and int(names[0].removeprefix("step-")) >= least else []

    until(lambda: kept(4))
    assert api.post(f"projects/demo/jobs/{one}/cancel").status_code < 300
    jobs.until(one, "cancelled")
    (volume,) = [path.parent for path in (portal.var / "volumes").glob("*/runs")]
    last = max(int(p.name.removeprefix("step-")) for p in volume.glob(f"runs/{one}/step-*"))
    names = until(lambda: kept(last))
    assert len(names) == 2
    (keys,) = run_client(store, [{"do": "listed", "bucket": bucket, "prefix": ""}])
    assert len(keys) == 5  # two of each, and the index: nothing of what is older or half
    shutil.rmtree(volume / "runs" / one)
    assert api.post(f"projects/demo/jobs/{one}/start").status_code < 300
    found = jobs.until(one, "succeeded")
    (log,) = jobs.logs(found, 1)
    assert log.strip() == f"begins at {last}"
    assert copies()["restored"] == f"step-{last}"
    assert (volume / "runs" / one / f"step-{last}" / "weights").read_text() == f"{last}\n"
