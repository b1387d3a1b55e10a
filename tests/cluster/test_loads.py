"""Data on a cluster as people have it: loads as Jobs, and the files of a volume through the gate."""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import os
import secrets
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from devcluster.kube import Kube
from runtime.drivers.kubernetes import names
from tests.cluster import dials
from tests.cluster.lakes import owner_with_its_key, portal_by_a_store
from tests.cluster.visitors import Person, until
from tests.loaders.test_real_load import FILES, SIZE, SLOW, Loads, everything, half
from tests.support.clustered import ClusteredPortal, ok
from tests.support.stores import VersityS3, run_client

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.pods,
    pytest.mark.beside,
    pytest.mark.real,
    pytest.mark.timeout(900),
]

LATE_S = 180.0
LABEL = "berth.dev/uid"


@pytest.fixture(scope="module")
def portal(devcluster: dict[str, Any], store: VersityS3) -> Iterator[ClusteredPortal]:
    with portal_by_a_store(devcluster, store, "ld") as running:
        yield running


@pytest.fixture(scope="module")
def ann(portal: ClusteredPortal, store: VersityS3) -> Person:
    return owner_with_its_key(portal, store)


class ClusterLoads(Loads):
    """The same acts; what is looked at from outside lies on the node and in the API server."""

    def __init__(self, person: Person, portal: ClusteredPortal, kube: Kube) -> None:
        super().__init__(person.api, portal)
        self.kube = kube

    def folder(self, row: dict[str, Any]) -> Path:
        name = names.volume(str(row["spec"]["volume"]))
        made = self.kube.get("v1", "PersistentVolume", name)
        return Path(made["metadata"]["annotations"][names.DIRECTORY]) / row["spec"]["folder"]

    def pods(self, row: dict[str, Any]) -> list[Any]:
        return list(self.kube.list("v1", "Pod", labelSelector=f"{LABEL}={row['id']}"))

    def running(self, row: dict[str, Any]) -> dict[str, Any]:
        """Return what is known of each that runs, by its name."""
        found = [p for p in self.pods(row) if p["status"]["phase"] == "Running"]
        return {pod["metadata"]["name"]: pod["metadata"] for pod in found}

    def pod(self, row: dict[str, Any]) -> dict[str, str]:
        (one,) = self.running(row).values()
        return dict(one)

    def process(self, row: dict[str, Any]) -> int:
        """Return the copying process on the node: its host is named as its pod."""
        wanted = f"HOSTNAME={self.pod(row)['name']}".encode()
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                words = (entry / "cmdline").read_bytes().split(b"\0")
                env = (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            if b"dataplane.copy" in words and wanted in env:
                return int(entry.name)
        raise AssertionError("nothing copies")


@pytest.fixture
def loads(ann: Person, portal: ClusteredPortal, kube: Kube) -> ClusterLoads:
    return ClusterLoads(ann, portal, kube)


@pytest.fixture(scope="module")
def bucket(store: VersityS3) -> str:
    name = store.make_bucket(f"set-{secrets.token_hex(4)}")
    bodies = {key: base64.b64encode(os.urandom(SIZE)).decode() for key in everything()}
    run_client(
        store, [{"do": "put", "bucket": name, "key": k, "body": b} for k, b in bodies.items()]
    )
    return name


def contents(store: VersityS3, bucket: str) -> dict[str, str]:
    """Return the digest of each object, as another client reads it."""
    keys = sorted(everything())
    got = run_client(store, [{"do": "get", "bucket": bucket, "key": key} for key in keys])
    digests = (hashlib.sha256(base64.b64decode(body)).hexdigest() for body in got)
    return dict(zip(keys, digests, strict=True))


def digests(folder: Path) -> dict[str, str]:
    found = (p for p in folder.rglob("*") if p.is_file())
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in found}


def _measured(api: Any, place: str, least: int) -> dict[str, Any] | None:
    """Return the volume when its size in use is known and can hold what was loaded."""
    found: dict[str, Any] = ok(api.get(place)).json()
    return found if (found["used_bytes"] or 0) >= least else None


# --- loads ------------------------------------------------------------------------------------------


