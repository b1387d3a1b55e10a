"""Whether a node would be large enough for a pod when it were empty. Pure.

The scheduler's words name what is lacking on how many nodes, not whether it could ever be there:
"four cards are taken" and "no node of that kind has four" read alike.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from runtime.drivers.kubernetes.metrics import quantity
from runtime.protocol import NodeFacts

Object = Mapping[str, Any]
_REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def choice_of(spec: Object) -> dict[str, Any]:
    """Return of a pod's description only what it demands of its node, and which taints it bears."""
    found: dict[str, Any] = {}
    if spec.get("nodeSelector"):
        found["nodeSelector"] = spec["nodeSelector"]
    if terms := _terms(spec):
        found["affinity"] = {"nodeAffinity": {_REQUIRED: {"nodeSelectorTerms": terms}}}
    if spec.get("tolerations"):
        found["tolerations"] = spec["tolerations"]
    return found


def could_fit(spec: Object, nodes: Iterable[NodeFacts]) -> bool:
    """``spec``: of a pod; only nodes that it may choose, and whose taints it tolerates, count."""
    wanted = _wanted(spec)
    return any(
        _holds(facts, wanted) and _may_choose(spec, facts.labels) and _may_stay(spec, facts.taints)
        for facts in nodes
    )


def _wanted(spec: Object) -> dict[str, float]:
    sums: dict[str, float] = {}
    for container in spec.get("containers") or []:
        for name, text in ((container.get("resources") or {}).get("requests") or {}).items():
            sums[name] = sums.get(name, 0.0) + quantity(str(text))
    return sums


def _holds(facts: NodeFacts, wanted: Mapping[str, float]) -> bool:
    has = {
        "cpu": facts.cpu_milli / 1000,
        "memory": facts.memory_mib * 2.0**20,
        **facts.accelerators,
    }
    return all(has.get(name, 0) >= n for name, n in wanted.items() if name != "ephemeral-storage")


def _terms(spec: Object) -> list[dict[str, Any]]:
    affinity = (spec.get("affinity") or {}).get("nodeAffinity") or {}
    return list((affinity.get(_REQUIRED) or {}).get("nodeSelectorTerms") or [])


def _may_choose(spec: Object, labels: Mapping[str, str]) -> bool:
    chosen: Mapping[str, str] = spec.get("nodeSelector") or {}
    if any(labels.get(name) != value for name, value in chosen.items()):
        return False
    terms = _terms(spec)
    return not terms or any(_fulfils(term, labels) for term in terms)


def _may_stay(spec: Object, taints: Iterable[Mapping[str, str]]) -> bool:
    """What Kubernetes itself puts on a node (not ready, cordoned) goes again: it keeps nobody."""
    lasting = (
        taint
        for taint in taints
        if taint.get("effect") in {"NoSchedule", "NoExecute"}
        and not str(taint.get("key", "")).startswith("node.kubernetes.io/")
    )
    tolerations = spec.get("tolerations") or []
    return all(any(tolerates(entry, taint) for entry in tolerations) for taint in lasting)


def tolerates(entry: Mapping[str, str], taint: Mapping[str, str]) -> bool:
    if entry.get("effect") not in {"", None, taint.get("effect")}:
        return False
    if entry.get("operator") == "Exists":
        return entry.get("key") in {"", None, taint.get("key")}
    key, value = taint.get("key"), taint.get("value", "")
    return entry.get("key") == key and entry.get("value", "") == value


def _fulfils(term: Object, labels: Mapping[str, str]) -> bool:
    """Of what Kubernetes knows only what ``builders.placing`` writes; the rest refuses nobody."""
    for rule in term.get("matchExpressions") or []:
        among = labels.get(rule["key"]) in (rule.get("values") or [])
        if (rule["operator"] == "In" and not among) or (rule["operator"] == "NotIn" and among):
            return False
    return True
