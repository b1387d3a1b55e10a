"""Endpoints on a cluster: KServe makes the pods, Kueue lets each in, Berth says how many."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest

from devcluster import serving_images
from devcluster.kube import Kube
from runtime.drivers.kubernetes import names
from tests.cluster.conftest import KUEUE, managing_queues
from tests.serving.server import debian_torch, make_sample, make_slow
from tests.support import torch
from tests.support.clustered import KEY, ClusteredPortal, ok, pinned

pytestmark = [pytest.mark.cluster, pytest.mark.pods, pytest.mark.real, pytest.mark.timeout(400)]
WITHIN_S = 150.0
KSERVE = "inferenceservices.serving.kserve.io"
_VERSION = """
from serving.models import Model, ModelVersion
from volumes.models import Volume
volume = Volume.objects.get(uid={uid!r})
model, _made = Model.objects.get_or_create(project=volume.project, name={name!r})
for name in ("v1", "v2"):
    ModelVersion.objects.create(model=model, name=name, framework={framework!r}, source="volume",
        origin="volume:models/{name}", volume=volume, folder={name!r})
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


class Store:
    """A volume of the project there; the node is this machine."""

    def __init__(self, portal: ClusteredPortal, api: httpx.Client, kube: Kube) -> None:
        self.portal = portal
        said = {"name": "models", "size_mib": 1024, "cluster": KEY}
        self.uid = ok(api.post("projects/demo/volumes", json=said)).json()["id"]
        volume = _until(lambda: kube.get("v1", "PersistentVolume", names.volume(self.uid)))
        self.folder = Path(volume["spec"]["hostPath"]["path"])
        _until(self.folder.is_dir)

    def registered(self, name: str, framework: str, made: Path) -> None:
        """Copy a model there; two versions have the same files."""
        shutil.copytree(made, self.folder / name)
        for path in (self.folder / name, *(self.folder / name).rglob("*")):
            path.chmod(0o755 if path.is_dir() else 0o644)
        self.portal.shell(_VERSION.format(uid=self.uid, name=name, framework=framework))


@pytest.fixture(scope="module")
def store(portal: ClusteredPortal, api: httpx.Client, kube: Kube) -> Store:
    return Store(portal, api, kube)


