"""What lets the pods of one group meet: their names, what each is told, who may reach them. Pure.

Pods of a namespace do not reach each other (``builders/tenant/policies``); policies add up, and
this one opens each pod of a workload to the others of the same workload, and to nobody else's.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runtime.drivers.kubernetes import names
from runtime.protocol import WorkloadSpec

Object = dict[str, Any]

MEETING_PORT = 29500  # a pod's network is its own, so the usual one is free
_NUMBER = {"fieldRef": {"fieldPath": f"metadata.annotations['{names.INDEX}']"}}


def hosts(spec: WorkloadSpec) -> list[str]:
    """Return the host of each replica, as it is resolved in the pods themselves."""
    name = names.workload(spec.name, spec.uid)
    return [f"{name}-{number}.{name}" for number in range(spec.replicas)]


def environment(spec: WorkloadSpec) -> dict[str, str]:
    """Return what all replicas are told alike."""
    if not spec.is_group:
        return {}
    found = hosts(spec)
    return {
        "BERTH_HOSTS": ",".join(found),
        "MASTER_ADDR": found[0],
        "MASTER_PORT": str(MEETING_PORT),
        "WORLD_SIZE": str(len(found)),
    }


def own_number(spec: WorkloadSpec) -> list[Object]:
    """Return what each is told for itself, which one template can say by a reference only."""
    told = ("BERTH_REPLICA", "RANK") if spec.is_group else ()
    return [{"name": name, "valueFrom": _NUMBER} for name in told]


def meeting(meta: Mapping[str, Any]) -> list[Object]:
    """Return the Service that names the pods and the policy that lets them reach each other."""
    pods = {names.UID: meta["labels"][names.UID]}
    return [
        {
            "apiVersion": "v1",
            "kind": "Service",
            "metadata": dict(meta),
            # They look for each other before any of them answers a probe.
            "spec": {"clusterIP": "None", "publishNotReadyAddresses": True, "selector": pods},
        },
        {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "NetworkPolicy",
            "metadata": dict(meta),
            "spec": _among(pods),
        },
    ]


# What a group has besides Secrets: apiVersion and plural, of the workload's own name.
KINDS = (("v1", "services"), ("networking.k8s.io/v1", "networkpolicies"))


def is_meeting(policy: Mapping[str, Any]) -> bool:
    """Whether a policy is one of these and opens nothing else."""
    uid = str((policy["metadata"].get("labels") or {}).get(names.UID, ""))
    return bool(uid) and policy.get("spec") == _among({names.UID: uid})


def _among(pods: Mapping[str, str]) -> Object:
    peers = [{"podSelector": {"matchLabels": dict(pods)}}]
    return {
        "podSelector": {"matchLabels": dict(pods)},
        "policyTypes": ["Ingress", "Egress"],
        "ingress": [{"from": peers}],
        "egress": [{"to": peers}],
    }
