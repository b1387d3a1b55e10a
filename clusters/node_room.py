"""How many devices of a kind are free together: no workload is split over nodes."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from clusters.accelerators import held_by_kind, ours_by_kind
from clusters.demand import held_on
from clusters.models import Flavor, Node

if TYPE_CHECKING:
    from collections.abc import Iterable

    from clusters.eligibility import Reach
    from clusters.kind_use import KindUse
    from clusters.models import Cluster


@dataclass(frozen=True)
class NodeRoom:
    """A node, and how many devices of each kind are free on it: none while it is not up."""

    node: Node
    free: Counter[str]

    @property
    def is_up(self) -> bool:
        return self.node.ready and self.node.schedulable


class NodeRooms:
    """Of some clusters, looked at when it first matters; a constant number of queries."""

    def __init__(self, clusters: Iterable[Cluster]) -> None:
        self._clusters = {cluster.pk: cluster for cluster in clusters}

    def most(self, cluster: Cluster, kind: str, reach: Reach) -> int | None:
        """Return how many of a kind are free together; None where no node is known."""
        rooms = self._known(cluster, reach)
        if not any(room.is_up for room in rooms):
            return None
        return max((room.free[kind] for room in rooms if reach.admits(room.node, kind)), default=0)

    def narrowed(self, use: KindUse, reach: Reach) -> KindUse:
        """Return what there is of a kind on nodes that such work may get."""
        rooms = [] if reach.is_everywhere else self._known(use.cluster, reach)
        if not rooms:
            return use
        kind = use.flavor.name
        rooms = [room for room in rooms if reach.admits(room.node, kind)]
        there = [int(room.node.offers.get(kind, 0)) for room in rooms]
        cpu_milli, memory_mib = _largest(
            room.node for room in rooms if room.is_up and room.node.offers.get(kind)
        )
        total = sum(there)
        # what starts at this moment is seen on no node yet
        free = min(use.free, sum(room.free[kind] for room in rooms))
        return replace(
            use,
            total=total,
            used=total - free,
            used_out=0,
            held=0,
            largest=max(there, default=0),
            cpu_milli=cpu_milli,
            memory_mib=memory_mib,
        )

    def plain(self, cluster: Cluster, reach: Reach) -> tuple[int, int]:
        """Return the most CPU and memory of a node for work without devices; 0: not known."""
        capacity = cluster.capacity or {}
        if reach.is_everywhere:
            return int(capacity.get("plain_cpu_milli") or 0), int(
                capacity.get("plain_memory_mib") or 0
            )
        nodes = self._up.get(cluster.pk, [])
        if not nodes or not reach.is_known_by(nodes):
            return 0, 0
        return _largest(node for node in nodes if reach.admits_plain(node))

    def _known(self, cluster: Cluster, reach: Reach) -> list[NodeRoom]:
        rooms = self._rooms.get(cluster.pk, [])
        return rooms if reach.is_known_by(room.node for room in rooms) else []

    @cached_property
    def _rooms(self) -> dict[int, list[NodeRoom]]:
        ours = held_on([cluster.key for cluster in self._clusters.values()])
        resources = dict(Flavor.objects.values_list("name", "resource"))
        found: dict[int, list[NodeRoom]] = defaultdict(list)
        for node in self._nodes():
            cluster, room = self._clusters[node.cluster_id], NodeRoom(node, Counter())
            found[cluster.pk].append(room)
            if not room.is_up:
                continue
            others = (cluster.held or {}).get(node.name, {})
            taken = Counter(held_by_kind(node.offers, others, resources))
            taken.update(ours_by_kind(node.offers, ours[cluster.key, node.name]))
            room.free.update({k: max(0, int(n) - taken[k]) for k, n in node.offers.items()})
        return dict(found)

    def _nodes(self) -> Iterable[Node]:
        rows = Node.objects.filter(cluster__in=list(self._clusters)).exclude(offers={})
        return rows.defer("message", "version")

    @cached_property
    def _up(self) -> dict[int, list[Node]]:
        found: dict[int, list[Node]] = defaultdict(list)
        rows = Node.objects.filter(cluster__in=list(self._clusters), ready=True, schedulable=True)
        for node in rows.only("cluster_id", "cpu_milli", "memory_mib", "labels", "taints"):
            found[node.cluster_id].append(node)
        return dict(found)


def _largest(nodes: Iterable[Node]) -> tuple[int, int]:
    """Return the most CPU and the most memory that one of them has."""
    sizes = [(node.cpu_milli, node.memory_mib) for node in nodes]
    return max((cpu for cpu, _memory in sizes), default=0), max(
        (memory for _cpu, memory in sizes), default=0
    )
