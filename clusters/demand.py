"""What live workloads ask of clusters, by kind of GPU, without knowing any kind of workload.

Every row that the engine looks after and that has a ``gpus`` column counts.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from django.db.models import F, OuterRef, Q, Subquery, Sum, Value
from django.db.models.fields.json import KT
from django.db.models.functions import Coalesce

from clusters.models import Node
from runtime import reconcilers
from runtime.models import ObservedWorkload
from runtime.protocol import Desired, Phase, Seen

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from uuid import UUID

PLACE = "place"
# What Berth itself keeps on a cluster: without work it goes with the cluster.
_OWN = frozenset({PLACE, "queues"})
_NODE_KIND = ("cluster__key", "name", "flavor__name")
HELD = (Phase.STARTING, Phase.RUNNING, Phase.STOPPING, Phase.DELETING, Phase.UNKNOWN)


@dataclass
class Demand:
    """GPUs by flavor name; ``anywhere`` are held ones whose kind is not known yet."""

    used: Counter[str] = field(default_factory=Counter)
    waiting: Counter[str] = field(default_factory=Counter)
    anywhere: int = 0
    workloads: int = 0


@dataclass(frozen=True)
class Placed:
    """Live work that holds devices, and the node on which it was seen; '' before that."""

    kind: str
    cluster_key: str
    uid: UUID
    gpus: int
    flavor: str
    node: str


def demand_on(cluster_keys: list[str]) -> dict[str, Demand]:
    """Return what is held and waited for on some clusters; a constant number of queries."""
    found = {key: Demand() for key in cluster_keys}
    live = [
        rows.filter(cluster_key__in=cluster_keys, deleted_at__isnull=True, gpus__gt=0).order_by()
        for rows, _kind in rows_with_gpus()
    ]
    live = [with_replicas(rows) for rows in live]
    columns = ("cluster_key", "gpu_flavor", "phase", "desired")
    sums = [rows.values(*columns).annotate(n=Sum("all_gpus")) for rows in live]
    loose = False
    for row in sums[0].union(*sums[1:], all=True) if sums else ():
        _count(found[row["cluster_key"]], row)
        loose |= row["phase"] in HELD and not _is_one(row["gpu_flavor"])
    if loose:
        _find_loose(found)
    return found


def placed_on(
    keys: Collection[str], only: Q | None = None, nodes: Collection[str] | None = None
) -> list[Placed]:
    """Return what holds devices on some clusters, and where; one query for each table of work.

    Replicas that came to several nodes are one each. ``only``: of the columns of a workload;
    ``nodes``: those that are asked for, all where it is None.
    """
    seen = ObservedWorkload.objects.filter(
        cluster_key=OuterRef("cluster_key"), uid=OuterRef("uid")
    ).annotate(on=KT("data__detail__node"), told=KT("data__replicas"))
    there = Q() if nodes is None else Q(node__in=list(nodes)) | Q(replicas_told__isnull=False)
    found = [
        placed
        for rows, kind in rows_with_gpus()
        for key, uid, gpus, flavor, node, told, count, servers, each, own in rows.filter(
            cluster_key__in=list(keys), deleted_at__isnull=True, gpus__gt=0, phase__in=HELD
        )
        .annotate(
            node=Subquery(seen.values("on")[:1]),
            replicas_told=Subquery(seen.values("told")[:1]),
            **_sizes(rows),
        )
        .filter(only or Q(), there)
        .order_by()
        .values_list(
            *("cluster_key", "uid", "gpus", "gpu_flavor", "node", "replicas_told"),
            *("count", "servers", "gpus_each", "uid" if kind else "kind"),
        )
        for placed in _by_node(
            Placed(kind or own, key, uid, gpus, flavor, node or ""),
            [gpus] * count + [each] * servers,
            told,
        )
    ]
    return found if nodes is None else [one for one in found if one.node in set(nodes)]


def _by_node(whole: Placed, sizes: list[int], told: str | None) -> list[Placed]:
    """Return what each node holds of it; what has no node yet is one, too.

    ``sizes``: how many devices each replica has, by number.
    """
    if len(sizes) == 1:
        return [whole]
    on: Counter[str] = Counter()
    for one, gpus in zip(json.loads(told or "[]"), sizes, strict=False):
        if one.get("seen") != Seen.EXITED:
            on[str(one.get("node") or "")] += gpus
    if not told:
        on[whole.node] = sum(sizes)
    return [replace(whole, gpus=n, node=node) for node, n in sorted(on.items()) if n]


def held_on(keys: Collection[str]) -> dict[tuple[str, str], list[tuple[str, int]]]:
    """Return kind and count of what our own work holds, by cluster and node."""
    found: dict[tuple[str, str], list[tuple[str, int]]] = defaultdict(list)
    for one in placed_on(keys):
        found[one.cluster_key, one.node].append((one.flavor, one.gpus))
    return found


def live_on(cluster_key: str, *, holding: bool = False) -> dict[str, int]:
    """Return kind of row → how many there are that are not gone.

    A project's place and the queues are not counted: they go with the cluster. ``holding``: only
    those that keep the cluster from being detached (``holds_cluster`` of their reconciler;
    without it all of them).
    """
    found = {}
    for kind, reconciler in reconcilers.registered().items():
        if kind in _OWN:
            continue
        rows: Any = reconciler.model._default_manager  # noqa: SLF001 - any model
        rows = rows.filter(cluster_key=cluster_key, deleted_at__isnull=True)
        if holding and (holds := getattr(reconciler, "holds_cluster", None)):
            rows = holds(rows)
        if count := rows.count():
            found[kind] = count
    return found


def is_used(cluster_key: str) -> bool:
    """Whether any work there runs, ends or waits to start."""
    quiet = (Phase.STOPPED, Phase.FAILED, Phase.DELETED)
    return any(
        rows.filter(cluster_key=cluster_key, deleted_at__isnull=True)
        .exclude(phase__in=quiet)
        .exists()
        for rows, _kind in rows_with_gpus()
    )


def rows_with_gpus() -> Iterator[tuple[Any, str]]:
    """Return the rows of each table of work that may hold devices, and their kind.

    "" as the kind: each row says its own.
    """
    for rows, kind in reconcilers.tables():
        names = {f.name for f in rows.model._meta.get_fields()}  # noqa: SLF001 - any model
        if {"gpus", "gpu_flavor", "cluster_key"} <= names:
            yield rows, kind


def with_replicas(rows: Any) -> Any:
    """Return rows of one table with ``count``: how many take the size of each; and ``all_gpus``:
    how many devices they take, with those of servers of a size of their own.
    """
    servers = F("servers") * F("gpus_each")
    return rows.annotate(**_sizes(rows)).annotate(all_gpus=F("gpus") * F("count") + servers)


def _sizes(rows: Any) -> dict[str, Any]:
    """Return the expressions of how many take the size of a row each, of how many servers it has
    besides, and of the devices of each server.
    """
    return {
        "count": _column(rows, 1, "replicas_now", "replicas"),  # fewer after a loss
        "servers": _column(rows, 0, "parameter_servers"),
        "gpus_each": _column(rows, 0, "server_gpus"),
    }


def _column(rows: Any, otherwise: int, *names: str) -> Any:
    """Return the first of these columns that the kind of a row has and that says something."""
    links = [
        (reconciler.model._meta.get_ancestor_link(rows.model), reconciler.model)  # noqa: SLF001
        for reconciler in reconcilers.registered().values()
        if reconcilers.table_of(reconciler.model) is rows.model is not reconciler.model
    ]
    found = [
        F(f"{link.remote_field.get_accessor_name()}__{name}")
        for link, model in links
        for name in names
        if link and any(f.name == name for f in model._meta.local_fields)  # noqa: SLF001
    ]
    return Coalesce(*found, Value(otherwise)) if found else Value(otherwise)


def _count(demand: Demand, row: dict[str, Any]) -> None:
    flavor, amount = row["gpu_flavor"], row["n"] or 0
    if row["phase"] in HELD:
        if _is_one(flavor):
            demand.used[flavor] += amount
        return
    if row["phase"] == Phase.PENDING and row["desired"] == Desired.RUNNING:
        for name in [n.strip() for n in flavor.split(",")]:
            demand.waiting[name] += amount


def _find_loose(found: dict[str, Demand]) -> None:
    """Held GPUs of "any kind" and "any of" count for the kind of the node they came to."""
    loose = placed_on(found, Q(gpu_flavor="") | Q(gpu_flavor__contains=","))
    names = {one.node for one in loose}
    nodes = Node.objects.filter(cluster__key__in=found, name__in=names, flavor__isnull=False)
    kinds = {(key, name): kind for key, name, kind in nodes.values_list(*_NODE_KIND)}
    for one in loose:
        kind = kinds.get((one.cluster_key, one.node))
        if kind is None:
            found[one.cluster_key].anywhere += one.gpus
        else:
            found[one.cluster_key].used[kind] += one.gpus


def _is_one(flavor: str) -> bool:
    return bool(flavor) and "," not in flavor
