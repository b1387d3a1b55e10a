"""PyTorch on several replicas: a TrainJob of the Kubeflow Trainer, with a runtime of its own.

The runtime has the whole pod, so that nothing depends on what an operator offers there. Its pods
are those of one indexed Job: they are numbered as today's are.
"""

from typing import Any

from runtime import training
from runtime.drivers.kubernetes.shapes import job
from runtime.drivers.kubernetes.shapes.operated import Operated, Roles
from runtime.spec import PodGroup

VERSION = "trainer.kubeflow.org/v1alpha1"
_GROUP = VERSION.partition("/")[0]


def _made(roles: Roles) -> list[dict[str, Any]]:
    spec = roles.spec
    pods = {**job.bounds(spec), **job.endings(spec)}
    node = {"name": training.NODE, "template": {"spec": {**pods, "template": _node(roles)}}}
    runtime = {
        "apiVersion": VERSION,
        "kind": "TrainingRuntime",
        "metadata": dict(roles.plain),
        "spec": {
            "mlPolicy": {"numNodes": spec.replicas},
            "template": {"spec": {"replicatedJobs": [node]}},
        },
    }
    made = {
        "apiVersion": VERSION,
        "kind": "TrainJob",
        "metadata": dict(roles.meta),
        "spec": {"runtimeRef": {"apiGroup": _GROUP, "kind": "TrainingRuntime", "name": roles.name}},
    }
    return [runtime, made]


def _node(roles: Roles) -> dict[str, Any]:
    """All are alike: which one leads follows from its number."""
    return roles.template(PodGroup(roles.spec.groups[0].role), is_apart=False)


TRAINJOB = Operated(
    VERSION, "trainjobs", "TrainJob", training.TRAINER, _made, more=((VERSION, "trainingruntimes"),)
)
