"""Frameworks of training on several replicas: their roles, and what each replica is told. Pure."""

import json
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from runtime.spec import PodGroup, Resources

NONE, PYTORCH, TENSORFLOW, MPI = "none", "pytorch", "tensorflow", "mpi"
CHIEF, WORKER, PS, MASTER, LAUNCHER = "chief", "worker", "ps", "master", "launcher"
EVALUATOR = "evaluator"
BESIDE = frozenset((PS, EVALUATOR))  # they go on until they are ended, when the others are done
NODE = "node"  # how the Trainer calls each replica of PyTorch's
TRAINER, JOBSET, MPI_OPERATOR = "trainer", "jobset", "mpi"
PYTORCHJOB, TFJOB = "pytorchjob", "tfjob"  # of the training operator, older than the trainer
# What operators of a cluster are called there: their word, and the API that shows they are there.
OPERATORS: Mapping[str, str] = {
    MPI_OPERATOR: "kubeflow.org/v2beta1",
    JOBSET: "jobset.x-k8s.io/v1alpha2",
    TRAINER: "trainer.kubeflow.org/v1alpha1",
}
KATIB = "katib"  # chooses the values of searches: no job needs it
KSERVE = "kserve"  # serves models
KSERVE_LEAST = "0.16"  # an earlier one can't be told to stop
# Notebooks and profiles of Kubeflow have the same API: a kind of their own shows these are there.
KINDS: Mapping[str, tuple[str, str]] = {
    PYTORCHJOB: ("kubeflow.org/v1", "pytorchjobs"),
    TFJOB: ("kubeflow.org/v1", "tfjobs"),
    KATIB: ("kubeflow.org/v1beta1", "experiments"),
    KSERVE: ("serving.kserve.io/v1beta1", "inferenceservices"),
}
# What runs each framework on several replicas, the first of those that are there.
_RUN_BY: Mapping[str, tuple[str, ...]] = {
    PYTORCH: (TRAINER, PYTORCHJOB),
    TENSORFLOW: (JOBSET, TFJOB),
    MPI: (MPI_OPERATOR,),
}
# Programs that start the others themselves: they are run as they stand.
_STARTERS = frozenset(("mpirun", "mpiexec", "orterun", "prterun", "horovodrun"))


def groups(
    framework: str,
    replicas: int,
    parameter_servers: int = 0,
    size: Resources | None = None,
    *,
    evaluator: bool = False,
) -> tuple[PodGroup, ...]:
    """Return the roles in the order in which replicas are numbered; the first one leads.

    ``size``: of each parameter server, where that is not the replicas'. ``evaluator``: the last
    of the replicas is one.
    """
    first = {PYTORCH: MASTER, TENSORFLOW: CHIEF, MPI: LAUNCHER}.get(framework)
    if first is None:
        return (PodGroup("main", replicas),)
    found = [PodGroup(first, 1, meets=True)]
    if workers := replicas - 1 - evaluator:
        found.append(PodGroup(WORKER, workers))
    if evaluator:
        found.append(PodGroup(EVALUATOR))
    if framework == TENSORFLOW and parameter_servers:
        found.append(PodGroup(PS, parameter_servers, resources=size))
    return tuple(found)


def operator(
    framework: str, replicas: int, there: Sequence[str], *, older_first: bool = False
) -> str:
    """Return which operator runs it on a cluster that has ``there``; "": an indexed Job."""
    if framework != MPI and replicas == 1:
        return ""
    wanted = _RUN_BY.get(framework, ())
    in_order = reversed(wanted) if older_first else wanted
    return next((one for one in in_order if one in there), "")


def roles(found: Sequence[PodGroup]) -> list[str]:
    """Return the role of each replica, by number."""
    return [group.role for group in found for _ in range(group.replicas)]


def grouped(of: Sequence[str]) -> tuple[PodGroup, ...]:
    """Return the groups that ``roles`` tells."""
    return tuple(PodGroup(role, of.count(role)) for role in dict.fromkeys(of))


def tf_config(found: Sequence[PodGroup], places: Sequence[str], role: str, index: int) -> str:
    """Return what TensorFlow reads. ``places``: host:port of each replica, by number.

    An evaluator is none of those that it sees: nobody asks it for anything.
    """
    cluster: dict[str, list[str]] = {}
    for its, place in zip(roles(found), places, strict=True):
        if its != EVALUATOR:
            cluster.setdefault(its, []).append(place)
    told = {"cluster": cluster, "task": {"type": role, "index": index}}
    return json.dumps(told, separators=(",", ":"))


def torch_environment(replicas: int, address: str, port: int, processes: int) -> dict[str, str]:
    """Return what torchrun reads, beside what PyTorch itself does; alike for all replicas."""
    return {
        "LOCAL_RANK": "0",
        "LOCAL_WORLD_SIZE": "1",
        "PET_MASTER_ADDR": address,
        "PET_MASTER_PORT": str(port),
        "PET_NNODES": str(replicas),
        "PET_NPROC_PER_NODE": str(max(1, processes)),
    }


def starts_others(command: Sequence[str]) -> bool:
    """Whether it is run as it stands: it starts the slots itself."""
    return not command or PurePosixPath(command[0]).name in _STARTERS


def mpirun(command: Sequence[str], slots: int, *more: str) -> tuple[str, ...]:
    """Return what the launcher runs: the program once for each slot."""
    return ("mpirun", "-n", str(slots), *more, *command)
