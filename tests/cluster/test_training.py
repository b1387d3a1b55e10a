"""Training on several replicas by the operators of a cluster: each role told, seen, and stopped."""

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
from tests.jobs.running import Jobs
from tests.support import torch
from tests.support.cluster_state import cluster_state, lacking
from tests.support.clustered import KEY, ClusteredPortal

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.real,
    pytest.mark.timeout(300),
]

# Sums the numbers of all replicas at the first one, and tells the sum to all.
ALL_REDUCE = """
import os, socket, time
rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
where = (os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"]))
if rank == 0:
    with socket.create_server(("", where[1])) as server:
        others = [server.accept()[0] for _ in range(size - 1)]
        total = sum(int(one.recv(16)) for one in others)
        for one in others:
            one.sendall(str(total).encode())
else:
    for _ in range(1200):
        try:
            with socket.create_connection(where, 5) as one:
                one.sendall(str(rank).encode())
                total = int(one.recv(16))
            break
        except OSError:
            time.sleep(0.1)
print(rank, size, total, os.environ["PET_NODE_RANK"], os.environ["PET_NNODES"])
"""


_OPERATORS = """
from clusters.models import Cluster
answer = Cluster.objects.get(key={key!r}).operators
"""


@pytest.fixture(scope="module")
def portal(devcluster: dict[str, Any], kube: Kube) -> Iterator[ClusteredPortal]:
    kinds = ("trainjobs.trainer.kubeflow.org", "mpijobs.kubeflow.org", "jobsets.jobset.x-k8s.io")
    if not all(kube.get("apiextensions.k8s.io/v1", "CustomResourceDefinition", k) for k in kinds):
        lacking("operators of training (python -m devcluster training)", is_built=training.has())
    with managing_queues(devcluster, kube, "tr") as running:
        poll(lambda: running.shell(_OPERATORS.format(key=KEY)), within_s=60, every_s=0.5)
        time.sleep(REVISION_EVERY_S)  # its processes learn of it within this time
        yield running


@pytest.fixture(scope="module")
def jobs(portal: ClusteredPortal, devcluster: dict[str, Any]) -> Jobs:
    tool = devcluster["images"]["tool"]["reference"]
    size: dict[str, Any] = {"cpu_milli": 100, "memory_mib": 256}
    return Jobs(portal, owner="admin", cluster_key=KEY, image=tool, **size)


def owned(kube: Kube, found: dict[str, Any], version: str, kind: str) -> list[dict[str, Any]]:
    return list(kube.list(version, kind, labelSelector=f"berth.dev/uid={found['uid']}"))


def gang(kube: Kube, made: dict[str, Any]) -> list[int]:
    """How many pods Kueue lets in at once, of each role; it has one Workload of it."""
    meta = made["metadata"]
    (workload,) = [
        one
        for one in kube.list(KUEUE, "Workload", meta["namespace"])
        if any(o["uid"] == meta["uid"] for o in one["metadata"].get("ownerReferences", ()))
    ]
    assert meta["labels"]["kueue.x-k8s.io/queue-name"]
    return [one.get("count", 1) for one in workload["spec"]["podSets"]]


def ends(found: dict[str, Any]) -> list[tuple[str, str, int | None]]:
    return [(one["role"], one["seen"], one["exit_code"]) for one in found["replicas"]]


def test_pytorch_is_a_trainjob_whose_replicas_sum_up_at_the_master(jobs: Jobs, kube: Kube) -> None:
    one = jobs.make(
        "allreduce", framework="pytorch", replicas=3, command=["python3", "-c", ALL_REDUCE]
    )
    found = jobs.until(one, "succeeded")
    assert [text.split() for text in jobs.logs(found, 3)] == [
        [str(n), "3", "3", str(n), "3"] for n in range(3)
    ]
    assert ends(found) == [("master", "exited", 0), *[("worker", "exited", 0)] * 2]
    (made,) = owned(kube, found, "trainer.kubeflow.org/v1alpha1", "TrainJob")
    assert gang(kube, made) == [3]


@pytest.mark.long("the sum at the master meets by the same variables, without PyTorch")
def test_pytorch_itself_trains_one_model_as_a_trainjob(jobs: Jobs) -> None:
    one = jobs.make("ddp", framework="pytorch", replicas=2, image=torch.image(), memory_mib=1024)
    found = jobs.until(one, "succeeded")
    zero, other = (torch.trained(text) for text in jobs.logs(found, 2))
    assert (zero[:3], other[:3]) == ((0, 2, 3), (1, 2, 3))
    assert zero[3] == other[3]


@pytest.mark.long("a minute; one machine: drivers/local/test_groups.py")
def test_one_dead_replica_is_named_and_ends_the_others(jobs: Jobs) -> None:
    script = '[ "$RANK" = 2 ] && exit 7; exec tini sleep 600'
    one = jobs.make("dead", framework="pytorch", replicas=4, command=["bash", "-c", script])
    found = jobs.until(one, "failed")
    assert (found["exit_code"], found["failed_replica"]) == (7, 2)
    assert {one["seen"] for one in found["replicas"]} == {"exited"}


