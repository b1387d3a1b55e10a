"""The real thing by API: a portal, its driver, the copying program and a real S3 server."""

from __future__ import annotations

import base64
import os
import secrets
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.dataplane import dataplane_environment, settings_open_to
from tests.support.portal import Portal
from tests.support.store_fixtures import begun
from tests.support.stores import S3Store, VersityS3, run_client

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

WITHIN_S = 240.0
FILES, SIZE = 24, 256 * 1024
SLOW = 1_000_000  # bytes a second: long enough to be cut in the middle


@pytest.fixture(scope="module")
def store() -> Iterator[S3Store]:
    server = begun(VersityS3)
    assert isinstance(server, S3Store)
    with server:
        yield server


@contextmanager
def portal_open_to(opened: dict[str, Any], **more: str) -> Iterator[Portal]:
    """A portal whose loads may go to one store: what its ``outbound()`` says."""
    dataplane_environment()
    running = Portal(env={**settings_open_to(opened), **more})
    try:
        running.start()
        yield running
    finally:
        running.close()


@pytest.fixture(scope="module")
def portal(store: S3Store) -> Iterator[Portal]:
    with portal_open_to(store.outbound()) as running:
        yield running


@pytest.fixture(scope="module")
def api(portal: Portal) -> httpx.Client:
    return portal.api(portal.token("admin"))


@pytest.fixture(scope="module")
def credential(api: httpx.Client, store: S3Store) -> str:
    made = api.post(
        "projects/demo/credentials",
        json={
            "kind": "s3-compatible",
            "name": "minio",
            "endpoint": store.url,
            "region": "us-east-1",
            "path_style": True,
            "access_key": store.keys.access,
            "secret_key": store.keys.secret,
        },
    )
    assert made.status_code == 201, made.text
    return "minio"


@pytest.fixture
def empty_bucket(store: S3Store) -> str:
    return store.make_bucket(f"set-{secrets.token_hex(4)}")


@pytest.fixture
def bucket(store: S3Store, empty_bucket: str) -> str:
    """A bucket with some small objects and enough large ones to be cut in the middle."""
    name = empty_bucket
    body = base64.b64encode(os.urandom(SIZE)).decode()
    keys = [f"images/{n:02d}.bin" for n in range(FILES)]
    run_client(store, [{"do": "put", "bucket": name, "key": k, "body": body} for k in keys])
    return name


