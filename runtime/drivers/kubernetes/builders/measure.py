"""The short Job that says what one volume takes. Pure.

It runs in the project's namespace, where the claim is, as the user that workloads run as: it sees
the volume read-only, one that nobody but Berth may start, look into or speak for. It stands in no
queue and asks for next to nothing.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from runtime.drivers.kubernetes import names
from runtime.drivers.kubernetes.builders import devices, placing
from runtime.drivers.kubernetes.options import KubernetesOptions
from runtime.protocol import Placement

WALKS_S = 600  # then it says what it has
LONGEST_S = 900  # with being placed and its image pulled
KEPT_S = 300
_ROOT = "data"


@dataclass(frozen=True)
class Beside:
    """The only node that can have the volume now, and what let its user in there."""

    node: str
    tolerations: Sequence[Mapping[str, Any]] = ()


def job_name(volume_uid: str) -> str:
    return f"measure-{names.claim(volume_uid)}"


def job(
    volume_uid: str,
    namespace: str,
    options: KubernetesOptions,
    where: Placement | Beside,
) -> dict[str, Any]:
    name, user = job_name(volume_uid), options.run_as_user
    marks = names.marks(options.namespace_prefix, options.installation)
    marks[names.KIND] = "measuring"
    pod: dict[str, Any] = {
        "automountServiceAccountToken": False,
        "containers": [_container(options)],
        "enableServiceLinks": False,
        "imagePullSecrets": [{"name": names.REGISTRIES}],
        "restartPolicy": "Never",
        "securityContext": {
            "fsGroup": user,
            "fsGroupChangePolicy": "OnRootMismatch",
            "runAsGroup": user,
            "runAsNonRoot": True,
            "runAsUser": user,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "terminationGracePeriodSeconds": 1,
        "volumes": [
            {"name": _ROOT, "persistentVolumeClaim": {"claimName": names.claim(volume_uid)}}
        ],
    }
    pod |= _on(where) if isinstance(where, Beside) else placing.nodes(where)
    if options.user_namespaces:
        pod["hostUsers"] = False
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"labels": marks, "name": name, "namespace": namespace},
        "spec": {
            "activeDeadlineSeconds": LONGEST_S,
            "backoffLimit": 0,
            "template": {"metadata": {"labels": marks}, "spec": pod},
            "ttlSecondsAfterFinished": KEPT_S,
        },
    }


def _container(options: KubernetesOptions) -> dict[str, Any]:
    words = ["--root", _ROOT, "--seconds", str(WALKS_S)]
    return {
        "command": ["python3", "-m", "dataplane.measuring", *words],
        "env": devices.named({"BERTH_VOLUMES": names.VOLUMES, **devices.NONE}),
        "image": options.data_image,
        "imagePullPolicy": "IfNotPresent",
        "name": names.MAIN,
        "resources": {
            "limits": {"cpu": "500m", "ephemeral-storage": "64Mi", "memory": "512Mi"},
            "requests": {"cpu": "10m", "ephemeral-storage": "0", "memory": "32Mi"},
        },
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
        "terminationMessagePolicy": "File",
        "volumeMounts": [
            {"mountPath": f"{names.VOLUMES}/{_ROOT}", "name": _ROOT, "readOnly": True}
        ],
    }


def _on(beside: Beside) -> dict[str, Any]:
    term = {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [beside.node]}]}
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [term]}}
    found: dict[str, Any] = {"affinity": {"nodeAffinity": required}}
    if beside.tolerations:
        found["tolerations"] = [dict(one) for one in beside.tolerations]
    return found
