"""TensorFlow in its roles where a cluster has the training operator: a TFJob.

The operator tells ``TF_CONFIG`` and names each pod by a Service. The end of the chief is the
whole's, which is its own rule: workers that still run then are ended, as servers and an evaluator
are.
"""

from typing import Any

from runtime import training
from runtime.drivers.kubernetes import names
from runtime.drivers.kubernetes.shapes import training_operator
from runtime.drivers.kubernetes.shapes.operated import Operated, Roles
from runtime.spec import PodGroup

_CALLED = {
    training.CHIEF: "Chief",
    training.WORKER: "Worker",
    training.EVALUATOR: "Evaluator",
    training.PS: "PS",
}


def _made(roles: Roles) -> list[dict[str, Any]]:
    spec = roles.spec
    made = {
        "apiVersion": training_operator.VERSION,
        "kind": "TFJob",
        "metadata": dict(roles.meta),
        "spec": {
            "tfReplicaSpecs": {_CALLED[group.role]: _role(roles, group) for group in spec.groups},
            "runPolicy": training_operator.policy(spec.retry, spec.replicas),
        },
    }
    return [made]


def _role(roles: Roles, group: PodGroup) -> dict[str, Any]:
    made = training_operator.role(roles, group, names.TENSORFLOW)
    container = made["template"]["spec"]["containers"][0]
    container["env"] = [*container.get("env", ()), {"name": "BERTH_ROLE", "value": group.role}]
    return made


TFJOB = Operated(
    training_operator.VERSION,
    "tfjobs",
    "TFJob",
    training.TFJOB,
    _made,
    training_operator.SUSPEND,
)
