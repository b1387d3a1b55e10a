"""PyTorchJob and TFJob of the training operator, where operators of the portal chose them."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from typing import Any

import pytest

from benchmarks.lib import poll
from clusters.registry import REVISION_EVERY_S
from devcluster import training
from devcluster.kube import Kube
from tests.cluster.conftest import KUEUE, managing_queues
from tests.cluster.test_training import ALL_REDUCE, ends, gang, owned
from tests.jobs.running import Jobs
from tests.support.cluster_state import lacking
from tests.support.clustered import KEY, ClusteredPortal

pytestmark = [pytest.mark.cluster, pytest.mark.real, pytest.mark.timeout(300)]

API = "kubeflow.org/v1"
_FOUND = """
from clusters.models import Cluster
answer = {"pytorchjob", "tfjob"} <= set(Cluster.objects.get(key=%r).operators)
"""


@pytest.fixture(scope="module")
def portal(devcluster: dict[str, Any], kube: Kube) -> Iterator[ClusteredPortal]:
    kinds = ("pytorchjobs.kubeflow.org", "tfjobs.kubeflow.org")
    if not all(kube.get("apiextensions.k8s.io/v1", "CustomResourceDefinition", k) for k in kinds):
        lacking("training operator (python -m devcluster training)", is_built=training.has())
    with managing_queues(devcluster, kube, "to", training_operator=True) as running:
        poll(lambda: running.shell(_FOUND % KEY), within_s=60, every_s=0.5)
        time.sleep(REVISION_EVERY_S)  # its processes learn of it within this time
        yield running


@pytest.fixture(scope="module")
def jobs(portal: ClusteredPortal, devcluster: dict[str, Any]) -> Jobs:
    tool = devcluster["images"]["tool"]["reference"]
    size: dict[str, Any] = {"cpu_milli": 100, "memory_mib": 256}
    return Jobs(portal, owner="admin", cluster_key=KEY, image=tool, **size)


def test_a_pytorchjob_sums_up_over_its_replicas_after_one_of_them_was_started_again(
    jobs: Jobs, kube: Kube
) -> None:
    fails_once = 'import os\nif os.environ["RANK"] == "2" and not os.path.exists("/dev/shm/x"):\n'
    fails_once += '    open("/dev/shm/x", "w").close(); os._exit(3)\n'
    one = jobs.make(
        "allreduce",
        framework="pytorch",
        replicas=3,
        retries=2,
        command=["python3", "-c", fails_once + ALL_REDUCE],
    )
    found = jobs.until(one, "succeeded")
    assert [text.split() for text in jobs.logs(found, 3)] == [
        [str(n), "3", "3", str(n), "3"] for n in range(3)
    ]
    assert ends(found) == [("master", "exited", 0), *[("worker", "exited", 0)] * 2]
    assert [one["restarts"] for one in found["replicas"]] == [0, 0, 1]
    (made,) = owned(kube, found, API, "PyTorchJob")
    assert gang(kube, made) == [3]


def test_a_tfjob_tells_each_role_its_place_and_ends_with_its_chief(jobs: Jobs, kube: Kube) -> None:
    stay = "ps|evaluator) exec tini sleep 600;; chief) sleep 6;"
    script = f'echo "$TF_CONFIG"; case $BERTH_ROLE in {stay} esac'
    one = jobs.make(
        "roles",
        framework="tensorflow",
        replicas=4,
        evaluator=True,
        parameter_servers=1,
        command=["bash", "-c", script],
    )
    found = jobs.until(one, "succeeded")
    told = [json.loads(text) for text in jobs.logs(found, 3)]
    tasks = [(one["task"]["type"], one["task"]["index"]) for one in told]
    assert tasks == [("chief", 0), ("worker", 0), ("worker", 1)]
    sizes = {role: len(places) for role, places in told[0]["cluster"].items()}
    # This operator writes TF_CONFIG itself, and lists the evaluator in it.
    assert sizes == {"chief": 1, "worker": 2, "evaluator": 1, "ps": 1}
    roles = ["chief", "worker", "worker", "evaluator", "ps"]
    assert [one["role"] for one in found["replicas"]] == roles
    (made,) = owned(kube, found, API, "TFJob")
    assert gang(kube, made) == [1, 1, 2, 1]  # chief, servers, workers, evaluator
    alive = [p for p in owned(kube, found, "v1", "Pod") if p["status"]["phase"] == "Running"]
    assert alive == []


def test_a_replica_that_has_used_its_attempts_up_is_named_and_ends_the_others(jobs: Jobs) -> None:
    script = '[ "$RANK" = 1 ] && exit 7; exec tini sleep 600'
    one = jobs.make("dead", framework="pytorch", replicas=2, command=["bash", "-c", script])
    found = jobs.until(one, "failed")
    assert (found["exit_code"], found["failed_replica"]) == (7, 1)
    assert {one["seen"] for one in found["replicas"]} == {"exited"}


def test_put_out_it_is_let_in_again_and_cancelled_leaves_no_pod(jobs: Jobs, kube: Kube) -> None:
    one = jobs.make("long", framework="pytorch", replicas=2, command=["tini", "sleep", "3600"])
    running = jobs.until(one, "running")
    before = {p["metadata"]["uid"] for p in owned(kube, running, "v1", "Pod")}
    (made,) = owned(kube, running, API, "PyTorchJob")
    (workload,) = [
        one
        for one in kube.list(KUEUE, "Workload", made["metadata"]["namespace"])
        if one["metadata"]["ownerReferences"][0]["uid"] == made["metadata"]["uid"]
    ]
    meta = {"name": workload["metadata"]["name"], "namespace": made["metadata"]["namespace"]}

    def let_in(*, active: bool) -> None:
        head = {"apiVersion": KUEUE, "kind": "Workload", "metadata": meta}
        kube.apply({**head, "spec": {"active": active}})

    def pods() -> set[str]:
        return {pod["metadata"]["uid"] for pod in owned(kube, running, "v1", "Pod")}

    let_in(active=False)
    poll(lambda: not pods(), within_s=100, every_s=0.3)
    let_in(active=True)
    poll(lambda: len(pods() - before) == 2, within_s=100, every_s=0.3)
    jobs.until(one, "running")
    jobs.stop(one)
    found = jobs.until(one, "cancelled")
    alive = [p for p in owned(kube, found, "v1", "Pod") if p["status"]["phase"] == "Running"]
    assert (alive, [r["seen"] for r in found["replicas"]]) == ([], ["exited"] * 2)