def test_a_load_runs_as_a_job_of_the_tenant_and_an_export_brings_it_back(
    loads: ClusterLoads, kube: Kube, bucket: str, store: VersityS3, devcluster: dict[str, Any]
) -> None:
    folder = f"here-{secrets.token_hex(2)}"
    row = loads.create(url=f"s3://{bucket}/images", credential="lake", folder=folder)
    done = loads.until(row, "done", "failed", "partial")
    assert done["status"]["state"] == "done", done["status"]
    assert digests(loads.folder(done)) == contents(store, bucket)
    assert done["status"]["files"]["done"] == sum(done["status"]["verified"].values()) == FILES
    assert not done["status"]["verified"].get("length")

    (job,) = kube.list("batch/v1", "Job", labelSelector=f"{LABEL}={row['id']}")
    assert job["metadata"]["namespace"].startswith(loads.portal.prefix)
    main = job["spec"]["template"]["spec"]["containers"][0]
    assert main["image"].endswith(devcluster["images"]["data"]["digest"])
    assert not any("gpu" in name for name in main["resources"]["limits"])
    assert store.keys.secret not in json.dumps([job, *loads.pods(row)])

    place = f"projects/demo/volumes/{row['spec']['volume']}"
    known = until(lambda: _measured(loads.api, place, FILES * SIZE), LATE_S)
    assert not known["used_at_least"]
    assert known["used_bytes"] < 2 * FILES * SIZE + 20 * 2**20

    loads.act(row, "start")
    again = loads.until(row, "done", "failed", look=lambda r: r["run"] == 2)
    assert again["status"]["files"]["unchanged"] == FILES
    loads.act(row, "verify")
    checked = loads.until(row, "done", "failed", look=lambda r: r["run"] == 3)
    assert (checked["status"]["state"], checked["status"]["task"]) == ("done", "verify")
    counts = (f"copied {FILES}, unchanged 0", f"copied 0, unchanged {FILES}", ": check, from ")
    for run, text in enumerate(counts, 1):  # the Job of the next run has taken its place
        assert text in loads.log(row, run)
        assert " done: " in loads.log(row, run)

    out = loads.create(url=f"s3://{bucket}/back", credential="lake", folder=folder, direction="out")
    ended = loads.until(out, "done", "failed", "partial")
    assert ended["status"]["state"] == "done", ended["status"]
    (there,) = run_client(store, [{"do": "listed", "bucket": bucket, "prefix": "back/"}])
    assert there == {f"back/{key}": size for key, size in everything().items()}

    ok(loads.api.delete(f"{loads.base}/{row['id']}"))
    until(lambda: loads.api.get(f"{loads.base}/{row['id']}").status_code == 404, LATE_S)
    for api, kind in (("batch/v1", "Job"), ("v1", "Secret"), ("v1", "Pod")):
        until(
            lambda a=api, k=kind: not kube.list(a, k, labelSelector=f"{LABEL}={row['id']}"), LATE_S
        )
    assert digests(loads.folder(done)) == contents(store, bucket)  # the data stays


def kill(loads: ClusterLoads, row: dict[str, Any]) -> None:
    """As the kernel does when memory is out."""
    os.kill(loads.process(row), signal.SIGKILL)


def evict(loads: ClusterLoads, row: dict[str, Any]) -> None:
    """As the drain of a node does."""
    meta = {key: loads.pod(row)[key] for key in ("name", "namespace")}
    path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/eviction"
    body = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta}
    loads.kube.request("POST", path, json=body)


def got(served: list[tuple[str, str, int]]) -> set[str]:
    """Which objects were read."""
    return {key for operation, key, _status in served if operation == "GetObject"}


