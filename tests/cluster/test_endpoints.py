"""Endpoints on a cluster: KServe makes the pods, Kueue lets each in, Berth says how many."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from devcluster import serving_images
from devcluster.kube import Kube
from runtime.drivers.kubernetes import names
from tests.cluster.conftest import KUEUE, managing_queues
from tests.serving.server import make_sample
from tests.support.clustered import KEY, ClusteredPortal, ok, pinned

pytestmark = [pytest.mark.cluster, pytest.mark.pods, pytest.mark.real, pytest.mark.timeout(400)]
WITHIN_S = 150.0
KSERVE = "inferenceservices.serving.kserve.io"
_VERSIONS = """
from serving.models import Model, ModelVersion
from volumes.models import Volume
volume = Volume.objects.get(uid={uid!r})
model = Model.objects.create(project=volume.project, name="digits")
for name in ("v1", "v2"):
    ModelVersion.objects.create(model=model, name=name, framework="sklearn", source="volume",
        origin="volume:models/digits", volume=volume, folder="digits")
answer = True
"""
_PRESS = """
from datetime import timedelta
from common.clock import now
from serving.models import Endpoint
row = Endpoint.objects.get(short_id={id!r})
told = {{"answering": {answering}, "seen_at": now() + timedelta(minutes=5)}}
row.pressures.update_or_create(gateway="test", defaults=told)
answer = True
"""
_SLEEP = """
from datetime import timedelta
from common.clock import now
from serving.models import Endpoint
long_ago = now() - timedelta(hours=1)
Endpoint.objects.filter(short_id={id!r}).update(ready_at=long_ago, sleep_after_minutes=1)
answer = True
"""
_WAKE = """
from serving.models import Endpoint
from serving.services import endpoint_wake
answer = endpoint_wake(Endpoint.objects.get(short_id={id!r}).pk)
"""


@pytest.fixture(scope="module")
def portal(devcluster: dict[str, Any], kube: Kube) -> Iterator[ClusteredPortal]:
    if not kube.get("apiextensions.k8s.io/v1", "CustomResourceDefinition", KSERVE):
        pytest.skip("The cluster has no KServe: python -m devcluster kserve")
    images = {"serving": pinned(serving_images.publish("serving"))}
    with managing_queues(devcluster, kube, "ep", serving_images=images) as running:
        yield running


@pytest.fixture(scope="module")
def api(portal: ClusteredPortal) -> Iterator[httpx.Client]:
    with portal.api(portal.token("admin")) as client:
        yield client


@pytest.fixture(scope="module")
def sample(
    portal: ClusteredPortal,
    api: httpx.Client,
    kube: Kube,
    tmp_path_factory: pytest.TempPathFactory,
) -> dict[str, Any]:
    """A scikit-learn model in a volume of the project there, with what it predicts."""
    made = tmp_path_factory.mktemp("sample") / "digits"
    told = make_sample("sklearn", made)
    said = {"name": "models", "size_mib": 1024, "cluster": KEY}
    uid = ok(api.post("projects/demo/volumes", json=said)).json()["id"]
    volume = _until(lambda: kube.get("v1", "PersistentVolume", names.volume(uid)))
    folder = Path(volume["spec"]["hostPath"]["path"])
    _until(folder.is_dir)
    shutil.copytree(made, folder / "digits")
    for path in (folder / "digits", *(folder / "digits").iterdir()):
        path.chmod(0o755 if path.is_dir() else 0o644)
    portal.shell(_VERSIONS.format(uid=uid))
    return told


def _until(found: Callable[[], Any], within_s: float = WITHIN_S) -> Any:
    deadline = time.monotonic() + within_s
    while time.monotonic() < deadline:
        if answer := found():
            return answer
        time.sleep(0.2)
    raise AssertionError(f"not within {within_s:.0f} s")


class Served:
    """An endpoint of the demonstration's project, looked at through the API."""

    def __init__(self, portal: ClusteredPortal, api: httpx.Client, **said: Any) -> None:
        self.portal, self.api = portal, api
        size = {"cpu_milli": 2000, "memory_mib": 512}
        row = ok(api.post("projects/demo/endpoints", json={**size, **said})).json()
        assert row["spec"]["cluster"] == KEY  # where its files are
        self.id, self.at = row["id"], f"projects/demo/endpoints/{row['id']}"

    def look(self) -> dict[str, Any]:
        return dict(self.api.get(self.at).json())

    def ready(self, replicas: int) -> list[str]:
        def found() -> list[str] | None:
            told = self.look()
            assert told["status"]["state"] != "failed", told["status"]
            addresses = [one["address"] for one in told["replica_states"] if one["address"]]
            whole = len(addresses) == len(told["replica_states"]) == replicas
            return addresses if whole and told["status"]["state"] == "ready" else None

        return list(_until(found))

    def shell(self, code: str, **said: Any) -> Any:
        return self.portal.shell(code.format(id=self.id, **said))

    def delete(self) -> None:
        ok(self.api.delete(self.at))
        _until(lambda: self.api.get(self.at).status_code == 404)


def predicts(address: str, sample: dict[str, Any]) -> None:
    answer = httpx.post(
        f"http://{address}/v1/models/digits:predict",
        json={"instances": sample["instances"]},
        timeout=30,
    )
    assert answer.json()["predictions"] == sample["predictions"], answer.text


def space_of(portal: ClusteredPortal, kube: Kube) -> str:
    """The project's namespace, by what KServe was asked for there."""
    served = kube.list("serving.kserve.io/v1beta1", "InferenceService")
    spaces = {one["metadata"]["namespace"] for one in served}
    (space,) = (name for name in spaces if name.startswith(portal.prefix))
    return str(space)


def test_a_version_answers_from_a_pod_that_kueue_let_in_as_inference(
    portal: ClusteredPortal, api: httpx.Client, kube: Kube, sample: dict[str, Any]
) -> None:
    served = Served(portal, api, name="digits", model="digits/v1")
    predicts(*served.ready(1), sample)
    let_in = kube.list(KUEUE, "Workload", space_of(portal, kube))
    classes = {one["spec"]["priorityClassRef"]["name"] for one in let_in}
    assert classes == {f"{portal.prefix}inference"}
    served.delete()


@pytest.mark.long("replicas of pods: drivers/kubernetes/test_serving_on_a_cluster.py")
def test_one_three_one_sleeps_and_wakes(
    portal: ClusteredPortal, api: httpx.Client, kube: Kube, sample: dict[str, Any]
) -> None:
    served = Served(portal, api, name="wide", model="digits/v1", max_replicas=3, concurrency=2)
    served.ready(1)
    served.shell(_PRESS, answering=6)
    for address in served.ready(3):
        predicts(address, sample)
    ok(api.patch(served.at, json={"max_replicas": 1}))
    served.ready(1)
    served.shell(_PRESS, answering=0)
    served.shell(_SLEEP)
    _until(lambda: served.look()["status"]["state"] == "asleep")
    assert not kube.list("v1", "Pod", space_of(portal, kube))
    assert served.shell(_WAKE) == ""
    predicts(*served.ready(1), sample)
    assert served.look()["launch"] == 2
    served.delete()
