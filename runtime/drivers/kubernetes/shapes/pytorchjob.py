"""PyTorch on several replicas where a cluster has the training operator: a PyTorchJob.

All replicas are its workers, numbered as today's are, and the first one leads: to the workers of a
master it would give a container of its own image that no isolated namespace takes.
"""

from typing import Any

from runtime import training
from runtime.drivers.kubernetes import names
from runtime.drivers.kubernetes.shapes import training_operator
from runtime.drivers.kubernetes.shapes.operated import Operated, Roles
from runtime.spec import PodGroup


def _made(roles: Roles) -> list[dict[str, Any]]:
    spec = roles.spec
    group = PodGroup(spec.groups[0].role, spec.replicas)
    workers = training_operator.role(roles, group, names.PYTORCH, is_apart=False)
    made = {
        "apiVersion": training_operator.VERSION,
        "kind": "PyTorchJob",
        "metadata": dict(roles.meta),
        "spec": {
            "pytorchReplicaSpecs": {"Worker": workers},
            "runPolicy": training_operator.policy(spec.retry, spec.replicas),
        },
    }
    return [made]


PYTORCHJOB = Operated(
    training_operator.VERSION,
    "pytorchjobs",
    "PyTorchJob",
    training.PYTORCHJOB,
    _made,
    training_operator.SUSPEND,
)
