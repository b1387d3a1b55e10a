"""The real thing on one machine: batches by a live endpoint, and from and to buckets."""

from __future__ import annotations

import base64
import json
import os
import secrets
import signal
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.loaders.test_real_load import portal_open_to
from tests.serving.batches import with_pyarrow
from tests.serving.server import python
from tests.serving.test_real_endpoints import Served, api, sample
from tests.support.portal import Portal
from tests.support.store_fixtures import begun
from tests.support.stores import GoogleStore, Store, VersityS3, run_client

__all__ = ("api", "sample")  # fixtures
pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

WITHIN_S = 200.0
SIZE = {"cpu_milli": 500, "memory_mib": 512}
OVER = {"succeeded", "failed", "cancelled"}
_ASLEEP = (
    "from datetime import timedelta; from common.clock import now\n"
    "Endpoint.objects.filter(pk=row.pk).update(ready_at=now() - timedelta(hours=1)); answer = 1"
)
_LONG_AGO = """
from datetime import timedelta
from common.clock import now
from jobs.models import Job
from serving.services.batch_places import inputs_tidy
Job.objects.exclude(finished_at=None).update(finished_at=now() - timedelta(days=400))
answer = inputs_tidy()
"""
_COUNT = """
import json, sys
from pyarrow import parquet
table = parquet.read_table(sys.argv[1])
print(json.dumps([table["line"].to_pylist(), table["prediction"].to_pylist(),
    sorted(set(table["version"].to_pylist()))]))
"""


@pytest.fixture(scope="module")
def stores() -> Iterator[tuple[Store, Store]]:
    amazon, google = begun(VersityS3), begun(GoogleStore)
    with amazon, google:
        yield amazon, google


@pytest.fixture(scope="module")
def portal(stores: tuple[Store, Store]) -> Iterator[Portal]:
    python()  # the environment, before the portal looks
    amazon, google = (one.outbound() for one in stores)
    lists = {name: [*amazon[name], *google[name]] for name in ("allow", "ports", "insecure_hosts")}
    with portal_open_to({**google, **lists}) as running:
        yield running


class Batch:
    """One that was begun, looked at through the API."""

    def __init__(self, api: httpx.Client, said: dict[str, Any], path: str = "") -> None:
        self.api = api
        here = "projects/demo/batch-predictions"
        made = api.post(f"{here}{path}", json=said)
        assert made.status_code == 202, made.text
        self.told = made.json()
        self.at = f"{here}/{self.told['id']}"
        self.job = str(self.told["job"])

    def look(self) -> dict[str, Any]:
        self.told = self.api.get(self.at).json()
        return dict(self.told)

    def log(self) -> str:
        return self.api.get(f"projects/demo/jobs/{self.job}/logs").text[-2000:]

    def over(self, state: str = "succeeded") -> dict[str, Any]:
        until = time.monotonic() + WITHIN_S
        while time.monotonic() < until:
            if self.look()["state"] in OVER and self.told["progress"] == 1:
                break
            time.sleep(0.3)
        assert (self.told["state"], self.told["progress"]) == (state, 1), self.log()
        return dict(self.told)


def volume_of(portal: Portal, api: httpx.Client) -> Path:
    (version,) = api.get("projects/demo/models/digits/versions").json()["results"][:1]
    return portal.var / "volumes" / str(version["volume_id"])


def write(path: Path, text: str) -> None:
    path.parent.mkdir(mode=0o755, exist_ok=True)
    path.write_text(text)
    path.chmod(0o644)


@pytest.mark.long("kills: serving/test_real_batch_endpoint.py; waking: serving/test_real_calls.py")
def test_a_sleeping_endpoint_is_woken_and_kills_in_the_middle_lose_and_repeat_nothing(
    portal: Portal, api: httpx.Client, sample: dict[str, Any]
) -> None:
    served = Served(portal, api, name="live", model="digits/v1", sleep_after_minutes=1)
    served.ready()
    served.shell(_ASLEEP)
    served.state("asleep")
    volume = volume_of(portal, api)
    count = 3000 * len(sample["instances"])
    lines = [json.dumps(row) for row in sample["instances"]] * 3000
    write(volume / "live/a.jsonl", "\n".join(lines))
    said = {"endpoint": "live", "input": "volume:models/live", "output": "volume:models/by-live"}
    batch = Batch(api, {**said, **SIZE, "format": "parquet", "batch": 4, "at_once": 2})
    kept = volume / "batch-progress" / batch.job / "batch-progress.json"
    for wanted in (0.1, 0.4):
        _predicted(kept, wanted * count)
        for pid in _programs("live"):
            with suppress(ProcessLookupError):  # one that it just began was seen as itself
                os.kill(pid, signal.SIGKILL)
        assert _predicted(kept, 0) < count, "too fast to be killed in the middle"
    told = batch.over()
    assert (told["done"], told["failed"], told["endpoint"]) == (count, 0, "live")
    (folder,) = (volume / "by-live").glob("predict-live-*/1")
    predicted = folder / "predictions-00000.parquet"
    found, predictions, versions = with_pyarrow(_COUNT, predicted)
    assert found == list(range(1, count + 1))
    assert predictions == sample["predictions"] * 3000
    assert versions == ["v1"]
    callers = served.shell(
        "from serving.models import Calls\n"
        "answer = sorted(set(Calls.objects.filter(endpoint=row).values_list('caller', flat=True)))"
    )
    assert [one[0] for one in callers] == ["b"]
    everywhere = batch.log() + "".join(
        path.read_text(errors="replace") for path in volume.rglob("*.json*")
    )
    assert "BERTH_ENDPOINT_KEY" not in everywhere
    served.delete()


