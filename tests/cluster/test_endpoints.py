"""Endpoints on a cluster: KServe makes the pods, Kueue lets each in, Berth says how many."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from threading import Event, Thread
from typing import Any

import httpx
import pytest

from devcluster import serving_images
from devcluster.kube import Kube
from tests.cluster.conftest import KUEUE
from tests.cluster.endpoints import Load, Served, Store, predicts, serving_portal, space_of, until
from tests.serving.server import debian_torch, make_sample, make_slow
from tests.support import torch
from tests.support.clustered import KEY, ClusteredPortal, ok, pinned

pytestmark = [pytest.mark.cluster, pytest.mark.real, pytest.mark.timeout(400)]
NEAR_S = 8.0  # between what pods ran and what is counted, over three changes of size
_PRESS = """
from datetime import timedelta
from common.clock import now
from serving.models import Endpoint
row = Endpoint.objects.get(short_id={id!r})
told = {{"answering": {answering}, "seen_at": now() + timedelta(minutes=5)}}
row.pressures.update_or_create(gateway="test", defaults=told)
answer = True
"""
_USED = """
from usage.models import Interval
from serving.models import Endpoint
row = Endpoint.objects.get(short_id={id!r})
parts = list(Interval.objects.filter(uid=row.uid).order_by("part"))
sizes = [one.cpu_milli // row.cpu_milli for one in parts]
lasted = [(one.ended_at - one.started_at).total_seconds() for one in parts]
answer = [sizes, sum(n * s for n, s in zip(sizes, lasted))]
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
    with serving_portal(devcluster, kube, "ep") as running:
        yield running


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
        until(read, 300)
    except AssertionError as error:
        jobs = api.get("projects/demo/jobs").json()["results"]
        error.add_note(f"{row}\n{[job['status'] for job in jobs]}")
        raise
    assert (row["read"], row["read_message"], row["framework"]) == ("done", "", "sklearn")
    assert row["digest"].startswith("sha256:")
    (taken,) = row["signature"]["inputs"]
    assert taken["shape"] == [-1, len(sample["instances"][0])]

    def left() -> list[str]:
        jobs = api.get("projects/demo/jobs").json()["results"]
        return [job["name"] for job in jobs if job["name"].startswith("read-")]

    until(lambda: not left())  # it told all, and goes with its pod


class Ran(Thread):
    """Adds up how long pods of a row ran and were not told to go, as the API server says it."""

    def __init__(self, kube: Kube, uid: str) -> None:
        super().__init__(daemon=True)
        self.kube, self.uid, self.seconds = kube, uid, 0.0
        self._over = Event()

    def run(self) -> None:
        before = time.monotonic()
        while not self._over.wait(0.5):
            found = self.kube.list("v1", "Pod", labelSelector=f"berth.dev/uid={self.uid}")
            live = [one for one in found if "deletionTimestamp" not in one["metadata"]]
            states = [(one["status"].get("containerStatuses") or [{}])[0] for one in live]
            at = time.monotonic()
            self.seconds += sum("running" in one.get("state", {}) for one in states) * (at - before)
            before = at

    def end(self) -> float:
        self._over.set()
        self.join(30)
        return self.seconds


@pytest.mark.long("replicas of pods: drivers/kubernetes/test_serving_on_a_cluster.py")
def test_one_three_one_sleeps_and_wakes(
    portal: ClusteredPortal, api: httpx.Client, kube: Kube, sample: dict[str, Any]
) -> None:
    served = Served(portal, api, name="wide", model="digits/v1", max_replicas=3, concurrency=2)
    ran = Ran(kube, served.uid)
    ran.start()
    served.ready(1)
    served.shell(_PRESS, answering=6)
    for address in served.ready(3):
        predicts(address, sample)
    ok(api.patch(served.at, json={"max_replicas": 1}))
    served.ready(1)
    served.shell(_PRESS, answering=0)
    served.shell(_SLEEP)
    until(lambda: served.look()["status"]["state"] == "asleep")
    sizes, seconds = served.shell(_USED)
    assert (sizes, abs(seconds - ran.end()) < NEAR_S) == ([1, 3, 1], True), (seconds, ran.seconds)
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
    until(lambda: httpx.post(at, json={"instances": [[0]]}, **asked).status_code == 200, 10)
    try:
        load.call(8)
        addresses = served.ready(3)
        before = load.answered
        until(lambda: load.answered >= before + 60)
        # each took its part: what they counted themselves
        shares = [answers_of(httpx.get(f"http://{one}/metrics").text) for one in addresses]
        assert min(shares) >= 10, shares
        load.call(1)
        served.ready(1)
        before = load.answered
        until(lambda: load.answered >= before + 5)
    finally:
        load.end()
    assert load.answered > 100
    assert load.wrong == []
    served.delete()


def answers_of(metrics: str) -> float:
    lines = [line for line in metrics.splitlines() if line.startswith("berth_model_answers_total")]
    return sum(float(line.rpartition(" ")[2]) for line in lines)
