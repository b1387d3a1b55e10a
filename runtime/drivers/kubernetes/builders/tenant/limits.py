"""Counts of objects, storage, and defaults for containers. Never GPUs: those are the queue's."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

Object = dict[str, Any]

MAX_PODS = 5000
MAX_VOLUMES = 2000
_COUNTS = {
    "configmaps": 1000,
    "count/jobs.batch": 1000,
    "count/statefulsets.apps": 5000,
    "persistentvolumeclaims": MAX_VOLUMES,
    "pods": MAX_PODS,
    "secrets": 12000,
    "services": 500,
    "services.loadbalancers": 0,
    "services.nodeports": 0,
}
_BINARY = ("Ki", "Mi", "Gi", "Ti", "Pi", "Ei")


def build(namespace: str, marks: Mapping[str, str], volume_size_gib: int) -> list[Object]:
    storage = binary(MAX_VOLUMES * volume_size_gib, "Gi")
    hard = {name: decimal(count) for name, count in _COUNTS.items()}
    meta = {"namespace": namespace, "labels": dict(marks)}
    return [
        {
            "apiVersion": "v1",
            "kind": "ResourceQuota",
            "metadata": {"name": "objects", **meta},
            "spec": {"hard": {**hard, "requests.storage": storage}},
        },
        {
            "apiVersion": "v1",
            "kind": "LimitRange",
            "metadata": {"name": "defaults", "namespace": namespace, "labels": dict(marks)},
            "spec": {
                "limits": [
                    {
                        "type": "Container",
                        "default": {"cpu": "1", "ephemeral-storage": "10Gi", "memory": "1Gi"},
                        "defaultRequest": {
                            "cpu": "100m",
                            "ephemeral-storage": "1Gi",
                            "memory": "256Mi",
                        },
                    }
                ]
            },
        },
    ]


def decimal(count: int) -> str:
    """Return a count as the API server writes it (5000 is “5k”)."""
    for step, word in ((1_000_000, "M"), (1_000, "k")):
        if count and count % step == 0:
            return f"{count // step}{word}"
    return str(count)


def binary(count: int, unit: str) -> str:
    """Return a size as the API server writes it (2048Gi is “2Ti”)."""
    at = _BINARY.index(unit)
    while count and count % 1024 == 0 and at + 1 < len(_BINARY):
        count, at = count // 1024, at + 1
    return f"{count}{_BINARY[at]}"
