"""Where a pod may run: selectors, tolerations, and packing of GPU work onto few nodes. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from runtime.drivers.kubernetes import names
from runtime.drivers.kubernetes.options import KubernetesOptions
from runtime.protocol import Placement, WorkloadSpec

_HOSTNAME, _ARCH = "kubernetes.io/hostname", "kubernetes.io/arch"
_HEAVIEST = 100


def placing(spec: WorkloadSpec, options: KubernetesOptions) -> dict[str, Any]:
    """Return the fields of a workload's pod that choose its node."""
    found = nodes(spec.placement)
    # Where an order is asked for, being together must not outweigh it: both count the same.
    if spec.resources.gpus and not options.scheduler and not _liked(spec.placement):
        found.setdefault("affinity", {})["podAffinity"] = _together()
    if spec.resources.gpus and options.scheduler:
        found["schedulerName"] = options.scheduler
    return found


def nodes(placement: Placement) -> dict[str, Any]:
    """Return the same of any pod of a tenant, however short its work is."""
    found: dict[str, Any] = {}
    if placement.node_labels:
        found["nodeSelector"] = dict(sorted(placement.node_labels.items()))
    affinity: dict[str, Any] = {}
    if terms := _terms(placement):
        affinity["requiredDuringSchedulingIgnoredDuringExecution"] = {"nodeSelectorTerms": terms}
    if liked := _liked(placement) or _near(placement):
        affinity["preferredDuringSchedulingIgnoredDuringExecution"] = liked
    if affinity:
        found["affinity"] = {"nodeAffinity": affinity}
    if placement.tolerations:
        found["tolerations"] = [_toleration(t) for t in placement.tolerations]
    return found


def gpu_labels(spec: WorkloadSpec) -> dict[str, str]:
    """What others of the kind are drawn to, on pods that hold GPUs."""
    return {names.GPU: "true"} if spec.resources.gpus else {}


def _terms(placement: Placement) -> list[dict[str, Any]]:
    """One term for each acceptable set of labels; each keeps off what must be avoided."""
    machines = sorted(placement.architectures)
    runs = [{"key": _ARCH, "operator": "In", "values": machines}] if machines else []
    avoided = [
        {"key": key, "operator": "NotIn", "values": sorted(values)}
        for key, values in sorted(placement.avoid.items())
    ]
    kinds: Iterable[Mapping[str, str]] = placement.any_of or ({},)
    wanted = [[*_carries(labels), *runs, *avoided] for labels in kinds]
    return [{"matchExpressions": term} for term in wanted if term]


def _liked(placement: Placement) -> list[dict[str, Any]]:
    """What makes the scheduler take the first kind that has room, when there is an order.

    It scales the sum of each node by the best of those that have room. So weights fall by a
    factor: whichever kind is the first with room, the next is far behind it.
    """
    kinds = len(set(placement.ranks))
    if kinds < 2:  # noqa: PLR2004 - one kind has no order
        return []
    return [
        {"weight": weight, "preference": {"matchExpressions": _carries(labels)}}
        for labels, rank in zip(placement.any_of, placement.ranks, strict=True)
        if labels and (weight := _weight(rank, kinds))
    ]


def _weight(rank: int, kinds: int) -> int:
    """100 for the first of several kinds, 1 for the one before the last, nothing for the last."""
    if rank >= kinds - 1:
        return 0
    return round(_HEAVIEST ** (1 - rank / (kinds - 2))) if rank else _HEAVIEST


def _near(placement: Placement) -> list[dict[str, Any]]:
    """What draws work to its data, as much as GPU pods to each other.

    Not where somebody asked for an order of kinds: the weights are summed, and would upset it.
    """
    return [
        {"weight": _HEAVIEST, "preference": {"matchExpressions": _carries(labels)}}
        for labels in placement.near
        if labels
    ]


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
