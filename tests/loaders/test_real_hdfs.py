"""A load from a real HDFS by API: credential, “test it”, folder to volume."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.files.test_real_files import Berth
from tests.loaders.test_real_load import Loads, portal_open_to
from tests.support.hdfs import PERSON, Hdfs, begun
from tests.support.portal import Portal

pytestmark = [
    pytest.mark.real,
    pytest.mark.timeout(900),
    pytest.mark.long("needs a Hadoop; by a real S3: loaders/test_real_load.py"),
]


@pytest.fixture(scope="module")
def hdfs() -> Iterator[Hdfs]:
    with begun() as store:
        yield store


@pytest.fixture(scope="module")
def portal(hdfs: Hdfs) -> Iterator[Portal]:
    with portal_open_to(hdfs.outbound()) as running:
        yield running


@pytest.fixture(scope="module")
def api(portal: Portal) -> httpx.Client:
    return portal.api(portal.token("admin"))


def test_a_folder_of_a_real_hdfs_is_loaded_by_a_stored_name(
    api: httpx.Client, portal: Portal, hdfs: Hdfs
) -> None:
    for name in ("a.bin", "deep/b.bin"):
        hdfs.put(f"/sets/one/{name}", name.encode() * 1000)
    credentials = "projects/demo/credentials"
    lake = {"kind": "hdfs", "name": "lake", "endpoint": hdfs.url, "username": PERSON}
    made = api.post(credentials, json={**lake, "folder": "/sets"})
    assert made.status_code == 201, made.text
    said = api.post(f"{credentials}/{made.json()['id']}/test").json()
    assert (said["ok"], "/sets" in said["message"]) == (True, True)

    loads = Loads(api, portal)
    row = loads.create(url="hdfs:///sets/one/", credential="lake", folder="one")
    done = loads.until(row, "done", "failed", "partial")
    assert (done["status"]["state"], loads.files(done)) == (
        "done",
        {"a.bin": 5000, "deep/b.bin": 10000},
    )
    assert done["spec"]["url"] == "hdfs:///sets/one/"
    assert done["status"]["verified"] == {"md5-of-crcs": 2}

    out = {"url": "hdfs:///sets/two/", "credential": "lake", "direction": "out"}
    assert "direction" in api.post("projects/demo/loads", json=out).json()["fields"]
    alone = api.post("projects/demo/loads", json={"url": "hdfs:///sets/one/"})
    assert "credential" in alone.json()["fields"]


@pytest.fixture(scope="module")
def berth(portal: Portal, hdfs: Hdfs, tmp_path_factory: pytest.TempPathFactory) -> Berth:
    """The command line with a credential that it stored itself."""
    program = Berth(portal, "admin", tmp_path_factory.mktemp("berth"))
    named = ("--endpoint", hdfs.url, "--username", PERSON, "--folder", "/cli")
    for name in ("one", "two"):
        hdfs.put(f"/cli/{name}/a.bin", name.encode() * 1000)
    program("credentials", "add", "hdfs", "pond", *named)
    return program


def test_the_same_by_the_command_line(berth: Berth, api: httpx.Client, portal: Portal) -> None:
    assert "/cli" in berth("credentials", "test", "pond")
    words = ("--credential", "pond", "--folder", "cli-one", "--wait")
    assert "done" in berth("loads", "create", "hdfs:///cli/one/", *words)
    row = listed(berth, "hdfs:///cli/one/")
    assert Loads(api, portal).files(row) == {"a.bin": 3000}
    assert row["status"]["verified"] == {"md5-of-crcs": 1}


def test_the_same_by_a_file(
    berth: Berth, api: httpx.Client, portal: Portal, tmp_path: Path
) -> None:
    """Applied once more it is the same load, which finds that nothing is missing."""
    document = tmp_path / "load.yaml"
    document.write_text(
        "apiVersion: berth.dev/v1\nkind: Load\nmetadata: {name: two, project: demo}\n"
        "spec: {url: 'hdfs:///cli/two/', credential: pond, folder: cli-two}\n"
    )
    assert "hdfs:///cli/two/" in berth("apply", "-f", document, "--plan")
    berth("apply", "-f", document, "--wait")
    row = listed(berth, "hdfs:///cli/two/")
    assert Loads(api, portal).files(row) == {"a.bin": 3000}
    berth("apply", "-f", document, "--wait")
    assert listed(berth, "hdfs:///cli/two/")["id"] == row["id"]


def listed(berth: Berth, url: str) -> dict[str, Any]:
    """Return the one load of this address that is done, as the command line tells it."""
    rows = json.loads(berth("loads", "list", "-o", "json", "--state", "done"))
    (found,) = (row for row in rows if row["spec"]["url"] == url)
    return dict(found)