class Loads:
    """What a person does with loads, by the API."""

    def __init__(self, api: httpx.Client, portal: Portal) -> None:
        self.api, self.portal = api, portal
        self.base = "projects/demo/loads"

    def create(self, **body: Any) -> dict[str, Any]:
        made = self.api.post(self.base, json=body)
        assert made.status_code == 202, made.text
        found: dict[str, Any] = made.json()
        return found

    def get(self, row: dict[str, Any]) -> dict[str, Any]:
        found: dict[str, Any] = self.api.get(f"{self.base}/{row['id']}").json()
        return found

    def act(self, row: dict[str, Any], verb: str) -> None:
        answer = self.api.post(f"{self.base}/{row['id']}/{verb}")
        assert answer.status_code == 202, answer.text

    def until(
        self, row: dict[str, Any], *states: str, look: Callable[[dict[str, Any]], Any] = bool
    ) -> dict[str, Any]:
        deadline = time.monotonic() + WITHIN_S
        while time.monotonic() < deadline:
            now = self.get(row)
            if (not states or now["status"]["state"] in states) and look(now):
                return now
            time.sleep(0.1)
        raise AssertionError(f"{now['status']}\n{self.portal.tail(30)}")

    def log(self, row: dict[str, Any], run: int | None = None) -> str:
        params = {} if run is None else {"run": run}
        answer = self.api.get(f"{self.base}/{row['id']}/logs", params=params)
        assert answer.status_code == 200, answer.text
        text: str = answer.json()["text"]
        return text

    def folder(self, row: dict[str, Any]) -> Path:
        return self.portal.var / "volumes" / str(row["spec"]["volume"]) / row["spec"]["folder"]

    def files(self, row: dict[str, Any]) -> dict[str, int]:
        root = self.folder(row)
        found = (p for p in root.rglob("*") if p.is_file() and ".berth" not in p.parts)
        return {str(p.relative_to(root)): p.stat().st_size for p in found}

    def process(self, row: dict[str, Any]) -> int:
        """Return the process that copies, by what it was started with."""
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                if b"dataplane.copy" not in words:
                    continue
                env = (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if any(row["id"].encode() in value for value in [*words, *env]):
                return int(entry.name)
        raise AssertionError("nothing copies")


@pytest.fixture
def loads(api: httpx.Client, portal: Portal) -> Loads:
    return Loads(api, portal)


def everything() -> dict[str, int]:
    return {f"images/{n:02d}.bin": SIZE for n in range(FILES)}


def half(row: dict[str, Any]) -> bool:
    return int(row["status"]["files"]["done"]) >= FILES // 3


def test_a_bucket_is_loaded_into_the_project_s_volume(
    loads: Loads, credential: str, bucket: str
) -> None:
    row = loads.create(url=f"s3://{bucket}/images", credential=credential, folder=bucket)
    done = loads.until(row, "done", "failed", "partial")
    assert done["status"]["state"] == "done", done["status"]
    assert loads.files(done) == everything()
    assert done["status"]["files"]["done"] == FILES
    assert sum(done["status"]["verified"].values()) == FILES
    assert not done["status"]["verified"].get("length")
    assert (loads.folder(done).parents[0] / done["manifest"]).is_file()
    loads.act(row, "start")
    again = loads.until(row, "done", look=lambda r: r["run"] == 2)
    assert again["status"]["files"]["unchanged"] == FILES
    loads.act(row, "verify")
    checked = loads.until(row, "done", look=lambda r: r["run"] == 3)
    assert checked["status"]["task"] == "verify"
    counts = (f"copied {FILES}, unchanged 0", f"copied 0, unchanged {FILES}", ": check, from ")
    for run, text in enumerate(counts, 1):  # each run keeps what it wrote
        assert text in loads.log(row, run)
        assert loads.log(row, run).splitlines()[-1].split(" ", 1)[1].startswith("done: ")


def test_d7_a_load_that_is_killed_in_the_middle_goes_on_without_reading_twice(
    loads: Loads, credential: str, bucket: str
) -> None:
    row = loads.create(
        url=f"s3://{bucket}/images",
        credential=credential,
        folder=bucket,
        bandwidth_bytes_s=SLOW // 2,
    )
    loads.until(row, "copying", look=half)
    live = loads.log(row)
    assert f"the listing is complete: {FILES} files" in live
    os.kill(loads.process(row), signal.SIGKILL)
    cut = loads.until(row, "waiting")  # for its next try, which nobody has to ask for
    assert cut["status"]["code"] in {"killed", "vanished"}
    assert cut["status"]["retry_at"]
    there = loads.files(cut)
    assert set(there.values()) <= {SIZE}  # nothing partial under its final name
    done = loads.until(row, "done", "failed", look=lambda r: r["run"] == 2)
    assert done["status"]["state"] == "done", done["status"]
    assert loads.files(done) == everything()
    left = FILES - len(there)
    assert done["status"]["bytes"]["read"] <= 1.02 * left * SIZE + 64 * 1024
    assert loads.log(row, 1).startswith(live)  # how far it was, and no word of an end
    assert "done: " not in loads.log(row, 1)
    assert "done: " in loads.log(row)


def test_pause_resume_and_cancel(loads: Loads, credential: str, bucket: str) -> None:
    row = loads.create(
        url=f"s3://{bucket}/images",
        credential=credential,
        folder=bucket,
        bandwidth_bytes_s=SLOW // 4,
    )
    loads.until(row, "copying", look=lambda r: r["status"]["files"]["done"] > 1)
    loads.act(row, "pause")
    paused = loads.until(row, "paused")
    kept = len(loads.files(paused))
    assert 0 < kept < FILES
    loads.act(row, "resume")
    loads.until(row, "copying")
    loads.act(row, "cancel")
    ended = loads.until(row, "cancelled")
    assert set(loads.files(ended).values()) <= {SIZE}
    runs = loads.api.get(f"{loads.base}/{row['id']}/runs").json()
    assert [run["result"] for run in runs] == ["cancelled", "paused"]


def test_d1_a_bad_key_is_left_out_and_named_and_all_good_ones_are_there(
    loads: Loads, credential: str, bucket: str, store: S3Store
) -> None:
    body = base64.b64encode(b"x").decode()
    bad = "images/a\tb"
    run_client(store, [{"do": "put", "bucket": bucket, "key": bad, "body": body}])
    row = loads.create(url=f"s3://{bucket}/images/", credential=credential, folder=bucket)
    ended = loads.until(row, "done", "partial", "failed")
    assert ended["status"]["state"] == "partial", ended["status"]
    assert loads.files(ended) == {k.removeprefix("images/"): v for k, v in everything().items()}
    (error,) = loads.api.get(f"{loads.base}/{row['id']}/errors").json()
    assert error["code"] == "bad-key"
    assert "images/a\\tb: bad-key: " in loads.log(row)


def test_a_wrong_bucket_and_a_wrong_key_end_with_one_clear_sentence(
    loads: Loads, credential: str, api: httpx.Client, store: S3Store, bucket: str
) -> None:
    row = loads.create(url="s3://no-such-bucket-here/x", credential=credential, folder="none")
    ended = loads.until(row, "failed")
    assert ended["status"]["code"] in {"no-bucket", "denied"}
    assert ended["status"]["advice"]
    made = api.post(
        "projects/demo/credentials",
        json={
            "kind": "s3-compatible",
            "name": f"wrong-{bucket}",
            "endpoint": store.url,
            "region": "us-east-1",
            "path_style": True,
            "access_key": store.keys.access,
            "secret_key": "x" * 40,
        },
    )
    assert made.status_code == 201, made.text
    row = loads.create(url=f"s3://{bucket}/images", credential=f"wrong-{bucket}", folder="none")
    ended = loads.until(row, "failed")
    assert ended["status"]["code"] == "denied"
    assert " denied: " in loads.log(row)
    assert "x" * 40 not in loads.log(row)


def test_a_dry_run_counts_and_an_export_brings_files_back(
    loads: Loads, credential: str, bucket: str, store: S3Store
) -> None:
    row = loads.create(
        url=f"s3://{bucket}/images", credential=credential, folder=bucket, start="dry-run"
    )
    counted = loads.until(row, "done", "failed")
    assert counted["status"]["state"] == "done", counted["status"]
    assert (counted["dry_run"]["files"], counted["dry_run"]["bytes"]) == (FILES, FILES * SIZE)
    assert loads.files(counted) == {}
    loads.act(row, "start")
    loads.until(row, "done", look=lambda r: r["run"] == 2)
    out = loads.create(
        url=f"s3://{bucket}/back", credential=credential, folder=bucket, direction="out"
    )
    done = loads.until(out, "done", "failed", "partial")
    assert done["status"]["state"] == "done", done["status"]
    (there,) = run_client(store, [{"do": "listed", "bucket": bucket, "prefix": "back/"}])
    assert there == {f"back/{key}": size for key, size in everything().items()}


def left_at_the_store(store: S3Store, bucket: str) -> list[str]:
    (keys,) = run_client(store, [{"do": "uploads", "bucket": bucket}])
    found: list[str] = keys
    return found


@pytest.mark.parametrize("how", ["cancel", "pause, then cancel", "delete"])
def test_an_export_that_is_ended_leaves_no_part_of_a_file_at_the_store(
    loads: Loads, credential: str, empty_bucket: str, store: S3Store, how: str
) -> None:
    row = loads.create(
        url=f"s3://{empty_bucket}/out",
        credential=credential,
        folder=f"{empty_bucket}-large",
        direction="out",
        bandwidth_bytes_s=2 * SLOW,
        start="no",
    )
    target = loads.folder(row)
    target.mkdir(parents=True)
    (target / "large.bin").write_bytes(os.urandom(64 * 2**20))
    loads.act(row, "start")
    loads.until(row, "copying", look=lambda _row: left_at_the_store(store, empty_bucket))
    if how == "delete":
        assert loads.api.delete(f"{loads.base}/{row['id']}").status_code == 202
        gone(loads, row)
    else:
        for verb in how.split(", then "):
            loads.act(row, verb)
            loads.until(row, "paused" if verb == "pause" else "cancelled")
            assert verb == "cancel" or left_at_the_store(store, empty_bucket)
    deadline = time.monotonic() + WITHIN_S
    while left_at_the_store(store, empty_bucket) and time.monotonic() < deadline:
        time.sleep(0.2)
    assert left_at_the_store(store, empty_bucket) == []
    if how != "delete":
        assert loads.get(row)["status"]["state"] == "cancelled"
    assert (target / "large.bin").stat().st_size == 64 * 2**20


def gone(loads: Loads, row: dict[str, Any]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while loads.api.get(f"{loads.base}/{row['id']}").status_code != 404:
        assert time.monotonic() < deadline, loads.portal.tail(30)
        time.sleep(0.1)
