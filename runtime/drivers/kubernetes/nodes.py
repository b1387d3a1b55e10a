"""One node as facts. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

from runtime.drivers.kubernetes.metrics import quantity
from runtime.protocol import NodeFacts

_NOT_ACCELERATORS = ("hugepages-", "attachable-volumes-")
_ADDRESSES = ("InternalIP", "ExternalIP")


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
            if _is_device(name)
        },
        labels=dict(obj["metadata"].get("labels") or {}),
        taints=tuple(_taint(t) for t in spec.get("taints") or []),
        version=str((status.get("nodeInfo") or {}).get("kubeletVersion", "")),
        message="" if is_ready else str(ready.get("message", ""))[:300],
        addresses=tuple(
            str(entry.get("address", ""))
            for entry in status.get("addresses") or []
            if entry.get("type") in _ADDRESSES
        ),
    )


def held_by(pod: Mapping[str, Any]) -> tuple[str, dict[str, int]]:
    """Return the node of a pod and the devices that it holds there; nothing once it is over."""
    spec, phase = pod.get("spec") or {}, (pod.get("status") or {}).get("phase")
    node = str(spec.get("nodeName") or "")
    if not node or phase in {"Succeeded", "Failed"}:
        return "", {}
    sums: Counter[str] = Counter()
    for container in spec.get("containers") or []:
        sums.update(_devices(container))
    for container in spec.get("initContainers") or []:
        for name, count in _devices(container).items():
            sums[name] = max(sums[name], count)
    return node, dict(sums)


def _devices(container: Mapping[str, Any]) -> dict[str, int]:
    asked = (container.get("resources") or {}).get("requests") or {}
    return {name: int(quantity(str(count))) for name, count in asked.items() if _is_device(name)}


def _is_device(name: str) -> bool:
    return "/" in name and not name.startswith(_NOT_ACCELERATORS)


def _taint(taint: Mapping[str, Any]) -> dict[str, str]:
    return {key: str(taint[key]) for key in ("key", "value", "effect") if taint.get(key)}
