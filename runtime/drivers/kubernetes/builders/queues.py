"""The tree of queues as Kueue's objects. Pure.

All fields that the API server would fill in are written out, and quantities are in their canonical
form, so that a live object that nobody touched is equal to what is built here.

A part's own quota is what is guaranteed to it; the root's is what is left of what exists, so that
all of it can be used and no more than that. Where more is guaranteed than exists, every guarantee
shrinks by the same part: what is let in beyond the devices would stand half started on the nodes.
One group covers everything that pods ask for, so a pod gets all of it of one kind of node.

Levels of a topology, and the flavor that has one, can never be changed: their names say which
levels they have, and others are made beside them. Kueue takes work that says nothing of levels
only where all flavors of a queue have some, so all get them: at least the host.
"""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from runtime.capabilities.queues import QueueKind, QueuePart, QueueTree
from runtime.drivers.kubernetes import names
from runtime.drivers.kubernetes.builders.pod_fields import DEVICES
from runtime.drivers.kubernetes.builders.tenant import binary, decimal
from runtime.drivers.kubernetes.builders.workload import cpu
from runtime.drivers.kubernetes.options import KubernetesOptions

Object = dict[str, Any]

VERSION = "kueue.x-k8s.io/v1beta2"
KIND = "queue"  # label of all of them
LOCAL = "default"  # Kueue takes it for what names no queue
# Nobody rations space outside volumes here, but what is not covered is never let in.
_SPACE, _ENDLESS = "ephemeral-storage", "1Ei"
_CPU, _MEMORY = "cpu", "memory"


def objects(tree: QueueTree, options: KubernetesOptions) -> list[Object]:
    """Return all of them in the order in which they need each other."""
    quotas = _Quotas(tree)
    root = names.queue_object(options.namespace_prefix, "")
    made = _Maker(options, quotas, root)
    return [
        *(made.topology(levels) for levels in _topologies(tree)),
        made.flavor(_plain_word(tree), _plain_labels(tree), [], tree.plain_levels),
        *(made.flavor(kind_word(k), k.labels, _taints(tree, k), k.levels) for k in tree.kinds),
        *(made.priority(name, value) for name, value in sorted(tree.priorities.items())),
        made.cohort(None),
        *(made.cohort(part) for part in quotas.ordered if not part.namespace),
        *(one for part in quotas.ordered if part.namespace for one in made.queues(part)),
    ]


_PLAIN, _LEVELS = "plain", "levels"


def kind_word(kind: QueueKind) -> str:
    word = f"{kind.name}-{kind.variant}" if kind.variant else kind.name
    return _of_levels(f"{word}-devices" if word == _PLAIN else word, kind.levels)


def _plain_word(tree: QueueTree) -> str:
    return _of_levels(_PLAIN, tree.plain_levels)


def _plain_labels(tree: QueueTree) -> dict[str, str]:
    """Return none, or one that every node carries: a flavor with levels must have some."""
    return {"kubernetes.io/os": "linux"} if tree.plain_levels else {}


def _of_levels(word: str, levels: tuple[str, ...]) -> str:
    mark = hashlib.sha256(",".join(levels).encode()).hexdigest()[:6]
    return f"{word}-{mark}" if levels else word


def _topologies(tree: QueueTree) -> list[tuple[str, ...]]:
    found = dict.fromkeys((tree.plain_levels, *(kind.levels for kind in tree.kinds)))
    return [levels for levels in found if levels]


def _taints(tree: QueueTree, kind: QueueKind) -> list[Object]:
    """None where other work may run too and has no nodes of its own."""
    apart = any(tree.plain.values()) or not kind.open
    return [{"effect": "NoSchedule", "key": DEVICES}] if apart else []


@dataclass
class Quota:
    """Of one part, by the place of the kind in the tree's list."""

    own: Counter[int]
    lends: dict[int, int]  # only where it keeps something
    borrows: dict[int, int]  # only where it has a ceiling


