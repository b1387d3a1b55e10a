"""Storage by its own programs: volumes that make snapshots and grow; work drawn near to it."""

from __future__ import annotations

import contextlib
import io
import json
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devcluster.kube import Kube
from devcluster.layout import ROOT, Layout
from devcluster.storage import CLASS, FIXED, GROUP, NEEDED
from runtime.drivers.kubernetes import names
from tests.cluster.test_loads import (
    ClusterLoads,
    ann,
    bucket,
    contents,
    digests,
    loads,
    opened,
    portal,
)
from tests.cluster.visitors import BASE, Person, named, until
from tests.support.clustered import KEY, ClusteredPortal, ok
from tests.support.stores import VersityS3

# Its programs may have to be built first.
pytestmark = [
    pytest.mark.cluster,
    pytest.mark.real,
    pytest.mark.timeout(900),
    pytest.mark.long(
        "needs CSI's own programs; the objects: drivers/kubernetes/test_volumes.py, test_growth.py"
    ),
]
__all__ = ["ann", "bucket", "loads", "portal"]  # fixtures

LATE_S = 180.0
LATE = "berth-test-late"
SIMULATED = {"key": "kwok.x-k8s.io/node", "operator": "Exists", "effect": "NoSchedule"}
FLAVOR, PRODUCT = "h100-80", "nvidia.com/gpu.product=NVIDIA-H100-80GB-HBM3"


@pytest.fixture(scope="module")
def storage(devcluster: dict[str, Any]) -> str:
    """The storage class; its programs are built when they are not there yet."""
    if Path(devcluster["kubeconfig"]) != Layout.usual().admin:
        pytest.skip("only a cluster of ours has storage of ours")
    if (built := command("build", *NEEDED)).returncode:
        pytest.skip(f"Its programs can't be built here: {built.stderr}")
    added = command("storage")
    assert added.returncode == 0, added.stdout + added.stderr
    return CLASS


def command(*words: str) -> subprocess.CompletedProcess[str]:
    given = [sys.executable, "-m", "devcluster", *words]
    return subprocess.run(given, cwd=ROOT, capture_output=True, text=True, check=False)


@pytest.fixture
def volume(portal: ClusteredPortal, ann: Person, storage: str) -> str:
    """The path of a volume of ann's that can be copied, of one try."""
    key = named("copied")
    offered = {
        "key": key,
        "name": key,
        "backing_kind": "storage-class",
        "options": {"storage_class": storage, "snapshot_class": storage},
        "can_snapshot": True,
        "clusters": [KEY],
    }
    with portal.api(portal.token("admin")) as api:
        ok(api.post("volume-classes", json=offered))
    wanted = {"name": f"{key}-sets", "size_mib": 1024, "volume_class": key, "cluster": KEY}
    path = f"projects/demo/volumes/{ok(ann.api.post('projects/demo/volumes', json=wanted)).json()['id']}"
    until(lambda: ok(ann.api.get(path)).json()["can_snapshot"], LATE_S)
    return path


def another(portal: ClusteredPortal, person: Person, kind: str, storage_class: str) -> str:
    """The path of a volume of 1 GiB of another class, when it is there."""
    key = named(kind)
    offered = {
        "key": key,
        "name": key,
        "backing_kind": "storage-class",
        "options": {"storage_class": storage_class},
        "clusters": [KEY],
    }
    with portal.api(portal.token("admin")) as api:
        ok(api.post("volume-classes", json=offered))
    wanted = {"name": f"{key}-set", "size_mib": 1024, "volume_class": key, "cluster": KEY}
    made = ok(person.api.post("projects/demo/volumes", json=wanted)).json()
    path = f"projects/demo/volumes/{made['id']}"
    until(lambda: ok(person.api.get(path)).json()["phase"] == "running", LATE_S)
    return path


@contextlib.contextmanager
def browsing(person: Person, volume: str) -> Any:
    """Its files, until nobody has it mounted any more."""
    with contextlib.closing(opened(person, volume)) as http:
        yield http
    assert person.api.delete(f"{volume}/files").status_code == 204
    until(lambda: not ok(person.api.get(volume)).json()["mounted"], LATE_S)


