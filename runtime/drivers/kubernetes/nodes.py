"""Nodes as facts, whether one would be large enough for a pod, and what the watch knows of them.

The scheduler's words name what is lacking on how many nodes, not whether it could ever be there:
"four cards are taken" and "no node of that kind has four" read alike.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any

from runtime.capabilities.clusters import NodeChanges, NodeFacts
from runtime.drivers.kubernetes.metrics import quantity

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
        since="" if is_ready else str(ready.get("lastTransitionTime") or ""),
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
    wanted: dict[str, float] = {}
    for container in spec.get("containers") or []:
        for name, text in ((container.get("resources") or {}).get("requests") or {}).items():
            wanted[name] = wanted.get(name, 0.0) + quantity(str(text))
    return any(
        _holds(facts, wanted) and _may_choose(spec, facts.labels) and _may_stay(spec, facts.taints)
        for facts in nodes
    )


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
    """Of what Kubernetes knows only what we write (``placing``); the rest refuses nobody."""
    for rule in term.get("matchExpressions") or []:
        among = labels.get(rule["key"]) in (rule.get("values") or [])
        if (rule["operator"] == "In" and not among) or (rule["operator"] == "NotIn" and among):
            return False
    return True


Key = tuple[str, str]  # namespace, name


class SeenNodes:
    """Not thread-safe: its ``World`` has the lock."""

    def __init__(self) -> None:
        self._facts: dict[str, NodeFacts] = {}
        self._changed: set[str] = set()
        self._gone: set[str] = set()
        self._full = False
        self._others: dict[Key, tuple[str, dict[str, int]]] = {}  # pods with devices
        self._counts_others = False

    def __bool__(self) -> bool:
        return bool(self._facts)

    def known(self) -> Iterable[NodeFacts]:
        """Without what others hold: cheap."""
        return self._facts.values()

    def names(self) -> list[str]:
        return list(self._facts)

    def is_ready(self, name: str) -> bool | None:
        known = self._facts.get(name)
        return None if known is None else known.ready

    def silence(self, name: str) -> str:
        """Return which node it is that does not answer, and since when; "": it does."""
        known = self._facts.get(name)
        if known is None or known.ready:
            return ""
        return f"{name} ({known.since})" if known.since else name

    def facts(self) -> list[NodeFacts]:
        held = self._held()
        return [self._with(facts, held) for facts in self._facts.values()]

    # --- nodes ----------------------------------------------------------------------------------
    def put(self, obj: Mapping[str, Any]) -> bool:
        """Return whether it became ready or stopped to be so: its pods are judged again."""
        facts = facts_of(obj)
        known = self._facts.get(facts.name)
        if known == facts:
            return False
        self._facts[facts.name] = facts
        self._changed.add(facts.name)
        self._gone.discard(facts.name)
        return known is None or known.ready != facts.ready

    def drop(self, name: str) -> None:
        self._facts.pop(name, None)
        self._changed.discard(name)
        self._gone.add(name)

    def listed(self) -> None:
        self._full = True

    def take(self) -> NodeChanges | None:
        """What changed since the last call."""
        full, changed, gone = self._full, self._changed, self._gone
        self._full, self._changed, self._gone = False, set(), set()
        if full:
            return NodeChanges(seen=tuple(self.facts()), full=True)
        if not changed and not gone:
            return None
        held = self._held()
        seen = tuple(self._with(self._facts[n], held) for n in changed if n in self._facts)
        return NodeChanges(seen=seen, gone=tuple(sorted(gone)))

    # --- pods of others ---------------------------------------------------------------------------
    def put_other(self, key: Key, pod: Mapping[str, Any]) -> None:
        node, devices = held_by(pod)
        self._let(key, (node, devices) if devices else None)

    def drop_other(self, key: Key) -> None:
        self._let(key, None)

    def others(self) -> list[Key]:
        return list(self._others)

    def others_listed(self) -> None:
        """From now on what nobody is seen to hold is known to be free."""
        if not self._counts_others:
            self._counts_others = True
            self._changed |= set(self._facts)

    def _let(self, key: Key, found: tuple[str, dict[str, int]] | None) -> None:
        before = self._others.pop(key, None)
        if found is not None:
            self._others[key] = found
        if before != found:
            self._changed |= {one[0] for one in (before, found) if one} & set(self._facts)

    def _held(self) -> dict[str, Counter[str]] | None:
        if not self._counts_others:
            return None
        sums: dict[str, Counter[str]] = {}
        for node, devices in self._others.values():
            sums.setdefault(node, Counter()).update(devices)
        return sums

    def _with(self, facts: NodeFacts, held: Mapping[str, Counter[str]] | None) -> NodeFacts:
        return replace(facts, held=None if held is None else dict(held.get(facts.name, {})))
