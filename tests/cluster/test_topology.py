"""Levels of a topology on the real Kueue (C13, A10, L6): simulated nodes, the whole portal.

Two units of two racks of two hosts of eight devices, for these tests alone.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from clusters.registry import REVISION_EVERY_S
from devcluster import training
from devcluster.fleet import FAKE
from devcluster.kube import Kube
from tests.cluster.conftest import managing_queues
from tests.cluster.visitors import until
from tests.support.cluster_state import lacking
from tests.support.clustered import KEY, ClusteredPortal, ok

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]
WITHIN_S = 180.0
MARK = f"topology-{secrets.token_hex(2)}"
UNIT, RACK = "topology.test/unit", "topology.test/rack"
GPU = "nvidia.com/gpu"


def stand(number: int) -> dict[str, Any]:
    name = f"{MARK}-{number}"
    capacity = {"cpu": "64", "memory": "512Gi", "pods": "110", "ephemeral-storage": "1Ti", GPU: "8"}
    labels = {
        "type": MARK,
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "nvidia.com/gpu.product": MARK,
        UNIT: f"unit-{number // 4}",
        RACK: f"rack-{number % 4 // 2}",  # of one name in both units
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": {FAKE: "fake"}},
        "spec": {"taints": [{"key": FAKE, "value": "fake", "effect": "NoSchedule"}]},
        "status": {"capacity": capacity, "allocatable": capacity},
    }


@pytest.fixture(scope="module")
def nodes(devcluster: dict[str, Any], kube: Kube) -> Iterator[dict[str, tuple[str, str]]]:
    """Return unit and rack of each host."""
    if "kwok" not in devcluster["programs"]:
        lacking("simulated nodes")
    made = [stand(number) for number in range(8)]
    try:
        for one in made:
            kube.create(one)
        yield {
            one["metadata"]["name"]: (
                one["metadata"]["labels"][UNIT],
                one["metadata"]["labels"][RACK],
            )
            for one in made
        }
    finally:
        for one in made:
            kube.delete("v1", "Node", one["metadata"]["name"])


@pytest.fixture(scope="module")
def portal(
    devcluster: dict[str, Any], kube: Kube, nodes: dict[str, Any]
) -> Iterator[ClusteredPortal]:
    with managing_queues(devcluster, kube, "to", unit_label=UNIT, rack_label=RACK) as running:
        yield running


@pytest.fixture(scope="module")
def api(portal: ClusteredPortal) -> Iterator[httpx.Client]:
    with portal.api(portal.token("admin")) as client:
        pool = {
            "name": "simulated",
            "node_labels": {"type": MARK},
            "tolerations": [{"key": FAKE, "operator": "Exists", "effect": "NoSchedule"}],
        }
        ok(client.post(f"clusters/{KEY}/pools", json=pool))
        until(lambda: kinds(client).get(MARK) == 64, WITHIN_S)
        yield client


@pytest.fixture(scope="module")
def operators(portal: ClusteredPortal, api: httpx.Client) -> None:
    """Its processes know which operators of training the cluster has."""
    asked = (
        f"from clusters.models import Cluster\nanswer = Cluster.objects.get(key={KEY!r}).operators"
    )
    until(lambda: portal.shell(asked), WITHIN_S)
    if not {"trainer", "jobset", "mpi"} <= set(portal.shell(asked)):
        lacking("operators of training (python -m devcluster training)", is_built=training.has())
    time.sleep(REVISION_EVERY_S)


def kinds(client: httpx.Client) -> dict[str, int]:
    found: dict[str, int] = {}
    for node in ok(client.get(f"clusters/{KEY}/nodes", params={"page_size": 200})).json()[
        "results"
    ]:
        for kind, count in node["gpus"].items():
            found[kind] = found.get(kind, 0) + count
    return found


class Gangs:
    """Jobs of eight GPUs for each replica, by the API."""

    def __init__(self, portal: ClusteredPortal, api: httpx.Client, image: str) -> None:
        self._portal, self._api = portal, api
        self._asks = {
            "image": image,
            "cluster": KEY,
            "pool": "simulated",
            "gpu_flavor": MARK,
            "gpus": 8,
            "cpu_milli": 1000,
            "memory_mib": 1024,
        }
        self.made: list[str] = []

    def ask(self, replicas: int, **said: Any) -> dict[str, Any]:
        return {**self._asks, "replicas": replicas, **said}

    def start(self, replicas: int, **said: Any) -> str:
        made = ok(self._api.post("projects/demo/jobs", json=self.ask(replicas, **said))).json()
        self.made.append(made["id"])
        return str(made["id"])

    def look(self, one: str) -> dict[str, Any]:
        found: dict[str, Any] = ok(self._api.get(f"projects/demo/jobs/{one}")).json()
        return found

    def state(self, one: str) -> str:
        return str(self.look(one)["status"]["state"])

    def hosts(self, one: str) -> list[str]:
        return [r["node"] for r in self.look(one)["replicas"] if r["node"]]

    def runs(self, one: str, replicas: int) -> list[str]:
        try:
            until(lambda: len(self.hosts(one)) == replicas, WITHIN_S)
        except AssertionError as error:
            raise AssertionError(f"{self.look(one)}\n{self._portal.tail()}") from error
        return self.hosts(one)

    def stop(self, one: str) -> None:
        ok(self._api.post(f"projects/demo/jobs/{one}/cancel"))

    def clear(self) -> None:
        for one in self.made:
            if self.state(one) != "cancelled":
                self.stop(one)
        until(lambda: all(self.state(one) == "cancelled" for one in self.made), WITHIN_S)
        self.made.clear()


@pytest.fixture
def gangs(
    portal: ClusteredPortal, api: httpx.Client, devcluster: dict[str, Any]
) -> Iterator[Gangs]:
    made = Gangs(portal, api, devcluster["images"]["tool"]["reference"])
    yield made
    made.clear()


def test_l6_a_required_unit_holds_all_of_a_job(
    gangs: Gangs, nodes: dict[str, tuple[str, str]]
) -> None:
    first = gangs.runs(gangs.start(1), 1)[0]
    whole = gangs.start(4, topology="required", topology_level="unit")
    units = {nodes[host][0] for host in gangs.runs(whole, 4)}
    assert len(units) == 1
    assert nodes[first][0] not in units  # the half-used unit would hold three of them
    pair = gangs.start(2, topology="required", topology_level="rack")
    assert len({nodes[host] for host in gangs.runs(pair, 2)}) == 1
    waits = gangs.start(4, topology="required", topology_level="unit")
    said = "the freest scalable unit has room for"
    try:
        until(lambda: said in str(gangs.look(waits)["wait"]), WITHIN_S)
    except AssertionError as error:
        raise AssertionError(gangs.look(waits)) from error
    assert not gangs.hosts(waits)


@pytest.mark.parametrize("framework", ["pytorch", "tensorflow", "mpi"])
def test_l6_all_roles_of_a_training_stand_in_the_unit_that_is_required(
    gangs: Gangs, nodes: dict[str, tuple[str, str]], operators: None, framework: str
) -> None:
    """The half-used unit would hold the leader, or the three others: never all of them."""
    first = gangs.runs(gangs.start(1), 1)[0]
    said = {"framework": framework, "command": ["train"]}
    whole = gangs.start(4, topology="required", topology_level="unit", **said)
    units = {nodes[host][0] for host in gangs.runs(whole, 4)}
    assert len(units) == 1
    assert nodes[first][0] not in units


def test_l6_what_fits_no_unit_is_told_before_it_is_submitted(
    gangs: Gangs, api: httpx.Client
) -> None:
    asks = gangs.ask(5, topology="required", topology_level="unit")
    plan = ok(api.post("projects/demo/jobs", json=asks, params={"plan": 1})).json()
    assert "40 GPUs are asked for, and the largest holds 32" in str(plan), plan


def test_c13_two_gangs_that_fit_by_half_never_hold_each_other(gangs: Gangs) -> None:
    """Each wants five of eight hosts: one runs whole, the other has nothing, then it is its turn."""
    both = [gangs.start(5), gangs.start(5)]
    until(lambda: any(len(gangs.hosts(one)) == 5 for one in both), WITHIN_S)
    for _look in range(10):
        held = sorted(len(gangs.hosts(one)) for one in both)
        assert held == [0, 5], held
    ran = next(one for one in both if gangs.hosts(one))
    (other,) = (one for one in both if one != ran)
    gangs.stop(ran)
    gangs.runs(other, 5)


def test_work_that_says_nothing_of_levels_runs_on_nodes_that_have_none(
    gangs: Gangs, api: httpx.Client
) -> None:
    """Its kind has hosts only: no node of it carries the labels."""
    nodes = ok(api.get(f"clusters/{KEY}/nodes", params={"page_size": 200})).json()["results"]
    (kind,) = next(node["gpus"] for node in nodes if node["name"] == "node1")
    one = gangs.start(1, gpus=1, gpu_flavor=kind, pool="")
    assert gangs.runs(one, 1) == ["node1"]