class _Quotas:
    """What each part has of the devices of each kind on each sort of node."""

    def __init__(self, tree: QueueTree) -> None:
        self.tree = tree
        known = {part.key: part for part in tree.parts}
        self.parents = {part.key: _parent(part, known) for part in tree.parts}
        self._below: dict[str, list[QueuePart]] = {}
        for part in sorted(tree.parts, key=lambda p: (p.name, p.key)):
            self._below.setdefault(self.parents[part.key], []).append(part)
        self.ordered = list(self._from_top(""))
        self.by_part = {p.key: Quota(Counter(), {}, {}) for p in tree.parts}
        self.rest: Counter[int] = Counter({i: k.devices for i, k in enumerate(tree.kinds)})
        for name in dict.fromkeys(kind.name for kind in tree.kinds):
            self._share_out(name, [i for i, k in enumerate(tree.kinds) if k.name == name])

    def _from_top(self, key: str) -> Iterable[QueuePart]:
        for part in self._below.get(key, ()):
            yield part
            yield from self._from_top(part.key)

    def _share_out(self, name: str, places: list[int]) -> None:
        wanted = {part.key: self._own(part, name) for part in self.ordered}
        given = fitted(wanted, sum(self.rest[place] for place in places))
        for part in self.ordered:
            quota = self.by_part[part.key]
            quota.own.update(_filled(given[part.key], {i: self.rest[i] for i in places}))
            for place in places:
                self.rest[place] -= quota.own[place]
        for part in self.ordered:
            share = part.shares.get(name)
            if share is None:
                continue
            quota = self.by_part[part.key]
            has = {place: self._with_below(part, place) for place in places}
            if share.lends is not None:
                quota.lends = {**quota.lends, **_all_of(places, _filled(share.lends, has))}
            if share.most is not None:
                there = {place: self.tree.kinds[place].devices for place in places}
                over = _filled(max(0, share.most - sum(has.values())), there)
                quota.borrows = {**quota.borrows, **_all_of(places, over)}

    def _own(self, part: QueuePart, name: str) -> int:
        """An organisation has what its parts do not have already."""
        return max(0, _guaranteed(part, name) - sum(_guaranteed(p, name) for p in self._of(part)))

    def _of(self, part: QueuePart) -> list[QueuePart]:
        return self._below.get(part.key, [])

    def _with_below(self, part: QueuePart, place: int) -> int:
        below = sum(self._with_below(child, place) for child in self._of(part))
        return self.by_part[part.key].own[place] + below


def _guaranteed(part: QueuePart, name: str) -> int:
    share = part.shares.get(name)
    return share.guaranteed if share else 0


def _parent(part: QueuePart, known: Mapping[str, QueuePart]) -> str:
    """Return the organisation above; the root where there is none, and where a circle is cut."""
    seen, key = {part.key}, part.parent
    while key in known and not known[key].namespace:
        if key in seen:
            return ""
        seen.add(key)
        key = known[key].parent
    return part.parent if part.parent in seen else ""


