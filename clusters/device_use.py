"""How much there is of each kind of GPU on clusters, and which kinds work may ask for."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any
from uuid import UUID

from clusters.accelerators import closed_by, held_by_kind, ours_by_kind
from clusters.demand import Demand, Placed, demand_on, held_on, placed_on
from clusters.models import Cluster, Flavor, Node, Pool
from clusters.wording import work_words
from common.hooks import Hook

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime

    from clusters.models import Cluster


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


# What is held on each node of a cluster, by whom, and whether it is used.
#
# Numbers come from what live rows ask for and from where the watch saw them; names and use from the
# apps that own the rows (``register``). A constant number of queries, whatever there is.


MOST_NAMED = 200  # nodes that a question names; beyond them it is asked for the whole cluster


@dataclass(frozen=True)
class Told:
    """What an app says of its work: as much as an operator may see, never what is inside.

    Utilisation is in percent of all devices that it holds; None: not known, which is not 0.
    """

    name: str
    url: str = ""
    owner: str = ""
    project: str = ""
    utilisation: float | None = None
    utilisation_hour: float | None = None  # the mean of the last hour
    idle_words: str = ""
    idle_since: datetime | None = None


@dataclass(frozen=True)
class Holder:
    """Work that holds devices of a node."""

    kind: str
    uid: UUID
    gpus: int
    told: Told


@dataclass(frozen=True)
class NodeUse:
    """One node with its devices by kind: held by Berth's work, by others' pods, free."""

    node: Node
    closed: str = ""  # the taint that keeps all work off
    held: Mapping[str, int] = field(default_factory=dict)
    others: Mapping[str, int] = field(default_factory=dict)
    placed: tuple[Placed, ...] = ()
    holders: tuple[Holder, ...] = ()

    @property
    def usable(self) -> bool:
        """Whether anything may start there: what is free of it can be given out."""
        return self.node.ready and self.node.schedulable and not self.closed

    @property
    def free(self) -> dict[str, int]:
        taken = Counter(self.held) + Counter(self.others)
        return {
            kind: max(0, int(devices) - taken[kind]) if self.usable else 0
            for kind, devices in self.node.offers.items()
        }

    @property
    def total_count(self) -> int:
        return sum(self.node.offers.values())

    @property
    def held_count(self) -> int:
        return sum(self.held.values())

    @property
    def others_count(self) -> int:
        return sum(self.others.values())

    @property
    def free_count(self) -> int:
        return sum(self.free.values())


# (kind, uids) → what is told of them; of many rows at once, in a constant number of queries.
about: Hook[[str, Collection[UUID]], Mapping[UUID, Told]] = Hook()


def node_uses(cluster: Cluster, nodes: Iterable[Node]) -> list[NodeUse]:
    """Return how the devices of some nodes of a cluster are held, without names."""
    asked = list(nodes)
    names = [node.name for node in asked]
    placed: dict[str, list[Placed]] = {}
    for one in _on_nodes(cluster, names if len(names) <= MOST_NAMED else None):
        placed.setdefault(one.node, []).append(one)
    pools = Pool.objects.filter(cluster=cluster).values_list("tolerations", flat=True)
    tolerations = [entry for entries in pools for entry in entries]
    resources = dict(Flavor.objects.values_list("name", "resource"))
    found = []
    for node in asked:
        mine = placed.get(node.name, [])
        taken = (cluster.held or {}).get(node.name, {})
        found.append(
            NodeUse(
                node=node,
                closed=closed_by(node.taints, node.accelerators, tolerations),
                held=ours_by_kind(node.offers, ((p.flavor, p.gpus) for p in mine)),
                others=held_by_kind(node.offers, taken, resources),
                placed=tuple(sorted(mine, key=lambda one: (-one.gpus, one.uid))),
            )
        )
    return found


def with_holders(uses: Iterable[NodeUse]) -> list[NodeUse]:
    """Return the same with who holds them: for the rows that are shown."""
    rows = list(uses)
    told = told_of(one for use in rows for one in use.placed)
    return [
        replace(use, holders=tuple(Holder(p.kind, p.uid, p.gpus, told[p.uid]) for p in use.placed))
        for use in rows
    ]


def _on_nodes(cluster: Cluster, names: Collection[str] | None = None) -> list[Placed]:
    """Return what holds devices of some nodes, of all that are known where none is named."""
    found = placed_on([cluster.key], nodes=names)
    return [one for one in found if one.node]


def told_of(placed: Iterable[Placed]) -> dict[UUID, Told]:
    """Return what the apps say of such work; of what nobody knows, what kind it is."""
    rows = list(placed)
    found = {one.uid: Told(name=work_words(one.kind)) for one in rows}
    for kind in {one.kind for one in rows}:
        for told in about(kind, [one.uid for one in rows if one.kind == kind]):
            found.update(told)
    return found


def held_by(cluster: Cluster, words: str) -> set[str]:
    """Return names of nodes on which work so called, or of somebody so called, holds devices."""
    placed, sought = _on_nodes(cluster), words.casefold()
    told = told_of(placed)
    return {
        one.node
        for one in placed
        if any(
            sought in text.casefold()
            for text in (told[one.uid].name, told[one.uid].owner, told[one.uid].project)
        )
    }
