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
    sums = [rows.values(*columns).annotate(n=Sum(F("gpus") * F("count"))) for rows in live]
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
        for key, uid, gpus, count, flavor, node, told, own in rows.filter(
            cluster_key__in=list(keys), deleted_at__isnull=True, gpus__gt=0, phase__in=HELD
        )
        .annotate(
            node=Subquery(seen.values("on")[:1]),
            replicas_told=Subquery(seen.values("told")[:1]),
            count=_replicas(rows),
        )
        .filter(only or Q(), there)
        .order_by()
        .values_list(
            *("cluster_key", "uid", "gpus", "count", "gpu_flavor", "node", "replicas_told"),
            "uid" if kind else "kind",
        )
        for placed in _by_node(Placed(kind or own, key, uid, gpus, flavor, node or ""), count, told)
    ]
    return found if nodes is None else [one for one in found if one.node in set(nodes)]


def _by_node(whole: Placed, count: int, told: str | None) -> list[Placed]:
    """Return what each node holds of it; what has no node yet is one, too."""
    if count == 1:
        return [whole]
    on = Counter(
        str(one.get("node") or "")
        for one in json.loads(told or "[]")[:count]
        if one.get("seen") != Seen.EXITED
    )
    if not told:
        on[whole.node] = count
    return [replace(whole, gpus=whole.gpus * n, node=node) for node, n in sorted(on.items())]


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
    """Return rows of one table with ``count``: how many take the size of each."""
    return rows.annotate(count=_replicas(rows))


def _replicas(rows: Any) -> Any:
    """Return the expression of how many take the size of a row each: 1 where its kind has none."""
    links = [
        reconciler.model._meta.get_ancestor_link(rows.model)  # noqa: SLF001 - any model
        for reconciler in reconcilers.registered().values()
        if reconcilers.table_of(reconciler.model) is rows.model is not reconciler.model
        and any(f.name == "replicas" for f in reconciler.model._meta.local_fields)  # noqa: SLF001
    ]
    counts = [F(f"{link.remote_field.get_accessor_name()}__replicas") for link in links if link]
    return Coalesce(*counts, Value(1)) if counts else Value(1)


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