def fitted(wanted: Mapping[str, int], there: int) -> dict[str, int]:
    """Return what is wanted, each less by the same part where it is more than there is."""
    total = sum(wanted.values())
    if total <= there:
        return dict(wanted)
    found = {key: count * there // total for key, count in wanted.items()}
    left = there - sum(found.values())
    for key in sorted(wanted, key=lambda one: (-(wanted[one] * there % total), one))[:left]:
        found[key] += 1
    return found


def _filled(count: int, room: Mapping[int, int]) -> dict[int, int]:
    """Return ``count`` spread over the places, the first filled first."""
    found: dict[int, int] = {}
    for place, most in room.items():
        found[place] = min(count, max(0, most))
        count -= found[place]
    return found


def _all_of(places: Iterable[int], found: Mapping[int, int]) -> dict[int, int]:
    return {place: found.get(place, 0) for place in places}


class _Maker:
    """Builds objects of one cluster."""

    def __init__(self, options: KubernetesOptions, quotas: _Quotas, root: str) -> None:
        self._options = options
        self._quotas = quotas
        self._root = root
        tree = quotas.tree
        devices = sorted({kind.resource for kind in tree.kinds})
        others = {name for has in (tree.plain, *(k.beside for k in tree.kinds)) for name in has}
        others -= {_CPU, _MEMORY, *devices}
        self._covered = [_CPU, _MEMORY, _SPACE, *devices, *sorted(others)]

    def topology(self, levels: tuple[str, ...]) -> Object:
        spec = {"levels": [{"nodeLabel": label} for label in levels]}
        return self._object("Topology", self._named(_of_levels(_LEVELS, levels)), spec=spec)

    def flavor(
        self,
        word: str,
        labels: Mapping[str, str],
        taints: list[Object],
        levels: tuple[str, ...],
    ) -> Object:
        spec: Object = {"nodeLabels": dict(labels)} if labels else {}
        if levels:
            spec["topologyName"] = self._named(_of_levels(_LEVELS, levels))
        if taints:
            spec["nodeTaints"] = taints
        return self._object("ResourceFlavor", self._named(word), spec=spec)

    def priority(self, name: str, value: int) -> Object:
        made = self._object("WorkloadPriorityClass", self._named(name), value=value)
        return {**made, "description": "Made by Berth."}

    def cohort(self, part: QueuePart | None) -> Object:
        """None: the root, which has what is guaranteed to nobody."""
        spec: Object = {"fairSharing": {"weight": _weight(part)}, "resourceGroups": self._of(part)}
        if part is None:
            return self._object("Cohort", self._root, spec=spec)
        spec["parentName"] = self._above(part)
        return self._object("Cohort", self._named(part.key), part, spec=spec)

    def queues(self, part: QueuePart) -> list[Object]:
        """A project's ClusterQueue, and the way to it from its namespace."""
        there = {"key": "kubernetes.io/metadata.name", "operator": "In", "values": [part.namespace]}
        spec = {
            "cohortName": self._above(part),
            "fairSharing": {"weight": _weight(part)},
            # What is the project's own is looked for in all kinds before it borrows or reclaims.
            "flavorFungibility": {
                "whenCanBorrow": "TryNextFlavor",
                "whenCanPreempt": "TryNextFlavor",
            },
            "namespaceSelector": {"matchExpressions": [there]},
            "preemption": {
                "borrowWithinCohort": {"policy": "Never"},
                "reclaimWithinCohort": "Any",
                "withinClusterQueue": "LowerPriority",
            },
            "queueingStrategy": "BestEffortFIFO",
            "resourceGroups": self._of(part),
            "stopPolicy": "None",
        }
        way = {"clusterQueue": part.namespace, "stopPolicy": "None"}
        local = self._object("LocalQueue", LOCAL, part, spec=way)
        local["metadata"]["namespace"] = part.namespace
        return [self._object("ClusterQueue", part.namespace, part, spec=spec), local]

    def _above(self, part: QueuePart) -> str:
        key = self._quotas.parents[part.key]
        return self._named(key) if key else self._root

    def _of(self, part: QueuePart | None) -> list[Object]:
        kinds = self._quotas.tree.kinds
        flavors = [self._plain(part), *(self._kind(part, i) for i in range(len(kinds)))]
        return [{"coveredResources": self._covered, "flavors": flavors}]

    def _plain(self, part: QueuePart | None) -> Object:
        has = self._quotas.tree.plain if part is None else {}
        space = {_SPACE: _ENDLESS} if part is None else {}
        texts = {**_texts(has), **space}
        found = [{"name": n, "nominalQuota": texts.get(n, "0")} for n in self._covered]
        return {"name": self._named(_plain_word(self._quotas.tree)), "resources": found}

    def _kind(self, part: QueuePart | None, place: int) -> Object:
        kind = self._quotas.tree.kinds[place]
        if part is None:
            parts = self._quotas.by_part.values()
            taken = Counter[str]()
            for one in parts:
                taken.update(_amounts(kind, one.own[place]))
            whole = {**kind.beside, kind.resource: kind.devices}
            texts = {**_texts({n: whole[n] - taken[n] for n in whole}), _SPACE: _ENDLESS}
            limits: dict[str, dict[str, str]] = {}
        else:
            quota = self._quotas.by_part[part.key]
            texts = _texts(_amounts(kind, quota.own[place]))
            limits = self._limits(part, quota, place)
        found = [
            {
                "name": name,
                "nominalQuota": texts.get(name, "0"),
                **{word: said[name] for word, said in limits.items() if name in said},
            }
            for name in self._covered
        ]
        return {"name": self._named(kind_word(kind)), "resources": found}

    def _limits(self, part: QueuePart, quota: Quota, place: int) -> dict[str, dict[str, str]]:
        """A ceiling counts devices only; what is lent of them is lent with what they bring."""
        kind = self._quotas.tree.kinds[place]
        found = {}
        if place in quota.borrows:
            found["borrowingLimit"] = _texts({kind.resource: quota.borrows[place]})
        if place in quota.lends:
            lent = quota.lends[place]
            if part.namespace:  # Kueue wants no more than it has
                lent = min(lent, quota.own[place])
            found["lendingLimit"] = _texts(_amounts(kind, lent))
        return found

    def _named(self, word: str) -> str:
        return names.queue_object(self._options.namespace_prefix, word)

    def _object(self, kind: str, name: str, part: QueuePart | None = None, **more: Any) -> Object:
        options = self._options
        uid = part.key if part else name
        own = names.labels(options.namespace_prefix, options.installation, uid=uid, kind=KIND)
        extra = {key: names.label_value(value) for key, value in options.extra.items()}
        meta: Object = {"labels": {**extra, **own}, "name": name}
        if part is not None:
            meta["annotations"] = {f"{names.DOMAIN}/name": part.name}
        return {"apiVersion": VERSION, "kind": kind, "metadata": meta, **more}


def _amounts(kind: QueueKind, devices: int) -> dict[str, int]:
    """Return so many devices, and the part of their nodes that they bring."""
    there = max(1, kind.devices)
    brought = {name: amount * devices // there for name, amount in kind.beside.items()}
    return {**brought, kind.resource: devices}


def _texts(amounts: Mapping[str, int]) -> dict[str, str]:
    return {name: _text(name, amount) for name, amount in amounts.items()}


def _text(name: str, amount: int) -> str:
    if not amount:
        return "0"
    if name == _CPU:
        return cpu(amount) if amount % 1000 else decimal(amount // 1000)
    return binary(amount, "Mi") if name == _MEMORY else decimal(amount)


def _weight(part: QueuePart | None) -> str:
    return "1" if part is None else _text(_CPU, int(part.weight * 1000))


def digest_of(obj: Mapping[str, Any]) -> Any:
    """Return what matters of an object: the same of what was built and of what lives."""
    labels = obj["metadata"].get("labels") or {}
    ours = {k: v for k, v in labels.items() if k.startswith(f"{names.DOMAIN}/")}
    return ours, _clean(obj.get("spec") or {}), obj.get("value")


def _clean(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _clean(v) for k, v in value.items() if v is not None and v != []}
    return [_clean(v) for v in value] if isinstance(value, list) else value


def key_of(obj: Mapping[str, Any]) -> str:
    meta = obj["metadata"]
    where = f"{meta['namespace']}/" if meta.get("namespace") else ""
    return f"{obj['kind']}/{where}{meta['name']}"
