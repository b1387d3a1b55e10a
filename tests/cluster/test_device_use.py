"""A17: what devices do, from real exporters on the cluster, for two kinds with different words."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from devcluster.kube import Kube
from tests.cluster.pods import is_ready, pod
from tests.cluster.visitors import BASE, Person, portal_of_people, until
from tests.support.clustered import KEY, ClusteredPortal, ok

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.real,
    pytest.mark.timeout(1200),
    pytest.mark.long(
        "minutes of sampling; the same words from exporters: drivers/kubernetes/test_exporters.py"
    ),
]
NPU = "example.org/npu"  # no program of ours has heard of it
SAMPLED_WITHIN_S = 300.0
WAIT = ["bash", "-c", "trap 'exit 0' TERM; sleep 3600 & wait"]
# An exporter as people write them: figures with labels, given as JSON.
EXPORTER = """
import json, sys, threading
from prometheus_client import Gauge, start_http_server
for name, rows in json.loads(sys.argv[2]).items():
    gauge = Gauge(name, "of a device", sorted(rows[0][0]))
    for labels, value in rows:
        gauge.labels(**labels).set(float(value))
start_http_server(int(sys.argv[1]))
threading.Event().wait()
"""
SOURCE = {
    "pods": "app=npu-exporter",
    "port": "9999",
    "utilisation": "npu_core_ratio",
    "utilisation_unit": "ratio",
    "memory": "npu_hbm_bytes",
    "memory_unit": "bytes",
    "pod_label": "k8s_pod",
    "namespace_label": "k8s_namespace",
    "device_labels": "card",
}


@pytest.fixture(scope="module")
def npus(kube: Kube, devcluster: dict[str, Any]) -> Iterator[None]:
    """The node offers two devices of a kind of its own, as a device plugin would say."""
    path = f"/api/v1/nodes/{devcluster['node']}/status"
    key = NPU.replace("/", "~1")

    def patch(act: dict[str, Any]) -> None:
        kube.request("PATCH", path, json=[act], headers={"Content-Type": JSON_PATCH})

    patch({"op": "add", "path": f"/status/capacity/{key}", "value": "2"})
    yield
    patch({"op": "remove", "path": f"/status/capacity/{key}"})


JSON_PATCH = "application/json-patch+json"


@pytest.fixture(scope="module")
def portal(devcluster: dict[str, Any], npus: None) -> Iterator[ClusteredPortal]:
    with portal_of_people(devcluster, "use") as running:
        with running.api(running.token("admin")) as admin:
            here = {"kubernetes.io/hostname": devcluster["node"]}
            ok(admin.post(f"clusters/{KEY}/pools", json={"name": "real", "node_labels": here}))
            kind = {"name": "npu", "resource": NPU, "use_source": SOURCE}
            labels = {name: [value] for name, value in here.items()}
            ok(admin.post("flavors", json={**kind, "node_labels": labels}))
        yield running


def launched(person: Person, name: str, **devices: Any) -> dict[str, Any]:
    return person.launch(
        kind="container",
        name=name,
        image=person.portal.state["images"]["tool"]["reference"],
        command=WAIT,
        cpu_milli=100,
        memory_mib=256,
        pool="real",
        **devices,
    )


def place_of(kube: Kube, row: dict[str, Any]) -> tuple[str, str]:
    (found,) = kube.list("v1", "Pod", labelSelector=f"berth.dev/uid={row['uid']}")
    return found["metadata"]["namespace"], found["metadata"]["name"]


def exporter(
    kube: Kube, state: dict[str, Any], namespace: str, app: str, port: int, figures: Any
) -> None:
    command = ["python3", "-c", EXPORTER, str(port), json.dumps(figures)]
    image = state["images"]["jupyterlab"]["reference"]
    probe = {"tcpSocket": {"port": port}, "periodSeconds": 1}
    kube.apply(
        pod(
            namespace,
            app,
            image,
            command=command,
            labels={"app": app},
            readinessProbe=probe,
            nodeName=state["node"],
        )
    )
    kube.until(app, lambda: is_ready(kube.get("v1", "Pod", app, namespace)))


def last(person: Person, row: dict[str, Any]) -> dict[str, Any]:
    samples = ok(person.api.get(f"{BASE}/{row['id']}/usage")).json()
    return samples[-1] if samples else {}


def test_a17_two_kinds_of_device_are_read_by_their_own_words(
    ann: Person, kube: Kube, namespace: str, devcluster: dict[str, Any]
) -> None:
    gpu, npu = launched(ann, "gpu", gpus=1), launched(ann, "npu", gpus=2, gpu_flavor="npu")
    (space, gpu_pod), (_, npu_pod) = place_of(kube, gpu), place_of(kube, npu)

    def dcgm(uuid: str, name: str, where: str = space) -> dict[str, str]:
        return {"UUID": uuid, "namespace": where, "pod": name, "Hostname": "someone-else"}

    def card(number: int) -> dict[str, str]:
        return {"card": str(number), "k8s_namespace": space, "k8s_pod": npu_pod}

    foreign = dcgm("GPU-2", gpu_pod, "another-tenant")
    util = [(dcgm("GPU-1", gpu_pod), 63), (foreign, 99)]
    used = [(dcgm("GPU-1", gpu_pod), 1500), (foreign, 9999)]
    figures = {"DCGM_FI_DEV_GPU_UTIL": util, "DCGM_FI_DEV_FB_USED": used}
    exporter(kube, devcluster, namespace, "nvidia-dcgm-exporter", 9400, figures)
    ratios = [(card(0), 0.25), (card(1), 0.75)]
    # what one of two cards says can't be, so the memory of both is unknown
    memory = [(card(0), 2**31), (card(1), "NaN")]
    figures = {"npu_core_ratio": ratios, "npu_hbm_bytes": memory}
    exporter(kube, devcluster, namespace, "npu-exporter", 9999, figures)

    def known(row: dict[str, Any]) -> Any:
        return (found := last(ann, row)).get("gpu_utilisation") is not None and found

    sample = until(lambda: known(gpu), SAMPLED_WITHIN_S)
    assert (sample["gpu_utilisation"], sample["gpu_memory_mib"]) == (63.0, 1500)
    sample = until(lambda: known(npu), SAMPLED_WITHIN_S)
    assert (sample["gpu_utilisation"], sample["gpu_memory_mib"]) == (50.0, None)
    for row in (gpu, npu):
        ok(ann.api.delete(f"{BASE}/{row['id']}"))
