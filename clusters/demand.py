"""What live workloads ask of clusters, by kind of GPU, without knowing any kind of workload.

Every row that the engine looks after and that has a ``gpus`` column counts.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from django.db.models import OuterRef, Q, Subquery, Sum
from django.db.models.fields.json import KT

from clusters.models import Node
from runtime import reconcilers
from runtime.models import ObservedWorkload
from runtime.protocol import Desired, Phase

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from uuid import UUID

MOST_LOOSE = 5000
PLACE = "place"
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
    """Live work that holds devices, and the node on which it was seen."""

    kind: str
    uid: UUID
    gpus: int
    gpu_flavor: str
    node: str


def demand_on(cluster_keys: list[str]) -> dict[str, Demand]:
    """Return what is held and waited for on some clusters; a constant number of queries."""
    found = {key: Demand() for key in cluster_keys}
    live = [
        rows.filter(cluster_key__in=cluster_keys, deleted_at__isnull=True, gpus__gt=0).order_by()
        for rows, _kind in rows_with_gpus()
    ]
    columns = ("cluster_key", "gpu_flavor", "phase", "desired")
    sums = [rows.values(*columns).annotate(n=Sum("gpus")) for rows in live]
    loose = False
    for row in sums[0].union(*sums[1:], all=True) if sums else ():
        _count(found[row["cluster_key"]], row)
        loose |= row["phase"] in HELD and not _is_one(row["gpu_flavor"])
    for rows in live if loose else ():
        _find_loose(rows.filter(phase__in=HELD), found)
    return found


def placed_on(cluster_key: str, nodes: Collection[str] | None = None) -> list[Placed]:
    """Return what holds devices of a cluster's nodes; one query more than tables of work.

    ``nodes``: of these only.
    """
    seen = ObservedWorkload.objects.filter(cluster_key=cluster_key)
    if nodes is not None:
        seen = seen.filter(data__detail__node__in=list(nodes))
    where = dict(seen.values_list("uid", KT("data__detail__node")))
    return [
        Placed(kind or own, uid, gpus, flavor, node)
        for rows, kind in rows_with_gpus()
        for uid, gpus, flavor, own in rows.filter(
            cluster_key=cluster_key, deleted_at__isnull=True, gpus__gt=0, phase__in=HELD
        ).values_list("uid", "gpus", "gpu_flavor", "uid" if kind else "kind")
        if (node := where.get(uid))
    ]


def held_on(keys: Collection[str]) -> dict[tuple[str, str], list[tuple[str, int]]]:
    """Return what our own work holds, by cluster and the node on which it was seen.

    One query for each table of work.
    """
    found: dict[tuple[str, str], list[tuple[str, int]]] = defaultdict(list)
    seen = ObservedWorkload.objects.filter(
        cluster_key=OuterRef("cluster_key"), uid=OuterRef("uid")
    ).annotate(node=KT("data__detail__node"))
    for table, _kind in rows_with_gpus():
        rows = table.filter(
            cluster_key__in=list(keys), deleted_at__isnull=True, gpus__gt=0, phase__in=HELD
        ).order_by()
        rows = rows.annotate(seen_on=Subquery(seen.values("node")[:1]))
        columns = ("cluster_key", "seen_on", "gpu_flavor", "gpus")
        for key, node, flavor, gpus in rows.values_list(*columns):
            found[key, node or ""].append((flavor, gpus))
    return found


def live_on(cluster_key: str, *, holding: bool = False) -> dict[str, int]:
    """Return kind of row → how many there are that are not gone.

    A project's place is not counted: without work in it, it goes with the cluster. ``holding``:
    only those that keep the cluster from being detached (``holds_cluster`` of their reconciler;
    without it all of them).
    """
    found = {}
    for kind, reconciler in reconcilers.registered().items():
        if kind == PLACE:
            continue
        rows: Any = reconciler.model._default_manager  # noqa: SLF001 - any model
        rows = rows.filter(cluster_key=cluster_key, deleted_at__isnull=True)
        if holding and (holds := getattr(reconciler, "holds_cluster", None)):
            rows = holds(rows)
        if count := rows.count():
            found[kind] = count
    return found


def rows_with_gpus() -> Iterator[tuple[Any, str]]:
    """Return the rows of each table of work that may hold devices, and their kind.

    "" as the kind: each row says its own.
    """
    for rows, kind in reconcilers.tables():
        names = {f.name for f in rows.model._meta.get_fields()}  # noqa: SLF001 - any model
        if {"gpus", "gpu_flavor", "cluster_key"} <= names:
            yield rows, kind


def _count(demand: Demand, row: dict[str, Any]) -> None:
    flavor, amount = row["gpu_flavor"], row["n"] or 0
    if row["phase"] in HELD:
        if _is_one(flavor):
            demand.used[flavor] += amount
        return
    if row["phase"] == Phase.PENDING and row["desired"] == Desired.RUNNING:
        for name in [n.strip() for n in flavor.split(",")]:
            demand.waiting[name] += amount


def _find_loose(rows: Any, found: dict[str, Demand]) -> None:
    """Held GPUs of "any kind" and "any of" count for the kind of the node they came to."""
    several = rows.filter(Q(gpu_flavor="") | Q(gpu_flavor__contains=",")).order_by()
    loose = list(several.values_list("cluster_key", "uid", "gpus", "gpu_flavor")[:MOST_LOOSE])
    if not loose:
        return
    placed = _nodes_of([uid for _key, uid, _gpus, _flavor in loose])
    kinds = {
        (key, name): flavor
        for key, name, flavor in Node.objects.filter(
            cluster__key__in=found, name__in=set(placed.values()), flavor__isnull=False
        ).values_list("cluster__key", "name", "flavor__name")
    }
    for key, uid, gpus, _flavor in loose:
        flavor = kinds.get((key, placed.get(uid, "")))
        if flavor is None:
            found[key].anywhere += gpus
        else:
            found[key].used[flavor] += gpus


def _nodes_of(uids: list[Any]) -> dict[Any, str]:
    placed = {}
    for begin in range(0, len(uids), 500):
        rows = ObservedWorkload.objects.filter(uid__in=uids[begin : begin + 500])
        for uid, data in rows.values_list("uid", "data"):
            placed[uid] = str((data.get("detail") or {}).get("node") or "")
    return placed


def _is_one(flavor: str) -> bool:
    return bool(flavor) and "," not in flavor
