"""TensorFlow in its roles: a JobSet with an indexed Job of each (chief, worker, evaluator, ps).

Each pod is told ``TF_CONFIG`` with its own role and number. Parameter servers and an evaluator go
on for ever: the whole has succeeded when chief and workers have, and then they are ended.
"""

from dataclasses import replace
from typing import Any

from runtime import training
from runtime.drivers.kubernetes.builders import pod_fields
from runtime.drivers.kubernetes.shapes import job
from runtime.drivers.kubernetes.shapes.operated import Operated, Roles
from runtime.spec import PodGroup

VERSION = "jobset.x-k8s.io/v1alpha2"
_INDEX = "BERTH_ROLE_INDEX"


def _made(roles: Roles) -> list[dict[str, Any]]:
    ends = [group.role for group in roles.spec.groups if group.role not in training.BESIDE]
    made = {
        "apiVersion": VERSION,
        "kind": "JobSet",
        "metadata": dict(roles.meta),
        "spec": {
            "network": {"enableDNSHostnames": True, "publishNotReadyAddresses": True},
            "successPolicy": {"operator": "All", "targetReplicatedJobs": ends},
            "replicatedJobs": [_role(roles, group) for group in roles.spec.groups],
        },
    }
    return [made]


def _role(roles: Roles, group: PodGroup) -> dict[str, Any]:
    alone = replace(roles.spec, groups=(replace(group, meets=True),))
    pods = {**job.bounds(alone), **job.endings(alone), "template": roles.template(group)}
    container = pods["template"]["spec"]["containers"][0]
    # a number of its role, which TF_CONFIG takes over; numbers of the whole would count on
    number = {"name": _INDEX, "valueFrom": pod_fields.NUMBER}
    told = training.tf_config(
        roles.spec.groups, pod_fields.meeting_places(roles.spec), group.role, 0
    )
    text = told.replace('"index":0', f'"index":$({_INDEX})')
    told_role = {"name": "BERTH_ROLE", "value": group.role}
    container["env"] = [
        *container.get("env", ()),
        told_role,
        number,
        {"name": "TF_CONFIG", "value": text},
    ]
    return {"name": group.role, "replicas": 1, "template": {"spec": pods}}


JOBSET = Operated(VERSION, "jobsets", "JobSet", training.JOBSET, _made)
