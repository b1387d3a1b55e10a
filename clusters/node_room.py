"""How many devices of a kind are free together: no workload is split over nodes."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING

from django.db.models import OuterRef, Subquery
from django.db.models.fields.json import KT

from clusters.accelerators import held_by_kind, ours_by_kind
from clusters.demand import HELD, models_with_gpus
from clusters.models import Flavor, Node
from runtime.models import ObservedWorkload

if TYPE_CHECKING:
    from collections.abc import Iterable

    from clusters.kind_use import KindUse
    from clusters.models import Cluster
    from clusters.reach import Reach


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
        total = sum(there)
        # what starts at this moment is seen on no node yet
        free = min(use.free, sum(room.free[kind] for room in rooms))
        return replace(use, total=total, used=total - free, held=0, largest=max(there, default=0))

    def _known(self, cluster: Cluster, reach: Reach) -> list[NodeRoom]:
        rooms = self._rooms.get(cluster.pk, [])
        return rooms if reach.is_known_by(room.node for room in rooms) else []

    @cached_property
    def _rooms(self) -> dict[int, list[NodeRoom]]:
        ours = self._ours()
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

    def _ours(self) -> dict[tuple[str, str], list[tuple[str, int]]]:
        """Return what our own work holds, by cluster and the node on which it was seen."""
        found: dict[tuple[str, str], list[tuple[str, int]]] = defaultdict(list)
        seen = ObservedWorkload.objects.filter(
            cluster_key=OuterRef("cluster_key"), uid=OuterRef("uid")
        ).annotate(node=KT("data__detail__node"))
        keys = [cluster.key for cluster in self._clusters.values()]
        for model in models_with_gpus():
            rows = model.objects.filter(
                cluster_key__in=keys, deleted_at__isnull=True, gpus__gt=0, phase__in=HELD
            ).order_by()
            rows = rows.annotate(seen_on=Subquery(seen.values("node")[:1]))
            for key, node, flavor, gpus in rows.values_list(
                "cluster_key", "seen_on", "gpu_flavor", "gpus"
            ):
                found[key, node or ""].append((flavor, gpus))
        return found