@pytest.fixture(scope="module")
def sample(store: Store, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A scikit-learn model in the project there, with what it predicts."""
    made = tmp_path_factory.mktemp("sample")
    told = make_sample("sklearn", made)
    store.registered("digits", "sklearn", made)
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


def predicts(address: str, sample: dict[str, Any], model: str = "digits") -> None:
    answer = httpx.post(
        f"http://{address}/v1/models/{model}:predict",
        json={"instances": sample["instances"]},
        timeout=30,
    )
    assert answer.status_code == 200, answer.text
    for said, wanted in zip(answer.json()["predictions"], sample["predictions"], strict=True):
        assert said == pytest.approx(wanted, abs=1e-5)


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
    predicts(served.ready(1)[0], sample)
    let_in = kube.list(KUEUE, "Workload", space_of(portal, kube))
    classes = {one["spec"]["priorityClassRef"]["name"] for one in let_in}
    assert classes == {f"{portal.prefix}inference"}
    ranks = {
        one["metadata"]["name"]: one["value"]
        for one in kube.list(KUEUE, "WorkloadPriorityClass")
        if one["metadata"]["name"].startswith(portal.prefix)
    }
    inference = ranks.pop(f"{portal.prefix}inference")
    assert ranks
    assert inference > max(ranks.values())
    assert {one["spec"]["priority"] for one in let_in} == {inference}
    served.delete()


def test_files_of_a_version_are_read_by_themselves_in_a_pod(
    api: httpx.Client, sample: dict[str, Any]
) -> None:
    """Looked at by the file browser's pod, then read by a job's, as whoever registered them."""
    ok(api.post("projects/demo/models", json={"name": "flowers"}))
    versions = "projects/demo/models/flowers/versions"
    ok(api.post(versions, json={"origin": "volume:models/digits"}))

    row: dict[str, Any] = {}

    def read() -> bool:
        row.update(api.get(f"{versions}/v1").json())
        assert row["files"] != "failed", row
        return row["read"] in {"done", "failed"}

    try:
        _until(read, 300)
    except AssertionError as error:
        jobs = api.get("projects/demo/jobs").json()["results"]
        error.add_note(f"{row}\n{[job['status'] for job in jobs]}")
        raise
    assert (row["read"], row["read_message"], row["framework"]) == ("done", "", "sklearn")
    assert row["digest"].startswith("sha256:")
    (taken,) = row["signature"]["inputs"]
    assert taken["shape"] == [-1, len(sample["instances"][0])]
    jobs = api.get("projects/demo/jobs").json()["results"]
    assert not [job for job in jobs if job["name"].startswith("read-")]


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
    predicts(served.ready(1)[0], sample)
    assert served.look()["launch"] == 2
    served.delete()


@pytest.mark.long("each framework by itself: serving/test_real_model_server.py")
@pytest.mark.timeout(900)
def test_tensorflow_and_pytorch_answer_from_pods(
    portal: ClusteredPortal, api: httpx.Client, store: Store, tmp_path: Path
) -> None:
    """Their images are made now: TensorFlow's 394 MiB packed, PyTorch beside it Debian's."""
    images = {
        **portal.options["serving_images"],
        "serving-tensorflow": pinned(serving_images.publish("serving-tensorflow")),
        "serving-pytorch": pinned(torch.server_image()),
    }
    ok(api.patch(f"clusters/{KEY}", json={"options": {"serving_images": images}}))
    bare, env = debian_torch()
    for name, told in {
        "tensorflow": make_sample("tensorflow", tmp_path / "tensorflow", "serving-tensorflow"),
        "pytorch": make_sample("pytorch", tmp_path / "pytorch", command=[bare], env=env),
    }.items():
        store.registered(name, name, tmp_path / name)
        served = Served(portal, api, name=name, model=f"{name}/v1", memory_mib=2048)
        predicts(served.ready(1)[0], told, name)
        served.delete()


class Load:
    """People who call through the gateway, one request after the other, each with its answer."""

    def __init__(self, url: str, key: str, seconds: float) -> None:
        self.url, self.key, self.seconds = url, key, seconds
        self.answered, self.wrong = 0, list[str]()
        self.people = 0
        self._threads: list[Thread] = []

    def call(self, people: int) -> None:
        """Have so many call from now on."""
        self.people = people
        for number in range(len(self._threads), people):
            self._threads.append(Thread(target=self._call, args=(number,), daemon=True))
            self._threads[-1].start()

    def _call(self, number: int) -> None:
        with httpx.Client(headers={"Authorization": f"Bearer {self.key}"}, timeout=60) as http:
            while number < self.people:
                said = self.seconds + number / 1000
                try:
                    answer = http.post(self.url, json={"instances": [[said]]})
                except httpx.HTTPError as error:
                    self.wrong.append(repr(error))
                    continue
                if answer.status_code != 200 or answer.json()["predictions"] != [said]:
                    self.wrong.append(answer.text[:200])
                self.answered += 1

    def end(self) -> None:
        self.people = 0
        for thread in self._threads:
            thread.join(60)


@pytest.mark.long("the rule: serving/test_scaling.py; pods: test_one_three_one_sleeps_and_wakes")
def test_load_through_the_gateway_makes_one_three_and_one_again_and_loses_no_answer(
    portal: ClusteredPortal, api: httpx.Client, store: Store, tmp_path: Path
) -> None:
    store.registered("slow", "sklearn", make_slow(tmp_path / "slow"))
    served = Served(portal, api, name="loaded", model="slow/v1", max_replicas=3, concurrency=2)
    served.ready(1)
    key = ok(api.post(f"{served.at}/keys", json={"name": "load"})).json()["key"]
    at = f"http://127.0.0.1:{portal.port + 7}/e/demo/loaded/v1/models/slow:predict"
    load = Load(at, key, seconds=0.2)
    asked: dict[str, Any] = {"headers": {"Authorization": f"Bearer {key}"}, "timeout": 30}
    # a new key is known within a second
    _until(lambda: httpx.post(at, json={"instances": [[0]]}, **asked).status_code == 200, 10)
    try:
        load.call(8)
        addresses = served.ready(3)
        before = load.answered
        _until(lambda: load.answered >= before + 60)
        # each took its part: what they counted themselves
        shares = [answers_of(httpx.get(f"http://{one}/metrics").text) for one in addresses]
        assert min(shares) >= 10, shares
        load.call(1)
        served.ready(1)
        before = load.answered
        _until(lambda: load.answered >= before + 5)
    finally:
        load.end()
    assert load.answered > 100
    assert load.wrong == []
    served.delete()


def answers_of(metrics: str) -> float:
    lines = [line for line in metrics.splitlines() if line.startswith("berth_model_answers_total")]
    return sum(float(line.rpartition(" ")[2]) for line in lines)
