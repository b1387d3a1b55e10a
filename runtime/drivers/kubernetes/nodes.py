"""One node as facts. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from runtime.drivers.kubernetes.metrics import quantity
from runtime.protocol import NodeFacts

_NOT_ACCELERATORS = ("hugepages-", "attachable-volumes-")


def facts_of(obj: Mapping[str, Any]) -> NodeFacts:
    status, spec = obj.get("status") or {}, obj.get("spec") or {}
    room = status.get("allocatable") or status.get("capacity") or {}
    ready: Mapping[str, Any] = {}
    for condition in status.get("conditions") or []:
        if condition.get("type") == "Ready":
            ready = condition
    is_ready = ready.get("status") == "True"
    return NodeFacts(
        name=obj["metadata"]["name"],
        ready=is_ready,
        schedulable=not spec.get("unschedulable", False),
        cpu_milli=round(quantity(str(room.get("cpu", "0"))) * 1000),
        memory_mib=int(quantity(str(room.get("memory", "0"))) // 2**20),
        accelerators={
            name: int(quantity(str(count)))
            for name, count in sorted(room.items())
            if "/" in name and not name.startswith(_NOT_ACCELERATORS)
        },
        labels=dict(obj["metadata"].get("labels") or {}),
        taints=tuple(_taint(t) for t in spec.get("taints") or []),
        version=str((status.get("nodeInfo") or {}).get("kubeletVersion", "")),
        message="" if is_ready else str(ready.get("message", ""))[:300],
    )


def _taint(taint: Mapping[str, Any]) -> dict[str, str]:
    return {key: str(taint[key]) for key in ("key", "value", "effect") if taint.get(key)}