def _programs(endpoint: str) -> list[int]:
    """Return who predicts by an endpoint; wait for them: what was killed takes a moment to begin."""
    until = time.monotonic() + WITHIN_S
    while time.monotonic() < until:
        if pids := [int(p.name) for p in Path("/proc").glob("[0-9]*") if _is_program(p, endpoint)]:
            return pids
        time.sleep(0.05)
    raise AssertionError(f"nobody predicts by {endpoint}")


def _is_program(process: Path, endpoint: str) -> bool:
    try:
        words = (process / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return b"serving.programs.batch_predict" in words and f"endpoint {endpoint}".encode() in words


def _predicted(kept: Path, wanted: float) -> int:
    until = time.monotonic() + WITHIN_S
    while time.monotonic() < until:
        if kept.exists() and (found := json.loads(kept.read_text())["predicted"]) >= wanted:
            return int(found)
        time.sleep(0.05)
    raise AssertionError(f"{wanted} are not predicted")


@pytest.mark.parametrize(
    "which",
    [
        pytest.param(0, id="s3"),
        pytest.param(1, id="gcs", marks=pytest.mark.long("S3 beside it; loads try both stores")),
    ],
)
def test_instances_of_a_bucket_are_predicted_into_it_and_its_errors_again(
    portal: Portal,
    api: httpx.Client,
    stores: tuple[Store, Store],
    sample: dict[str, Any],
    which: int,
) -> None:
    store = stores[which]
    scheme, name = ("s3", "lake") if which == 0 else ("gs", "ocean")
    made = api.post("projects/demo/credentials", json={"name": name, **_opens(store)})
    assert made.status_code == 201, made.text
    bucket = store.make_bucket(f"batch-{secrets.token_hex(4)}")
    rows = "".join(json.dumps(row) + "\n" for row in sample["instances"])
    body = base64.b64encode(f"{rows}[1,\n".encode()).decode()
    run_client(store, [{"do": "put", "bucket": bucket, "key": "in/a.jsonl", "body": body}])
    place = f"{scheme}://{bucket}"
    said = {"model": "digits/v1", "input": f"{place}/in/", "output": f"{place}/out"}
    batch = Batch(api, {**said, **SIZE, "credential": name, "output_credential": name})
    told = batch.over()
    assert (told["done"], told["failed"]) == (len(sample["instances"]) + 1, 1)
    prefix = f"out/{told['name']}-{batch.job}/1/"
    wanted = {f"{prefix}{one}" for one in ("predictions-00000.jsonl", "errors.jsonl")}
    until = time.monotonic() + WITHIN_S
    while time.monotonic() < until:
        asked = [{"do": "listed", "bucket": bucket, "prefix": prefix}]
        (there,) = run_client(store, asked)
        if f"{prefix}_BERTH_COMPLETE" in there:
            break
        time.sleep(0.5)
    assert wanted < set(there)
    again = Batch(api, {"errors_only": True}, f"/{told['id']}/again")
    ended = again.over("failed")  # that line is no JSON now either
    assert (ended["done"], ended["failed"]) == (1, 1)
    assert "Not one instance was predicted" in again.log()
    (brought,) = portal.var.glob(f"volumes/*/batch-inputs/{told['name']}-*")
    assert [path.name for path in brought.iterdir()] == ["a.jsonl"]
    assert portal.shell(_LONG_AGO) == 1
    until = time.monotonic() + WITHIN_S
    while time.monotonic() < until and brought.exists():
        time.sleep(0.5)
    assert not brought.exists(), portal.tail(20)
    assert batch.look()["input_gone"]
    refused = api.post(f"{batch.at}/again", json={"errors_only": True})
    assert (refused.status_code, refused.json()["code"]) == (409, "input-gone")


def _opens(store: Store) -> dict[str, Any]:
    if isinstance(store, GoogleStore):
        return {"kind": "gcs", "key": json.dumps(store.account.document())}
    assert isinstance(store, VersityS3)
    return {
        "kind": "s3-compatible",
        "endpoint": store.url,
        "region": "us-east-1",
        "path_style": True,
        "access_key": store.keys.access,
        "secret_key": store.keys.secret,
    }
