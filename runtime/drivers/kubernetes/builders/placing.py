"""Where a pod may run: selectors, tolerations, and packing of GPU work onto few nodes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from runtime.drivers.kubernetes import names
from runtime.drivers.kubernetes.options import KubernetesOptions
from runtime.protocol import Placement, WorkloadSpec

_HOSTNAME = "kubernetes.io/hostname"


def placing(spec: WorkloadSpec, options: KubernetesOptions) -> dict[str, Any]:
    """Return the fields of a pod's spec that choose its node."""
    found: dict[str, Any] = {}
    if spec.placement.node_labels:
        found["nodeSelector"] = dict(sorted(spec.placement.node_labels.items()))
    affinity: dict[str, Any] = {}
    if terms := _terms(spec.placement):
        affinity["nodeAffinity"] = {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}
        }
    if spec.resources.gpus and not options.scheduler:
        affinity["podAffinity"] = _together()
    if affinity:
        found["affinity"] = affinity
    if spec.placement.tolerations:
        found["tolerations"] = [_toleration(t) for t in spec.placement.tolerations]
    if spec.resources.gpus and options.scheduler:
        found["schedulerName"] = options.scheduler
    return found


def gpu_labels(spec: WorkloadSpec) -> dict[str, str]:
    """What others of the kind are drawn to, on pods that hold GPUs."""
    return {names.GPU: "true"} if spec.resources.gpus else {}


def _terms(placement: Placement) -> list[dict[str, Any]]:
    """One term for each acceptable set of labels; each keeps off what must be avoided."""
    avoided = [
        {"key": key, "operator": "NotIn", "values": sorted(values)}
        for key, values in sorted(placement.avoid.items())
    ]
    kinds: Iterable[Mapping[str, str]] = placement.any_of or ({},)
    wanted = [[*_carries(labels), *avoided] for labels in kinds]
    return [{"matchExpressions": term} for term in wanted if term]


def _carries(labels: Mapping[str, str]) -> list[dict[str, Any]]:
    return [{"key": k, "operator": "In", "values": [v]} for k, v in sorted(labels.items())]


def _together() -> dict[str, Any]:
    """Without a packing scheduler: prefer nodes on which GPU pods already are."""
    term = {
        "labelSelector": {"matchLabels": {names.GPU: "true"}},
        "namespaceSelector": {},
        "topologyKey": _HOSTNAME,
    }
    weighted = {"weight": 100, "podAffinityTerm": term}
    return {"preferredDuringSchedulingIgnoredDuringExecution": [weighted]}


def _toleration(given: Mapping[str, str]) -> dict[str, Any]:
    found: dict[str, Any] = {key: value for key, value in given.items() if value != ""}
    if "tolerationSeconds" in found:
        found["tolerationSeconds"] = int(found["tolerationSeconds"])
    return found
