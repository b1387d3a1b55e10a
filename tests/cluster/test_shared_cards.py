"""L4, L5: cards of an extra network by the number of GPUs, on a real scheduler with simulated nodes."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from devcluster.fleet import FAKE, VIRTUAL_FUNCTIONS
from devcluster.kube import Kube
from tests.cluster.test_people_in_pods import pod_of
from tests.cluster.visitors import BASE, Person, portal_of_people, until
from tests.support.cluster_state import lacking
from tests.support.clustered import KEY, ClusteredPortal, ok

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.real,
    pytest.mark.timeout(600),
    pytest.mark.long("what is asked for: clusters/test_network_cards.py"),
]
LATE_S = 180.0
ATTACHMENT = "kube-system/rdma"
NETWORKS = "k8s.v1.cni.cncf.io/networks"
PRODUCT, GPU = "nvidia.com/gpu.product", "nvidia.com/gpu"
SIMULATED = [{"key": FAKE, "operator": "Exists", "effect": "NoSchedule"}]
# as many cards as GPUs, fewer of them, none
POOLS = {
    "wide": "NVIDIA-H100-80GB-HBM3",
    "narrow": "NVIDIA-A100-SXM4-80GB",
    "bare": "NVIDIA-A100-SXM4-40GB",
}


@pytest.fixture(scope="module")
def portal(devcluster: dict[str, Any], kube: Kube) -> Iterator[ClusteredPortal]:
    has = (kube.get("v1", "Node", "h100-80-00") or {}).get("status", {}).get("allocatable", {})
    if VIRTUAL_FUNCTIONS not in has:
        lacking("simulated nodes with virtual functions of cards")
    with portal_of_people(devcluster, "net") as running:
        with running.api(running.token("admin")) as admin:
            for name, product in POOLS.items():
                pool = {"name": name, "node_labels": {PRODUCT: product}, "tolerations": SIMULATED}
                ok(admin.post(f"clusters/{KEY}/pools", json=pool))
            network = {
                "name": "rdma",
                "attachment": ATTACHMENT,
                "resource": VIRTUAL_FUNCTIONS,
                "pools": ["wide", "narrow"],
                "env": {"NCCL_IB_DISABLE": "0"},
            }
            ok(admin.post(f"clusters/{KEY}/networks", json=network))
            kinds = {"h100-80", "a100-80", "a100-40"}
            until(
                lambda: (
                    kinds <= {k["name"] for k in ok(admin.get(f"clusters/{KEY}")).json()["gpus"]}
                ),
                LATE_S,
            )
        yield running


def asked(person: Person, pool: str, gpus: int, network: str = "rdma") -> dict[str, Any]:
    return {
        "kind": "container",
        "cluster": KEY,
        "name": f"n-{secrets.token_hex(2)}",
        "image": person.portal.state["images"]["tool"]["reference"],
        "command": ["sleep", "600"],
        "gpus": gpus,
        "pool": pool,
        "network": network,
        "cpu_milli": 1000,
        "memory_mib": 1024,
    }


def node_of(kube: Kube, row: dict[str, Any]) -> dict[str, Any]:
    found = kube.get("v1", "Node", pod_of(kube, row)["spec"]["nodeName"])
    assert found is not None
    return found


def gone(person: Person, row: dict[str, Any]) -> None:
    ok(person.api.delete(f"{BASE}/{row['id']}"))
    until(lambda: person.api.get(f"{BASE}/{row['id']}").status_code == 404, LATE_S)


@pytest.mark.parametrize(("pool", "gpus"), [("wide", 4), ("narrow", 4), ("narrow", 1)])
def test_l4_work_gets_a_card_for_each_gpu_and_is_placed_where_they_are(
    ann: Person, kube: Kube, pool: str, gpus: int
) -> None:
    row = ann.settle(ok(ann.api.post(BASE, json=asked(ann, pool, gpus))).json())
    pod = pod_of(kube, row)
    assert pod["metadata"]["annotations"][NETWORKS] == ",".join([ATTACHMENT] * gpus)
    main = next(c for c in pod["spec"]["containers"] if c["name"] == "main")
    for side in ("requests", "limits"):
        held = {name: main["resources"][side][name] for name in (VIRTUAL_FUNCTIONS, GPU)}
        assert held == {VIRTUAL_FUNCTIONS: str(gpus), GPU: str(gpus)}
    assert node_of(kube, row)["metadata"]["labels"][PRODUCT] == POOLS[pool]
    gone(ann, row)


def test_l4_more_cards_than_a_node_of_the_pool_has_are_waited_for_with_the_plain_reason(
    ann: Person, kube: Kube
) -> None:
    row = ok(ann.api.post(BASE, json=asked(ann, "narrow", 8))).json()
    path = f"{BASE}/{row['id']}"

    def look() -> Any:
        now = ann.api.get(path).json()["status"]
        return now if now["reason"] == "no-such-node" else None

    told = until(look, LATE_S)
    assert told["phase"] == "pending"
    assert VIRTUAL_FUNCTIONS in told["message"]  # not the GPUs: of these a node has eight
    assert GPU not in told["message"]
    assert not pod_of(kube, row)["spec"].get("nodeName")
    gone(ann, row)


def test_l4_the_same_work_without_the_network_is_placed_there(ann: Person, kube: Kube) -> None:
    row = ann.settle(ok(ann.api.post(BASE, json=asked(ann, "narrow", 8, network=""))).json())
    pod = pod_of(kube, row)
    assert NETWORKS not in pod["metadata"].get("annotations", {})
    assert VIRTUAL_FUNCTIONS not in str(pod["spec"])
    gone(ann, row)


def test_l4_without_a_pool_it_goes_where_the_network_is(ann: Person, kube: Kube) -> None:
    row = ann.settle(ok(ann.api.post(BASE, json=asked(ann, "", 1))).json())
    assert VIRTUAL_FUNCTIONS in node_of(kube, row)["status"]["allocatable"]
    gone(ann, row)


def test_l5_a_pool_without_such_cards_refuses_before_anything_is_made(
    ann: Person, kube: Kube
) -> None:
    before = len(ann.api.get(BASE).json()["results"])
    answer = ann.api.post(BASE, json=asked(ann, "bare", 1))
    assert answer.status_code == 400, answer.text
    assert "bare" in answer.text
    assert "rdma" in answer.text
    assert len(ann.api.get(BASE).json()["results"]) == before