def zipped(files: dict[str, str]) -> bytes:
    kept = io.BytesIO()
    with zipfile.ZipFile(kept, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return kept.getvalue()


def test_what_was_extracted_in_a_pod_is_copied_and_put_back(
    ann: Person, volume: str, kube: Kube
) -> None:
    uid = volume.rpartition("/")[2]
    archive = zipped({"in/one": "old", "two": "2"})
    with browsing(ann, volume) as http:
        ok(http.put("file", params={"path": "a.zip"}, content=archive))
        said = ok(http.post("extract", json={"path": "a.zip"})).text.splitlines()
        done = json.loads(said[-1])["done"]
        assert (done["name"], done["files"], done["bytes"], done["left_out"]) == ("a", 2, 4, [])
    copy = ok(ann.api.post(f"{volume}/snapshots", json={"name": "first"})).json()
    place = f"{volume}/snapshots/{copy['id']}"
    until(lambda: ok(ann.api.get(place)).json()["phase"] == "running", LATE_S)
    (there,) = kube.list(f"{GROUP}/v1", "VolumeSnapshot", labelSelector=f"{names.UID}={copy['id']}")
    assert there["status"]["readyToUse"]
    assert ok(ann.api.get(place)).json()["size_bytes"] == 2**30

    before = claim_of(kube, uid)
    with contextlib.closing(opened(ann, volume)) as http:
        ok(http.post("delete", json={"paths": ["a/in/one", "a/two"]}))
        ok(http.put("file", params={"path": "a/in/one"}, content=b"new"))
        ok(ann.api.post(f"{place}/restore"))  # what only looks at files makes way
    until(lambda: not ok(ann.api.get(volume)).json()["restoring"], LATE_S)
    after = claim_of(kube, uid)
    assert after["metadata"]["uid"] != before["metadata"]["uid"]
    with browsing(ann, volume) as http:
        texts = [ok(http.get("file", params={"path": f"a/{n}"})).text for n in ("in/one", "two")]
        assert texts == ["old", "2"]

    made = [before["spec"]["volumeName"], after["spec"]["volumeName"]]
    assert ann.api.delete(place).status_code == 202
    until(lambda: ann.api.get(place).status_code == 404, LATE_S)
    assert (
        kube.get(f"{GROUP}/v1", "VolumeSnapshot", there["metadata"]["name"], space(there)) is None
    )
    ok(ann.api.delete(volume))
    ok(ann.api.post(f"{volume}/purge"))
    until(lambda: ann.api.get(volume).status_code == 404, LATE_S)
    until(lambda: not any(kube.get("v1", "PersistentVolume", name) for name in made), LATE_S)
    # the copy's own folder goes after its object
    mine = (*made, *of(there))
    until(lambda: not [item for item in left() if any(name in item for name in mine)], LATE_S)


def claim_of(kube: Kube, uid: str) -> dict[str, Any]:
    (found,) = kube.list("v1", "PersistentVolumeClaim", labelSelector=f"{names.UID}={uid}")
    return found


def space(thing: dict[str, Any]) -> str:
    return str(thing["metadata"]["namespace"])


def of(snapshot: dict[str, Any]) -> list[str]:
    """What the storage calls it: by its uid."""
    return [str(snapshot["metadata"]["uid"])]


def left() -> list[str]:
    """The folders of the storage itself."""
    base = Layout.usual().base / "storage"
    return [item.name for kind in ("volumes", "snapshots") for item in (base / kind).iterdir()]


# --- growing ----------------------------------------------------------------------------------------


@pytest.fixture
def growing(portal: ClusteredPortal, ann: Person, storage: str, kube: Kube) -> str:
    """One of 1 GiB for each test, and each try of it."""
    path = another(portal, ann, "growing", storage)
    until(lambda: capacity(kube, path) == "1Gi", LATE_S)
    return path


def capacity(kube: Kube, path: str) -> str:
    """Return what the storage gave, as the cluster has it."""
    claim = claim_of(kube, path.rpartition("/")[2])
    return str((claim.get("status") or {}).get("capacity", {}).get("storage", ""))


def resize(person: Person, path: str, size_mib: int) -> dict[str, Any]:
    found: dict[str, Any] = ok(person.api.patch(path, json={"size_limit_mib": size_mib})).json()
    return found


def settled(person: Person, path: str) -> dict[str, Any]:
    """Return it as soon as nothing of the last wish is under way."""

    def look() -> Any:
        row = ok(person.api.get(path)).json()
        seen = row["observed_generation"] == row["generation"]
        return row if seen and not row["growing"] else None

    found: dict[str, Any] = until(look, LATE_S)
    return found


def stored(path: str, kube: Kube) -> int:
    """Return the size that the driver itself noted."""
    name = claim_of(kube, path.rpartition("/")[2])["spec"]["volumeName"]
    handle = kube.get("v1", "PersistentVolume", name)["spec"]["csi"]["volumeHandle"]
    return int((Layout.usual().base / "storage/volumes" / handle / "size").read_text())


def test_a_volume_grows_under_the_workspace_that_has_it_mounted(
    ann: Person, growing: str, kube: Kube, portal: ClusteredPortal
) -> None:
    row = ann.launch(name="on-it", volumes=[growing.rpartition("/")[2]])
    try:
        assert ok(ann.api.get(growing)).json()["mounted"] == 1
        begun = claim_of(kube, growing.rpartition("/")[2])["metadata"]["uid"]
        said = resize(ann, growing, 3072)
        assert (said["size_limit_mib"], said["can_grow"]) == (3072, True)
        until(lambda: capacity(kube, growing) == "3Gi", LATE_S)
        said = settled(ann, growing)
        found = [said[name] for name in ("size_limit_mib", "phase", "message", "growth_refused")]
        assert found == [3072, "running", "", ""]
        claim = claim_of(kube, growing.rpartition("/")[2])
        assert claim["metadata"]["uid"] == begun
        assert stored(growing, kube) == 3 * 2**30
        shown = ann.open(f"{portal.url}/{growing}/").text
        assert "3\N{NO-BREAK SPACE}GiB" in shown
        now = ok(ann.api.get(f"{BASE}/{row['id']}")).json()
        assert now["status"]["phase"] == "running"
    finally:
        ok(ann.api.delete(f"{BASE}/{row['id']}"))
        until(lambda: ann.api.get(f"{BASE}/{row['id']}").status_code == 404, LATE_S)


@pytest.mark.parametrize(
    ("wish", "why"),
    [
        (2**32, "exceeded quota"),  # of the namespace, told by the API server
        (10**8, "the whole disk holds"),  # told by the driver through the resizer
    ],
)
def test_what_can_never_be_given_is_taken_back_and_less_is_given(
    ann: Person, growing: str, kube: Kube, wish: int, why: str
) -> None:
    before = settled(ann, growing)["size_limit_mib"]
    resize(ann, growing, wish)
    until(lambda: ok(ann.api.get(growing)).json()["growth_refused"], LATE_S)
    said = settled(ann, growing)
    assert (said["size_limit_mib"], said["phase"]) == (before, "running")
    assert why in said["growth_refused"]
    assert "ask an operator" in said["growth_refused"]
    resize(ann, growing, before + 1024)
    until(lambda: capacity(kube, growing) == f"{before // 1024 + 1}Gi", LATE_S)
    said = settled(ann, growing)
    assert (said["size_limit_mib"], said["growth_refused"]) == (before + 1024, "")


@pytest.fixture
def late_class(kube: Kube, storage: str) -> Iterator[str]:
    """A copy of the class whose volumes are made only for their first pod."""
    found = kube.get("storage.k8s.io/v1", "StorageClass", storage)
    late = {key: value for key, value in found.items() if key != "metadata"}
    kube.apply({**late, "metadata": {"name": LATE}, "volumeBindingMode": "WaitForFirstConsumer"})
    yield LATE
    kube.delete("storage.k8s.io/v1", "StorageClass", LATE)


def test_one_that_waits_for_its_first_pod_grows_once_it_has_one(
    ann: Person, portal: ClusteredPortal, late_class: str, kube: Kube
) -> None:
    """The API server lets only bound claims grow, and nothing binds it but what mounts it."""
    path = another(portal, ann, "late", late_class)
    resize(ann, path, 2048)
    said = until(lambda: (row := ok(ann.api.get(path)).json())["growing"] and row, LATE_S)
    assert (said["phase"], "used it once" in said["message"]) == ("running", True)
    assert capacity(kube, path) == ""
    row = ann.launch(name="first", volumes=[path.rpartition("/")[2]])
    try:
        until(lambda: capacity(kube, path) == "2Gi", LATE_S)
        assert settled(ann, path)["size_limit_mib"] == 2048
    finally:
        ok(ann.api.delete(f"{BASE}/{row['id']}"))
        until(lambda: ann.api.get(f"{BASE}/{row['id']}").status_code == 404, LATE_S)


def test_a_class_that_does_not_grow_is_told_before_and_else_after(
    ann: Person, portal: ClusteredPortal, storage: str, kube: Kube
) -> None:
    del storage
    path = another(portal, ann, "fixed", FIXED)
    wish = {"size_limit_mib": 2048}
    until(lambda: ok(ann.api.get(path)).json()["can_grow"] is False, LATE_S)
    answer = ann.api.patch(path, json=wish)
    assert (answer.status_code, "can't be made larger" in answer.json()["detail"]) == (400, True)
    assert "can't be made larger" in ann.open(f"{portal.url}/{path}/settings/").text.replace(
        "&#x27;", "'"
    )

    uid = path.rpartition("/")[2]

    def is_accepted() -> bool:
        """As if the class had been changed on the cluster since the engine looked."""
        portal.shell(
            "from volumes.models import Volume\n"
            f"Volume.objects.filter(uid={uid!r}).update(abilities={{}})\nanswer = True"
        )
        return not ann.api.patch(path, json=wish).is_error

    # the engine may look again in between, and may take the wish back before it is answered
    until(is_accepted, LATE_S)
    until(lambda: ok(ann.api.get(path)).json()["growth_refused"], LATE_S)
    said = settled(ann, path)
    assert (said["size_limit_mib"], said["phase"]) == (1024, "running")
    assert "only dynamically provisioned pvc can be resized" in said["growth_refused"]
    held = portal.shell(
        "from quotas.models import Reservation\n"
        f"rows = Reservation.objects.filter(workload_uid={uid!r})\n"
        "answer = list(rows.values_list('resource', 'amount'))"
    )
    assert [list(one) for one in held] == [["storage_mib", 1024]]
    assert (capacity(kube, path), stored(path, kube)) == ("1Gi", 2**30)


# --- near -------------------------------------------------------------------------------------------


def test_g7_work_goes_where_its_cache_stands_and_follows_it(
    portal: ClusteredPortal, loads: ClusterLoads, bucket: str, store: VersityS3, kube: Kube
) -> None:
    """By the real scheduler: each pool is one of many nodes that would all do."""
    east, west = idle(kube)
    to_east, to_west = named("east"), named("west")
    with portal.api(portal.token("admin")) as api:
        for pool, node in ((to_east, east), (to_west, west)):
            body = {
                "name": pool,
                "node_labels": {"kubernetes.io/hostname": node},
                "tolerations": [SIMULATED],
                "flavors": [FLAVOR],
            }
            ok(api.post(f"clusters/{KEY}/pools", json=body))
        stands = f"volume-classes/standard-{KEY}"
        ok(api.patch(stands, json={"near": [f"{KEY}/{to_east}"]}))
        row = loads.create(
            url=f"s3://{bucket}/images",
            credential="lake",
            volume=f"cache:{to_east}",
            cache_size_mib=1024,
        )
        done = loads.until(row, "done", "failed", "partial")
        assert done["status"]["state"] == "done", done["status"]
        found = digests(loads.folder(done))
        assert {k: v for k, v in found.items() if k[0] != "."} == contents(store, bucket)
        cache = str(done["spec"]["volume"])
        assert chosen(loads, kube, cache) == east
        ok(api.patch(stands, json={"near": [f"{KEY}/{to_west}"]}))
        assert chosen(loads, kube, cache) == west


def idle(kube: Kube) -> list[str]:
    """Two simulated nodes of one kind with nothing on them."""
    busy = {pod["spec"].get("nodeName") for pod in kube.list("v1", "Pod")}
    nodes = kube.list("v1", "Node", labelSelector=f"type=kwok,{PRODUCT}")
    free = sorted(node["metadata"]["name"] for node in nodes)
    found = [name for name in free if name not in busy]
    return found[-2:]


def chosen(loads: ClusterLoads, kube: Kube, cache: str) -> str:
    """Return the node of a workspace with that cache and a GPU, that names no pool."""
    size = {"cluster": KEY, "cpu_milli": 1000, "memory_mib": 1024, "gpus": 1, "gpu_flavor": FLAVOR}
    row = ok(loads.api.post(BASE, json={**size, "name": named("near"), "volumes": [cache]})).json()

    def node() -> Any:
        pods = kube.list("v1", "Pod", labelSelector=f"{names.UID}={row['uid']}")
        return pods and pods[0]["spec"].get("nodeName")

    found = str(until(node, LATE_S))
    ok(loads.api.delete(f"{BASE}/{row['id']}"))
    until(lambda: loads.api.get(f"{BASE}/{row['id']}").status_code == 404, LATE_S)
    return found
