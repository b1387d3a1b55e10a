"""G13 and C14 with the whole portal: a node is lost, seen, said, and its job goes on elsewhere.

The node that is lost is one that kwok plays; where the job goes on is the real one.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

import pytest

from devcluster.fleet import FAKE
from devcluster.kube import Kube
from tests.cluster.visitors import Person, portal_of_people, until
from tests.jobs.running import Jobs
from tests.support.cluster_state import lacking
from tests.support.clustered import KEY, ClusteredPortal, ok

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.real,
    pytest.mark.timeout(900),
    pytest.mark.long(
        "a node's time-outs; what is told: drivers/kubernetes/test_on_a_cluster.py, "
        "jobs/test_losses.py"
    ),
]
WITHIN_S = 180.0
LABEL = f"lost.test/{secrets.token_hex(3)}"
LOST = f"lost-{secrets.token_hex(3)}"
# Writes a checkpoint and fails the first time; after that it says with what it begins.
SCRIPT = """
cd "$BERTH_CHECKPOINTS"
if [ -e .latest ]; then echo "begins with $(cat .latest/step)"; exec sleep 600; fi
mkdir .new; echo 7 > .new/step; mv .new step-7; exit 3
"""


@pytest.fixture(scope="module")
def portal(devcluster: dict[str, Any]) -> Iterator[ClusteredPortal]:
    if "kwok" not in devcluster["programs"]:
        lacking("simulated nodes")
    with portal_of_people(devcluster, "lost") as running:
        yield running


@pytest.fixture
def node(devcluster: dict[str, Any], kube: Kube) -> Iterator[str]:
    """The real one, which has the label of the pool only when a test gives it."""
    try:
        yield devcluster["node"]
    finally:
        label(kube, devcluster["node"], None)
        kube.delete("v1", "Node", LOST)


def label(kube: Kube, name: str, value: str | None) -> None:
    kube.patch(f"/api/v1/nodes/{name}", {"metadata": {"labels": {LABEL: value}}})


def stand(kube: Kube) -> None:
    """Make the node that is to be lost; kwok plays its kubelet for now."""
    room = {"cpu": "4", "memory": "4Gi", "pods": "10", "ephemeral-storage": "10Gi"}
    kube.create(
        {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {
                "name": LOST,
                "labels": {LABEL: "yes", "kubernetes.io/hostname": LOST, "type": LOST},
                "annotations": {FAKE: "fake"},
            },
            "spec": {"taints": [{"key": FAKE, "value": "fake", "effect": "NoSchedule"}]},
            "status": {"capacity": room, "allocatable": room},
        }
    )


def lose(kube: Kube, uid: str) -> None:
    """Nobody plays it any more: its controller calls it silent, and its pods not ready.

    Done again and again: kwok may say once or twice more that it is not.
    """
    kube.patch(f"/api/v1/nodes/{LOST}", {"metadata": {"annotations": {FAKE: None}}})
    silent = {"type": "Ready", "status": "Unknown", "reason": "NodeStatusUnknown"}
    silent["lastTransitionTime"] = "2026-11-27T01:02:03Z"
    kube.patch(f"/api/v1/nodes/{LOST}/status", {"status": {"conditions": [silent]}})
    for pod in kube.list("v1", "Pod", labelSelector=f"berth.dev/uid={uid}"):
        meta = pod["metadata"]
        if pod["spec"].get("nodeName") == LOST and "deletionTimestamp" not in meta:
            told = [c for c in pod["status"]["conditions"] if c["type"] != "Ready"]
            said = {"status": {"conditions": [*told, {"type": "Ready", "status": "False"}]}}
            kube.patch(f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/status", said)


def test_g13_a_job_of_a_lost_node_is_told_replaced_and_goes_on_from_its_checkpoint(
    portal: ClusteredPortal, ann: Person, kube: Kube, node: str, devcluster: dict[str, Any]
) -> None:
    with portal.api(portal.token("admin")) as api:
        tolerated = [{"key": FAKE, "operator": "Exists", "effect": "NoSchedule"}]
        pool = {"name": "two", "node_labels": {LABEL: "yes"}, "tolerations": tolerated}
        ok(api.post(f"clusters/{KEY}/pools", json=pool))
    jobs = Jobs(portal, owner="ann")
    label(kube, node, "yes")
    said = {"name": "keeps", "cluster": KEY, "pool": "two", "cpu_milli": 250, "memory_mib": 256}
    said |= {"command": ["bash", "-c", SCRIPT], "checkpoints": "shared/runs"}
    said |= {"image": devcluster["images"]["tool"]["reference"]}
    with portal.api(portal.token("ann")) as api:
        one = ok(api.post("projects/demo/jobs", json=said)).json()["id"]
        at = f"projects/demo/jobs/{one}"
        assert jobs.until(one, "failed")["exit_code"] == 3  # its checkpoint is written
        label(kube, node, None)
        stand(kube)
        ok(api.post(f"{at}/start"))
        found = jobs.until(one, "running")
        assert [replica["node"] for replica in found["replicas"]] == [LOST]

        def status() -> dict[str, Any]:
            lose(kube, found["uid"])
            told: dict[str, Any] = ok(api.get(at)).json()["status"]
            return told

        told = until(lambda: (now := status())["reason"] == "node-lost" and now, WITHIN_S)
        assert LOST in told["message"]
        page = ann.open(f"{portal.url}/projects/demo/jobs/{one}/").text
        assert "Its node does not answer any more." in page
        label(kube, node, "yes")
        gone = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}
        kube.patch(f"/api/v1/nodes/{LOST}", {"spec": {"taints": [gone]}})  # its operator
        found = until(lambda: status() and _runs_at(jobs, one, node), WITHIN_S)
        until(lambda: jobs.logs(found, 1)[0] == "begins with 7\n", WITHIN_S)
        latest = ok(api.get(f"{at}/runs")).json()["results"][0]
        assert [place["nodes"] for place in latest["places"]] == [[LOST], [node]]
        ok(api.post(f"{at}/cancel"))
        jobs.until(one, "cancelled")


def _runs_at(jobs: Jobs, one: str, node: str) -> dict[str, Any] | None:
    found = jobs.look(one)
    nodes = [replica["node"] for replica in found["replicas"]]
    return found if (found["state"], nodes) == ("running", [node]) else None