@pytest.mark.long("of processes: loaders/test_real_load.py test_d7")
@pytest.mark.parametrize("cut", [kill, evict])
def test_d7_a_load_whose_pod_is_lost_goes_on_by_itself_and_reads_nothing_twice(
    loads: ClusterLoads, bucket: str, store: VersityS3, cut: Any
) -> None:
    row = loads.create(
        url=f"s3://{bucket}/images",
        credential="lake",
        folder=f"{cut.__name__}-{secrets.token_hex(2)}",
        bandwidth_bytes_s=SLOW // 4,  # whoever looks may stand still for seconds
    )
    loads.until(row, "copying", look=half)
    assert f"the listing is complete: {FILES} files" in loads.log(row)  # as it runs
    first, before = loads.pod(row)["name"], len(store.served())
    cut(loads, row)
    until(lambda: first not in loads.running(row), LATE_S)
    there = loads.files(loads.get(row))
    asked = len(store.served())
    # of these some may be the next pod's already: it need not wait for us
    lately = got(store.served()[before:asked]) & set(there)
    assert set(there.values()) <= {SIZE}  # nothing partial under its final name
    assert FILES // 3 <= len(there) < FILES
    done = loads.until(row, "done", "failed", "partial")
    assert done["status"]["state"] == "done", done["status"]
    assert done["run"] == 1
    assert any(pod["metadata"]["name"] != first for pod in loads.pods(row))
    read = got(store.served()[asked:])
    assert read
    assert not set(there) & read
    left = FILES - len(there) + len(lately)
    assert done["status"]["bytes"]["read"] <= 1.02 * left * SIZE + 64 * 1024
    assert digests(loads.folder(done)) == contents(store, bucket)
    assert " done: " in loads.log(row)


