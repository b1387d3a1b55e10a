"""Files of versions are read by a real job: digest and signature, what changed, what can't be."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from benchmarks.lib import poll
from tests.jobs.test_real_outputs import berth
from tests.serving.server import make_sample
from tests.support.dataplane import dataplane_environment
from tests.support.locked_environments import MissingError, locked_environment
from tests.support.portal import Portal

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]
JOBS = "projects/demo/jobs"


@pytest.fixture(scope="module")
def portal() -> Iterator[Portal]:
    dataplane_environment()
    try:
        locked_environment("serving")
    except MissingError as why:
        pytest.skip(str(why))
    running = Portal()
    try:
        running.start()
        yield running
    finally:
        running.close()


@pytest.fixture(scope="module")
def api(portal: Portal) -> httpx.Client:
    return portal.api(portal.token("admin"))


def read(portal: Portal, name: str) -> tuple[int, dict[str, Any]]:
    done = berth(portal, "model", "version", "read", "iris", name, "-o", "json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    return done.returncode, dict(found[0] if isinstance(found, list) else found)


def reading(api: httpx.Client) -> list[str]:
    names = [job["name"] for job in api.get(JOBS).json()["results"]]
    return [name for name in names if name.startswith("read-")]


def test_files_are_read_in_a_job_and_a_change_is_told(
    portal: Portal, api: httpx.Client, tmp_path: Path
) -> None:
    folder = tmp_path / "iris"
    folder.mkdir()
    make_sample("sklearn", folder)
    assert berth(portal, "model", "create", "iris").returncode == 0
    sent = berth(portal, "model", "version", "add", "iris", "--from-dir", str(folder))
    assert sent.returncode == 0, sent.stderr
    _code, row = read(portal, "v1")
    assert (row["read"], row["read_message"], row["message"]) == ("done", "", ""), row
    words = "find . -type f -printf '%P\\n' | LC_ALL=C sort | xargs sha256sum | sha256sum"
    repeated = subprocess.run(
        ["sh", "-c", words], cwd=folder, capture_output=True, text=True, check=True
    )
    assert row["digest"] == f"sha256:{repeated.stdout.split()[0]}"
    (taken,) = row["signature"]["inputs"]
    assert taken["shape"] == [-1, 3]
    assert row["made_with"], row
    poll(lambda: not reading(api), within_s=60, every_s=0.2)  # what has told all goes by itself

    there = portal.var / "volumes" / row["volume_id"] / row["folder"]
    (there / "model.joblib").write_bytes(b"\x80\x05no pickle any more")
    _code, changed = read(portal, "v1")
    assert changed["digest"] == row["digest"], "what was registered stays known"
    assert "not what was registered" in changed["message"]
    assert (changed["read"], "model.joblib" in changed["read_message"]) == ("failed", True)


def test_a_file_of_another_framework_is_said_with_what_would_do(
    portal: Portal, api: httpx.Client, tmp_path: Path
) -> None:
    folder = tmp_path / "wrong"
    folder.mkdir()
    make_sample("sklearn", folder)
    (folder / "model.joblib").rename(folder / "model.onnx")
    if api.get("projects/demo/models/iris").status_code == 404:
        assert berth(portal, "model", "create", "iris").returncode == 0
    sent = berth(portal, "model", "version", "add", "iris", "--from-dir", str(folder))
    assert sent.returncode == 0, sent.stderr
    newest = api.get("projects/demo/models/iris/versions").json()["results"][0]["name"]
    _code, row = read(portal, newest)
    assert row["digest"].startswith("sha256:")
    assert row["read"] == "failed"
    assert "Choose the framework scikit-learn" in row["read_message"]
