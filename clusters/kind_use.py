"""How much there is of each kind of GPU on clusters, and which kinds work may ask for."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from clusters.accelerators import closed_by, ours_by_kind
from clusters.demand import Demand, demand_on, held_on
from clusters.models import Cluster, Flavor, Node, Pool

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping


@dataclass(frozen=True)
class KindUse:
    """One kind of GPU on one cluster. ``largest``: most of them on one node."""

    cluster: Cluster
    flavor: Flavor
    total: int
    used: int
    waiting: int
    largest: int
    out: int = 0  # on nodes that are not up
    held: int = 0  # by pods that Berth did not make
    used_out: int = 0  # of those used, on nodes that are not up: not among ``total``
    cpu_milli: int = 0  # most on one node that has some of them; 0: not known
    memory_mib: int = 0

    @property
    def free(self) -> int:
        return max(0, self.total - (self.used - self.used_out) - self.held)


def kinds_for(
    clusters: Collection[Cluster], project_uid: Any, work_classes: Collection[str]
) -> list[KindUse]:
    """Return the kinds of GPU that some of this work may ask for."""
    ours: set[tuple[int, str]] = set()
    theirs: set[tuple[int, str]] = set()
    rows = Pool.objects.filter(cluster__in=clusters, flavors__isnull=False).order_by()
    columns = ("cluster_id", "kinds", "project_uids", "flavors__name")
    for cluster_id, kinds, uids, name in rows.values_list(*columns):
        pool = Pool(kinds=kinds, project_uids=uids)
        admitted = any(pool.admits(work, project_uid) for work in work_classes)
        (ours if admitted else theirs).add((cluster_id, name))
    hidden = theirs - ours
    return [use for use in uses(clusters) if (use.cluster.pk, use.flavor.name) not in hidden]


def uses(
    clusters: Iterable[Cluster],
    demand: Mapping[str, Demand] | None = None,
    flavors: Collection[Flavor] | None = None,
) -> list[KindUse]:
    """Return every kind on some clusters, with what is free. Constant queries.

    ``demand`` of these clusters and ``flavors``, all in order: where the caller knows them.
    """
    rows = [c for c in clusters if c.kinds]
    if not rows:
        return []
    demand = demand or demand_on([c.key for c in rows])
    if flavors is None:
        flavors = list(Flavor.objects.order_by("position", "name"))
    out = _used_out(rows)
    return [
        KindUse(
            cluster=cluster,
            flavor=flavor,
            total=cluster.kinds[flavor.name]["total"],
            used=demand[cluster.key].used[flavor.name],
            waiting=demand[cluster.key].waiting[flavor.name],
            largest=cluster.kinds[flavor.name]["largest"],
            out=cluster.kinds[flavor.name].get("out", 0),
            held=cluster.kinds[flavor.name].get("held", 0),
            used_out=min(demand[cluster.key].used[flavor.name], out[cluster.key, flavor.name]),
            cpu_milli=cluster.kinds[flavor.name].get("largest_cpu_milli", 0),
            memory_mib=cluster.kinds[flavor.name].get("largest_memory_mib", 0),
        )
        for cluster in rows
        for flavor in flavors
        if flavor.name in cluster.kinds
    ]


def _used_out(clusters: Iterable[Cluster]) -> Counter[tuple[str, str]]:
    """Return what our work holds on nodes from which nothing is given out now (cordoned, lost)."""
    found: Counter[tuple[str, str]] = Counter()
    rows = {c.pk: c for c in clusters if any(kind.get("out") for kind in c.kinds.values())}
    if not rows:
        return found
    held = held_on([cluster.key for cluster in rows.values()])
    known: dict[int, list[Mapping[str, str]]] = defaultdict(list)
    pools = Pool.objects.filter(cluster__in=list(rows))
    for pk, tolerations in pools.values_list("cluster_id", "tolerations"):
        known[pk] += tolerations
    for node in Node.objects.filter(cluster__in=list(rows)).exclude(offers={}):
        key = rows[node.cluster_id].key
        work = held.get((key, node.name))
        is_up = node.ready and node.schedulable
        if not work or (
            is_up and not closed_by(node.taints, node.accelerators, known[node.cluster_id])
        ):
            continue
        for kind, devices in ours_by_kind(node.offers, work).items():
            found[key, kind] += devices
    return found