def test_pause_resume_and_cancel_of_a_job(loads: ClusterLoads, bucket: str) -> None:
    asked = {"url": f"s3://{bucket}/images", "folder": f"cut-{secrets.token_hex(2)}"}
    row = loads.create(**asked, credential="lake", bandwidth_bytes_s=SLOW // 4)
    loads.until(row, "copying", look=lambda r: r["status"]["files"]["done"] > 1)
    loads.act(row, "pause")
    paused = loads.until(row, "paused")
    kept = len(loads.files(paused))
    assert 0 < kept < FILES
    assert not [p for p in loads.pods(row) if p["status"]["phase"] in {"Pending", "Running"}]
    loads.act(row, "resume")
    loads.until(row, "copying")
    loads.act(row, "cancel")
    ended = loads.until(row, "cancelled")
    assert set(loads.files(ended).values()) <= {SIZE}
    assert len(loads.files(ended)) >= kept
    runs = loads.api.get(f"{loads.base}/{row['id']}/runs").json()
    assert [run["result"] for run in runs] == ["cancelled", "paused"]


# --- files -------------------------------------------------------------------------------------------

PIECE = 1_000_000
PNG = bytes.fromhex("89504e470d0a1a0a0000000d49484452") + b"\0" * 40
NOTEBOOK = {
    "nbformat": 4,
    "nbformat_minor": 5,
    "metadata": {},
    "cells": [{"cell_type": "markdown", "metadata": {}, "source": ["# Hello"], "id": "a"}],
}


@pytest.fixture(scope="module")
def volume(ann: Person) -> str:
    """The path of a volume of ann's that is ready."""
    asked = {"name": f"papers-{secrets.token_hex(2)}", "size_mib": 1024}
    made = ok(ann.api.post("projects/demo/volumes", json=asked))
    path = f"projects/demo/volumes/{made.json()['id']}"
    until(lambda: ann.api.get(path).json()["phase"] == "running", LATE_S)
    return path


def opened(person: Person, volume: str) -> httpx.Client:
    """Open a person's file browser; return what speaks to it through the gate."""
    ok(person.api.post(f"{volume}/files"))

    def look() -> Any:
        now = ok(person.api.get(f"{volume}/files")).json()
        assert now["phase"] != "failed", (now, person.portal.tail(30))
        return now if now["is_open"] else None

    address = until(look, LATE_S)["url"]
    token = person.api.headers["Authorization"]
    http = httpx.Client(base_url=address, headers={"Authorization": token}, timeout=120)
    until(lambda: _answers(http), LATE_S)  # the gate starts with the first visit
    return http


def _answers(http: httpx.Client) -> bool:
    try:
        return http.get("info").status_code == 200
    except httpx.TransportError:
        return False


@pytest.fixture
def browser(ann: Person, volume: str) -> Iterator[httpx.Client]:
    with contextlib.closing(opened(ann, volume)) as http:
        yield http


def test_files_go_up_are_listed_shown_and_come_down(browser: httpx.Client) -> None:
    data, folder = os.urandom(3 * PIECE + 17), f"a {secrets.token_hex(2)}"
    path = f"{folder}/ü.bin"
    upload = ok(browser.post("uploads", json={"path": path, "size": len(data)})).json()
    for at in range(0, len(data), PIECE):
        piece = data[at : at + PIECE]
        check = {"X-Berth-Checksum": f"sha256={hashlib.sha256(piece).hexdigest()}"}
        where = f"uploads/{upload['id']}"
        ok(browser.patch(where, params={"offset": at}, content=piece, headers=check))
    ended = ok(browser.post(f"uploads/{upload['id']}/finish", json={}))
    assert json.loads(ended.text.splitlines()[-1])["done"]["size"] == len(data)
    listed = ok(browser.get("list", params={"path": folder})).json()
    assert [(e["name"], e["size"]) for e in listed["entries"]] == [("ü.bin", len(data))]
    assert ok(browser.get("file", params={"path": path})).content == data
    part = browser.get("file", params={"path": path}, headers={"Range": "bytes=10-19"})
    assert (part.status_code, part.content) == (206, data[10:20])
    assert data in ok(browser.get("zip", params={"path": folder})).content

    for name, body, kind in (
        ("p.png", PNG, "image"),
        ("n.ipynb", json.dumps(NOTEBOOK).encode(), "notebook"),
        ("t.txt", "plain ü".encode(), "text"),
    ):
        path = f"{folder}/{name}"
        ok(browser.put("file", params={"path": path}, content=body))
        assert ok(browser.get("preview", params={"path": path})).json()["kind"] == kind
    gone = ok(browser.post("delete", json={"paths": [path]})).json()
    assert browser.get("file", params={"path": path}).status_code == 404
    ok(browser.post("restore", json={"id": gone["id"]}))
    assert ok(browser.get("file", params={"path": path})).text == "plain ü"


def test_what_was_loaded_is_seen_and_a_stranger_sees_nothing(
    loads: ClusterLoads, portal: ClusteredPortal, ann: Person, bucket: str
) -> None:
    asked = {"url": f"s3://{bucket}/images/", "folder": f"seen-{secrets.token_hex(2)}"}
    row = loads.create(**asked, credential="lake", objects=["images/00.bin"])
    done = loads.until(row, "done", "failed", "partial")
    assert done["status"]["state"] == "done", done["status"]
    path = f"projects/demo/volumes/{done['spec']['volume']}"
    with contextlib.closing(opened(ann, path)) as http:
        (entry,) = ok(http.get("list", params={"path": asked["folder"]})).json()["entries"]
        assert (entry["name"], entry["size"]) == ("00.bin", SIZE)
        cyd = Person(portal, "cyd")
        http.headers["Authorization"] = cyd.api.headers["Authorization"]
        assert http.get("list").status_code == 404
        assert cyd.api.post(f"{path}/files").status_code == 404


def test_nobody_else_in_the_project_reaches_the_server_beside_the_data(
    browser: httpx.Client,
    ann: Person,
    volume: str,
    kube: Kube,
    portal: ClusteredPortal,
    devcluster: dict[str, Any],
) -> None:
    """It asks for its token and its policy lets only the gate in; when it is ended its pod goes."""
    assert browser.get("info").status_code == 200
    mine = [
        pod
        for pod in kube.list("v1", "Pod", labelSelector="berth.dev/kind=files")
        if pod["metadata"]["namespace"].startswith(portal.prefix)
    ]
    assert mine
    for pod in mine:
        answer = httpx.get(f"http://{pod['status']['podIP']}:{names.PORT}/list", timeout=60)
        assert answer.status_code == 401
    near, image = mine[0], devcluster["images"]["tool"]["reference"]
    space, address = near["metadata"]["namespace"], near["status"]["podIP"]
    try:
        wanted = {f"{address}:{names.PORT}": False}
        assert dials.tcp(kube, space, "try", image, wanted) == wanted
    finally:
        kube.delete("v1", "Pod", "try", space)
    uid = volume.rpartition("/")[2]
    of_it = [pod for pod in mine if uid in json.dumps(pod["spec"]["volumes"])]
    assert of_it
    assert ann.api.delete(f"{volume}/files").status_code == 204
    assert browser.get("info").status_code == 409
    for pod in of_it:
        meta = pod["metadata"]
        until(lambda m=meta: kube.get("v1", "Pod", m["name"], m["namespace"]) is None, LATE_S)
