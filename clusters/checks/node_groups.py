"""Which nodes the self-check's pods are tried on: some of every pool, and of those in none.

What enforces policies runs on each node for itself, and may lack just where taints keep other pods
off. Nodes of a pool that carry the same taints are taken to be alike, and simulated ones are none.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from clusters.accelerators import closed_by
from clusters.models import Flavor, Pool
from common.clock import now
from runtime.capabilities.clusters import NodeFacts
from runtime.drivers.kubernetes.nodes import facts_of
from runtime.spec import Placement

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from clusters.checks.base import Subject
    from clusters.models import Cluster

SIMULATED = "kwok.x-k8s.io/node"  # a taint: pods there only seem to run
MOST_GROUPS = 5  # in one run; what is beyond has its turn on other days
MOST_NODES = 8  # of a group: the scheduler takes one that has room
READ, PAGES = 200, 25  # nodes are large objects
CLOSING = frozenset({"NoSchedule", "NoExecute"})
_T = TypeVar("_T")


@dataclass(frozen=True)
class NodeGroup:
    """Nodes of which any stands for all. Without ``nodes``: wherever the scheduler likes."""

    pool: str = ""
    nodes: tuple[str, ...] = ()
    tolerations: tuple[Mapping[str, str], ...] = ()


ANYWHERE = NodeGroup()


@dataclass(frozen=True)
class Chosen:
    """The groups whose turn it is, of ``total``."""

    groups: tuple[NodeGroup, ...]
    total: int


def tolerations(cluster: Cluster) -> tuple[Mapping[str, str], ...]:
    """What work on the cluster may tolerate: taints of its pools, and those named like devices."""
    if cluster.pk is None:
        return ()
    resources = {Placement.resource, *Flavor.objects.values_list("resource", flat=True)}
    devices = [{"key": name, "operator": "Exists"} for name in sorted(resources)]
    entries = [entry for pool in _pools(cluster) for entry in pool.tolerations]
    return _each_once(devices, entries)


def chosen(subject: Subject, first: Collection[str] = ()) -> Chosen:
    """Return the groups to be probed now. ``first``: nodes that must be among them, if any can."""
    groups: dict[tuple[str, frozenset[str]], list[NodeFacts]] = {}
    pools = _pools(subject.cluster)
    for node in _usable(_nodes(subject), pools):
        taints = frozenset(t["key"] for t in node.taints if t.get("effect") in CLOSING)
        groups.setdefault((_pool_of(node, pools), taints), []).append(node)
    if not groups:
        return Chosen((ANYWHERE,), 1)
    urgent: list[NodeGroup] = []
    others: list[NodeGroup] = []
    for (pool, taints), nodes in sorted(groups.items(), key=lambda item: _rank(item[0], pools)):
        wanted = [node for node in nodes if node.name in first]
        made = _group(pool, taints, wanted or nodes)
        (urgent if wanted else others).append(made)
    turn = _turn(others, MOST_GROUPS - len(urgent))
    return Chosen((*urgent[:MOST_GROUPS], *turn), len(groups))


def placed(group: NodeGroup, also: Iterable[Mapping[str, str]] = ()) -> dict[str, Any]:
    """Return the fields of a pod's spec that bring it to a node of the group.

    By the scheduler, which knows where there is room. ``also``: what it tolerates besides.
    """
    found: dict[str, Any] = {}
    if tolerated := [dict(entry) for entry in _each_once(also, group.tolerations)]:
        found["tolerations"] = tolerated
    if group.nodes:
        terms = [
            {"matchFields": [{"key": "metadata.name", "operator": "In", "values": [name]}]}
            for name in group.nodes
        ]
        required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
        found["affinity"] = {"nodeAffinity": required}
    return found


def _group(pool: str, taints: Iterable[str], nodes: Sequence[NodeFacts]) -> NodeGroup:
    devices = {name for node in nodes for name in node.accelerators} & set(taints)
    return NodeGroup(
        pool=pool,
        nodes=tuple(node.name for node in _turn(nodes, MOST_NODES)),
        tolerations=tuple({"key": name, "operator": "Exists"} for name in sorted(devices)),
    )


def _nodes(subject: Subject) -> Iterator[NodeFacts]:
    """Ask the API server: right after attaching no watch has told of nodes yet."""
    token = ""
    for _page in range(PAGES):
        params = {"limit": str(READ), **({"continue": token} if token else {})}
        answer = subject.api.ask("GET", "/api/v1/nodes", params=params)
        if not answer.ok:
            return
        yield from map(facts_of, answer.body.get("items") or ())
        token = str((answer.body.get("metadata") or {}).get("continue") or "")
        if not token:
            return


def _usable(nodes: Iterable[NodeFacts], pools: Iterable[Pool]) -> Iterator[NodeFacts]:
    """Those that work can come to, and that are machines with Linux."""
    known = _each_once([entry for pool in pools for entry in pool.tolerations])
    for node in nodes:
        fits = node.labels.get("kubernetes.io/os", "linux") == "linux"
        up = node.ready and node.schedulable
        if up and fits and not closed_by(node.taints, node.accelerators, known):
            yield node


def _pools(cluster: Cluster) -> list[Pool]:
    return list(Pool.objects.filter(cluster=cluster)) if cluster.pk else []


def _pool_of(node: NodeFacts, pools: Iterable[Pool]) -> str:
    """The pool that says most of the node; '' for none."""
    fitting = [pool for pool in pools if pool.node_labels.items() <= node.labels.items()]
    return max(fitting, key=lambda pool: len(pool.node_labels)).name if fitting else ""


def _rank(key: tuple[str, frozenset[str]], pools: Sequence[Pool]) -> tuple[int, list[str]]:
    """Nodes of no pool come first, then the pools in their order."""
    pool, taints = key
    names = [row.name for row in pools]
    return (names.index(pool) + 1 if pool else 0), sorted(taints)


def _each_once(*lists: Iterable[Mapping[str, Any]]) -> tuple[Mapping[str, str], ...]:
    """No machine is behind a simulated node, so its taint is never tolerated."""
    found: list[Mapping[str, str]] = []
    for entry in (entry for entries in lists for entry in entries):
        clean = {name: str(value) for name, value in entry.items() if value != ""}
        if clean.get("key") != SIMULATED and clean not in found:
            found.append(clean)
    return tuple(found)


def _turn(items: Sequence[_T], most: int) -> list[_T]:
    """As many as may be, others on each day."""
    if len(items) <= most:
        return list(items)
    start = now().toordinal() * max(most, 0) % len(items)
    return [*items[start:], *items[:start]][: max(most, 0)]