# Chief and workers end some time after the evaluator began: with them JobSet ends it, and its node
# forgets what it said.
ROLES = """
echo "$TF_CONFIG"
case $BERTH_ROLE in
  evaluator) exec tini -- python3 -m http.server 2222 > /dev/null 2>&1;;
  ps) exec tini sleep 600;;
esac
IFS=, read -ra hosts <<< "$BERTH_HOSTS"
until (exec 3<> "/dev/tcp/${hosts[3]}/2222") 2> /dev/null; do sleep 0.2; done
sleep 15
"""


def test_tensorflow_tells_each_role_its_own_place(jobs: Jobs, kube: Kube) -> None:
    one = jobs.make(
        "roles",
        framework="tensorflow",
        replicas=4,
        evaluator=True,
        parameter_servers=1,
        command=["bash", "-c", ROLES],
    )
    found = jobs.until(one, "running")
    texts = [""]
    while not all(texts):  # until the test's own time is over
        texts = jobs.logs(found, 4)
    told = [json.loads(text) for text in texts]
    found = jobs.until(one, "succeeded")
    tasks = [(one["task"]["type"], one["task"]["index"]) for one in told]
    assert tasks == [("chief", 0), ("worker", 0), ("worker", 1), ("evaluator", 0)]
    assert all(one["cluster"] == told[0]["cluster"] for one in told)
    sizes = {role: len(places) for role, places in told[0]["cluster"].items()}
    assert sizes == {"chief": 1, "worker": 2, "ps": 1}
    roles = ["chief", "worker", "worker", "evaluator", "ps"]
    assert [one["role"] for one in found["replicas"]] == roles
    (made,) = owned(kube, found, "jobset.x-k8s.io/v1alpha2", "JobSet")
    assert gang(kube, made) == [1, 2, 1, 1]


def test_cancelled_no_pod_of_any_role_is_left_running(jobs: Jobs, kube: Kube) -> None:
    one = jobs.make("long", framework="pytorch", replicas=2, command=["tini", "sleep", "3600"])
    running = jobs.until(one, "running")
    assert len(owned(kube, running, "v1", "Pod")) == 2
    jobs.stop(one)
    found = jobs.until(one, "cancelled")
    alive = [p for p in owned(kube, found, "v1", "Pod") if p["status"]["phase"] == "Running"]
    assert (alive, [r["seen"] for r in found["replicas"]]) == ([], ["exited"] * 2)


# Adds the ranks of all slots by the library itself; no package of Python's is needed for it.
MPI_SUM = """
import ctypes, os, socket
mpi = ctypes.CDLL("libmpi.so.40", mode=ctypes.RTLD_GLOBAL)
at = lambda name: ctypes.c_void_p(ctypes.addressof(ctypes.c_char.in_dll(mpi, name)))
world, number, add = (at(f"ompi_mpi_{word}") for word in ("comm_world", "int", "op_sum"))
mpi.MPI_Init(None, None)
rank, size, total = ctypes.c_int(), ctypes.c_int(), ctypes.c_int()
mpi.MPI_Comm_rank(world, ctypes.byref(rank))
mpi.MPI_Comm_size(world, ctypes.byref(size))
mpi.MPI_Allreduce(ctypes.byref(rank), ctypes.byref(total), 1, number, add, world)
print("slot", rank.value, size.value, total.value, socket.gethostname(), os.environ["WORD"])
mpi.MPI_Finalize()
"""


def test_mpirun_starts_the_program_on_each_replica_over_ssh(jobs: Jobs, kube: Kube) -> None:
    one = jobs.make(
        "ring",
        framework="mpi",
        replicas=3,
        image=cluster_state()["images"]["mpi"]["reference"],  # made after the first pods
        command=["python3", "-c", MPI_SUM],
        env={"WORD": "passed-on"},
    )
    found = jobs.until(one, "succeeded")
    (log,) = jobs.logs(found, 1)
    slots = sorted(line.split()[1:] for line in log.splitlines() if line.startswith("slot"))
    (made,) = owned(kube, found, "kubeflow.org/v2beta1", "MPIJob")
    name = made["metadata"]["name"]
    hosts = [f"{name}-launcher", f"{name}-worker-0", f"{name}-worker-1"]
    assert slots == [[str(n), "3", "3", hosts[n], "passed-on"] for n in range(3)], log
    assert [one["role"] for one in found["replicas"]] == ["launcher", "worker", "worker"]
    assert gang(kube, made) == [1, 2]
    asked = made["spec"]["mpiReplicaSpecs"].values()
    requests = [r["template"]["spec"]["containers"][0]["resources"]["requests"] for r in asked]
    assert all({"cpu", "memory"} <= set(one) for one in requests)
