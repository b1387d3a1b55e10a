"""Models that mean harm, are wrong or too large, and images that are not there: on real pods."""

from __future__ import annotations

import json
import pickle
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from clusters.registry import REVISION_EVERY_S
from devcluster.kube import Kube
from tests.cluster.endpoints import Served, Store, serving_portal, until
from tests.cluster.pods import is_ready, pod
from tests.serving.server import make_sample
from tests.support.clustered import ClusteredPortal, ok

pytestmark = [pytest.mark.cluster, pytest.mark.real, pytest.mark.timeout(400)]
SIZE_MIB = 384
# A model that is a program: told where, it says who it is, what it can write and whom it reaches.
SPY = """
import json, os, socket, types
from concurrent.futures import ThreadPoolExecutor
import numpy
def writes(path):
    try:
        open(path, "w").close()
    except OSError:
        return False
    return True
def reaches(target):
    host, port = target.rsplit(":", 1)
    try:
        socket.create_connection((host, int(port)), timeout=3).close()
    except OSError:
        return False
    return True
def found(rows):
    with ThreadPoolExecutor(16) as pool:
        open_to_it = list(pool.map(reaches, TARGETS))
    said = {
        "uid": os.getuid(),
        "account": os.path.exists("/var/run/secrets/kubernetes.io"),
        "writes": [path for path in PLACES if writes(path)],
        "reaches": [target for target, is_open in zip(TARGETS, open_to_it) if is_open],
        "memory": open("/sys/fs/cgroup/memory.max").read().strip()
        if os.path.exists("/sys/fs/cgroup/memory.max")
        else open("/sys/fs/cgroup/memory/memory.limit_in_bytes").read().strip(),
    }
    return numpy.array([json.dumps(said)] * len(rows))
model = types.SimpleNamespace(n_features_in_=1, predict=found)
"""
GREEDY = "model = [b'x' * 2**20 for _ in range(4096)]"
PLACES = ("/x", "/etc/x", "/usr/x", "/opt/serving/x", "/home/berth/x", "/var/tmp/x", "/run/x")


class Program:
    """Unpickled it is whatever ``model`` is once its code has run."""

    def __init__(self, code: str) -> None:
        self.code = code

    def __reduce__(self) -> Any:
        return eval, (f"(lambda its: (exec({self.code!r}, its), its['model'])[1])({{}})",)


@pytest.fixture(scope="module")
def portal(devcluster: dict[str, Any], kube: Kube) -> Iterator[ClusteredPortal]:
    with serving_portal(devcluster, kube, "hm") as running:
        yield running


@pytest.fixture(scope="module")
def store(portal: ClusteredPortal, api: httpx.Client, kube: Kube) -> Store:
    return Store(portal, api, kube)


def a_program(store: Store, name: str, code: str, folder: Path) -> None:
    folder.mkdir()
    (folder / "model.pkl").write_bytes(pickle.dumps(Program(code)))
    store.registered(name, "sklearn", folder)


def test_c5_c8_a_model_that_is_a_program_is_the_tenants_and_reaches_nobody(
    portal: ClusteredPortal,
    api: httpx.Client,
    store: Store,
    kube: Kube,
    devcluster: dict[str, Any],
    namespace: str,
    tmp_path: Path,
) -> None:
    tool, host = devcluster["images"]["tool"]["reference"], devcluster["host"]
    listens = ["python3", "-m", "http.server", "8080"]
    probe = {"tcpSocket": {"port": 8080}, "periodSeconds": 1}
    kube.create(pod(namespace, "other", tool, command=listens, readinessProbe=probe))
    other = until(lambda: is_ready(a := kube.get("v1", "Pod", "other", namespace)) and a)
    theirs = f"{other['status']['podIP']}:8080"
    assert httpx.get(f"http://{theirs}").is_success  # by whoever may
    targets = [theirs, f"{host}:6443", "10.96.0.1:443", f"{host}:10250", "169.254.169.254:80"]
    targets += [f"{host}:{portal.port}", f"{host}:{portal.port + 7}"]
    places = [*PLACES, "/volumes/models/spy/x", "/tmp/x"]
    a_program(store, "spy", f"TARGETS, PLACES = {targets!r}, {places!r}\n{SPY}", tmp_path / "spy")
    served = Served(portal, api, name="spy", model="spy/v1", memory_mib=SIZE_MIB)
    (address,) = served.ready(1)
    answer = httpx.post(
        f"http://{address}/v1/models/spy:predict", json={"instances": [[1]]}, timeout=60
    )
    assert answer.status_code == 200, answer.text
    said = json.loads(answer.json()["predictions"][0])
    assert said == {
        "uid": 1000,
        "account": False,
        "writes": ["/tmp/x"],
        "reaches": [],
        "memory": str(SIZE_MIB * 2**20),
    }
    served.delete()


@pytest.mark.long("three starts; one machine: serving/test_real_endpoints.py test_d5")
def test_c14_a_model_that_needs_more_memory_fails_with_that_reason_and_leaves_nothing(
    portal: ClusteredPortal, api: httpx.Client, store: Store, kube: Kube, tmp_path: Path
) -> None:
    a_program(store, "greedy", GREEDY, tmp_path / "greedy")
    served = Served(portal, api, name="greedy", model="greedy/v1", memory_mib=SIZE_MIB)
    told = served.failed(300)  # three starts, on a busy machine
    assert (told["reason"], "more memory" in told["advice"]) == ("oom", True), told
    until(lambda: not kube.list("v1", "Pod", labelSelector=f"berth.dev/uid={served.uid}"))
    log = ok(api.get(f"{served.at}/logs")).text
    assert len(log) < 10_000
    served.delete()


def test_a_model_of_another_framework_fails_with_the_sentence_that_names_both(
    portal: ClusteredPortal, api: httpx.Client, store: Store, tmp_path: Path
) -> None:
    make_sample("sklearn", tmp_path / "made")
    (tmp_path / "made/model.joblib").rename(tmp_path / "made/model.json")
    store.registered("odd", "xgboost", tmp_path / "made")
    served = Served(portal, api, name="odd", model="odd/v1")
    told = served.failed()
    assert told["reason"] == "exit", told
    (log,) = ok(api.get(f"{served.at}/logs")).json()["text"].splitlines()  # it was tried once
    assert log.startswith("berth: model.json is a pickle, which XGBoost does not read."), log
    served.delete()


@pytest.mark.long(
    "two minutes; the reason: drivers/kubernetes/test_serving_on_a_cluster.py test_c14"
)
def test_c14_an_image_that_is_not_there_is_told_within_a_minute_and_is_not_tried_for_ever(
    portal: ClusteredPortal,
    api: httpx.Client,
    store: Store,
    devcluster: dict[str, Any],
    tmp_path: Path,
) -> None:
    a_program(store, "nowhere", "model = None", tmp_path / "nowhere")
    image = f"{devcluster['registry']}/berth/no-such-model-server:1"
    options = {**portal.options["serving_images"], "serving": image}
    ok(api.patch("clusters/dev", json={"options": {"serving_images": options}}))
    time.sleep(REVISION_EVERY_S)  # its processes learn of it within this time
    try:
        served = Served(portal, api, name="nowhere", model="nowhere/v1")
        told = until(
            lambda: (a := served.look()["status"])["reason"] == "image-not-found" and a, 60
        )
        assert "no-such-model-server" in json.dumps(told)
        told = served.failed(200)
        assert told["reason"] == "image-not-found", told
        served.delete()
    finally:
        own = {"serving_images": portal.options["serving_images"]}
        ok(api.patch("clusters/dev", json={"options": own}))
