"""How many devices of a kind are free together: no workload is split over nodes."""

from __future__ import annotations

from collections import Counter, defaultdict
from functools import cached_property
from typing import TYPE_CHECKING, Any

from django.db.models import OuterRef, Subquery
from django.db.models.fields.json import KT

from clusters.accelerators import closed_by, held_by_kind, ours_by_kind
from clusters.demand import HELD, models_with_gpus
from clusters.models import Flavor, Node, Pool
from runtime.models import ObservedWorkload

if TYPE_CHECKING:
    from collections.abc import Iterable

    from clusters.models import Cluster


class Together:
    """Of some clusters, looked at when it first matters; a constant number of queries.

    Only who asks for several devices needs it: one that is free is free on some node.
    """

    def __init__(self, clusters: Iterable[Cluster]) -> None:
        self._clusters = {cluster.pk: cluster for cluster in clusters}

    def most(self, cluster: Cluster, kind: str) -> int | None:
        """Return how many of a kind are free on one node; None where no node is known."""
        found = self._most.get(cluster.pk)
        return None if found is None else found[kind]

    @cached_property
    def _most(self) -> dict[int, Counter[str]]:
        ours = self._ours()
        tolerations = self._tolerations()
        resources = dict(Flavor.objects.values_list("name", "resource"))
        found: dict[int, Counter[str]] = {}
        for node in self._nodes():
            cluster = self._clusters[node.cluster_id]
            most = found.setdefault(cluster.pk, Counter())
            if closed_by(node.taints, node.accelerators, tolerations[cluster.pk]):
                continue
            others = (cluster.held or {}).get(node.name, {})
            taken = Counter(held_by_kind(node.offers, others, resources))
            taken.update(ours_by_kind(node.offers, ours[cluster.key, node.name]))
            for kind, devices in node.offers.items():
                most[kind] = max(most[kind], int(devices) - taken[kind])
        return found

    def _nodes(self) -> Iterable[Node]:
        rows = Node.objects.filter(cluster__in=list(self._clusters), ready=True, schedulable=True)
        return rows.exclude(offers={}).only(
            "cluster_id", "name", "offers", "taints", "accelerators"
        )

    def _tolerations(self) -> dict[int, list[Any]]:
        found: dict[int, list[Any]] = defaultdict(list)
        rows = Pool.objects.filter(cluster__in=list(self._clusters)).order_by()
        for pk, entries in rows.values_list("cluster_id", "tolerations"):
            found[pk] += entries
        return found

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
