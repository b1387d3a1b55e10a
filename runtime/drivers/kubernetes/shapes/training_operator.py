"""What the kinds of the training operator (v1) have in common: the pods of a role, and its policy.

It starts the container of a pod again in its place, and counts those starts over all pods; without
retries a pod that ended badly, also by an eviction, ends it.
"""

from typing import Any

from runtime.drivers.kubernetes.shapes.operated import Roles
from runtime.spec import PodGroup, RetryPolicy

VERSION = "kubeflow.org/v1"
SUSPEND = ("spec", "runPolicy", "suspend")


def policy(retry: RetryPolicy, replicas: int) -> dict[str, Any]:
    """Ended pods stay, as their ends and logs are read; the limit is one start beyond what may be.

    ``replicas``: of all roles, as starts are counted over all of them and a failure of one often
    ends the rest. The engine ends it before (``observe_job``), as soon as a replica has used its
    attempts up.
    """
    again = retry.attempts - 1
    limit = {"backoffLimit": again * replicas + 1} if again > 0 else {}
    return {"cleanPodPolicy": "Running", **limit}


def role(roles: Roles, group: PodGroup, container: str, *, is_apart: bool = True) -> dict[str, Any]:
    """Return the replicas of one role; ``container``: what it looks for in each pod."""
    pod = roles.template(group, is_apart=is_apart)
    pod["spec"].pop("restartPolicy", None)  # said for the role
    pod["spec"]["containers"][0]["name"] = container
    tries = roles.spec.retry.attempts > 1
    return {
        "replicas": group.replicas,
        "restartPolicy": "OnFailure" if tries else "Never",
        "template": pod,
    }
