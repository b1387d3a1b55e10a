"""What holds GPUs on clusters and what waits for them, as ``queues.sharing`` knows work.

A constant number of queries, however many clusters and workloads there are.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from django.db.models import F, Q, Value

from clusters.demand import HELD, placed_on, rows_with_gpus, with_replicas
from clusters.models import Claim, Cluster, Device, Hold, Node
from placement.decision import names_in
from queues.choices import Beyond, Purpose
from queues.models import Priority
from queues.sharing import Work
from runtime.protocol import Desired, Phase
from runtime.reasons import NOT_ASKED
from runtime.reconcilers import registered

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from projects.models import Project
    from queues.effect import Tree

_ASKED = ("uid", "cluster_key", "project__uid", "gpu_flavor", "phase", "asked_at", "priority")
_BUDGET = "over_budget"


@dataclass
class Standing:
    """One cluster: how many there are of each kind of GPU, and the work that wants or has them."""

    cluster: Cluster
    capacity: dict[str, int] = field(default_factory=dict)
    works: list[Work] = field(default_factory=list)
    kind_of_work: dict[str, str] = field(default_factory=dict)  # by uid: workspace, job, …

    def under(self, tree: Tree) -> list[Work]:
        """Return the work as a tree lets it in. One machine keeps what was so when it asked."""
        if not self.cluster.runs_images:
            return self.works
        found = []
        for work in self.works:
            builds = purpose_of(self.kind_of_work[work.uid]) == Purpose.BUILD
            stays = builds and tree.stays(work.part)
            found.append(replace(work, exceeds=not stays, reclaimable=work.borrows or not stays))
        return found


def standings(clusters: Iterable[Cluster]) -> dict[str, Standing]:
    """Return how clusters stand, by their keys."""
    found = {cluster.key: Standing(cluster) for cluster in clusters}
    machines = [one for one in found.values() if not one.cluster.runs_images]
    others = [one for one in found.values() if one.cluster.runs_images]
    if machines:
        _machines(machines)
    if others:
        _clusters(others)
    return found


def _machines(standings: list[Standing]) -> None:
    """One machine knows exactly: it lets in itself."""
    by_pk = {one.cluster.pk: one for one in standings}
    devices = Device.objects.filter(cluster__in=by_pk, healthy=True).order_by("index")
    kinds: dict[int, Counter[str]] = defaultdict(Counter)
    for pk, name in devices.values_list("cluster_id", "flavor__name"):
        kinds[pk][name or ""] += 1
    held = dict(
        Hold.objects.filter(claim__cluster__in=by_pk).values_list(
            "claim_id", "device__flavor__name"
        )
    )
    for one in standings:
        one.capacity = dict(kinds[one.cluster.pk])
    for claim in Claim.objects.filter(cluster__in=by_pk, gpus__gt=0, held_at__isnull=True):
        if not claim.granted_at and claim.over_budget == Beyond.WAITS:
            continue
        one = by_pk[claim.cluster_id]
        uid = str(claim.workload_uid)
        kind = (held.get(claim.pk) or "") if claim.granted_at else ""
        if claim.granted_at and not kind:
            continue  # what it holds is of no kind that is known
        one.kind_of_work[uid] = claim.workload_kind
        borrows = claim.over_budget == Beyond.BORROWS
        one.works.append(
            Work(
                uid=uid,
                part=str(claim.project_uid),
                kinds=names_in(claim.gpu_flavor) or tuple(one.capacity),
                count=claim.gpus,
                priority=claim.priority,
                asked_at=claim.asked_at.timestamp(),
                exceeds=claim.exceeds,
                reclaimable=(claim.reclaimable or borrows) and claim.reclaim_at is None,
                borrows=borrows or claim.reclaim_at is not None,
                kind=kind,
                granted_at=claim.granted_at.timestamp() if claim.granted_at else 0.0,
            )
        )


def _clusters(standings: list[Standing]) -> None:
    """A cluster's own scheduler lets in: what its rows ask for and where the watch saw them."""
    by_key = {one.cluster.key: one for one in standings}
    for one in standings:
        one.capacity = {
            name: max(0, int(kind["total"]) - int(kind.get("held", 0)))
            for name, kind in (one.cluster.kinds or {}).items()
        }
    priorities = Priorities()
    rows = _rows(Q(cluster_key__in=by_key))
    loose = [row for row in rows if row[4] in HELD and len(names_in(row[3])) != 1]
    came_to = _kinds_by_node(by_key) if loose else {}
    for row in rows:
        uid, key, project, flavor, phase, asked, priority, gpus, kind, budget = row
        one, names = by_key[key], names_in(flavor)
        holds = phase in HELD
        if not holds and budget == Beyond.WAITS:
            continue  # no tree lets it start
        has = ""
        if holds:
            has = names[0] if len(names) == 1 else came_to.get(str(uid), "")
            if not has:
                continue  # where it came to is not known yet
        one.kind_of_work[str(uid)] = kind
        one.works.append(
            Work(
                uid=str(uid),
                part=str(project),
                kinds=names or tuple(one.capacity),
                count=gpus,
                priority=priorities.value(priority, purpose_of(kind)),
                asked_at=asked.timestamp() if asked else 0.0,
                kind=has,
                borrows=budget != Beyond.NONE,
                granted_at=asked.timestamp() if asked else 0.0,
            )
        )


def _rows(only: Q) -> list[tuple[Any, ...]]:
    """Return what of live work holds GPUs or waits for them; one query for each table of work.

    What has not asked for a place yet waits for none: on one machine it has no claim, either.
    """
    found: list[tuple[Any, ...]] = []
    for table, own in rows_with_gpus():
        if not _of_projects(table.model):
            continue
        live = table.filter(only, deleted_at__isnull=True, gpus__gt=0).filter(
            Q(phase__in=HELD)
            | Q(phase=Phase.PENDING, desired=Desired.RUNNING) & ~Q(reason__in=NOT_ASKED)
        )
        kind = Value(own) if own else F("kind")
        found += with_replicas(live).order_by().values_list(*_ASKED, "all_gpus", kind, _BUDGET)
    return found


def _of_projects(model: Any) -> bool:
    names = {f.name for f in model._meta.get_fields()}  # noqa: SLF001 - any model
    return {"project", "asked_at", "priority", _BUDGET} <= names


def _kinds_by_node(by_key: Collection[str]) -> dict[str, str]:
    """Return the kind that work has which named none, or several: that of its node."""
    placed = placed_on(by_key, Q(gpu_flavor="") | Q(gpu_flavor__contains=","))
    nodes = Node.objects.filter(
        cluster__key__in=by_key, name__in={one.node for one in placed}, flavor__isnull=False
    )
    kinds = {
        (key, name): kind
        for key, name, kind in nodes.values_list("cluster__key", "name", "flavor__name")
    }
    return {str(one.uid): kinds.get((one.cluster_key, one.node), "") for one in placed}


def of_project(project: Project) -> tuple[Counter[tuple[str, str]], Counter[tuple[str, str]]]:
    """Return what one project holds and waits for, by cluster and kind; '' is any kind.

    Two queries, and two more where work on clusters named no kind.
    """
    held: Counter[tuple[str, str]] = Counter()
    waiting: Counter[tuple[str, str]] = Counter()
    claims = Claim.objects.filter(project_uid=project.uid, gpus__gt=0)
    columns = ("cluster__key", "gpu_flavor", "gpus", "granted_at", "holds__device__flavor__name")
    for key, flavor, gpus, granted, kind in claims.values_list(*columns):
        if granted is not None:
            held[key, kind or ""] += 1  # a row for each device
            continue
        for name in names_in(flavor) or ("",):
            waiting[key, name] += gpus
    machines = Cluster.objects.one_machine().values("key")
    rows = _rows(Q(project=project) & ~Q(cluster_key__in=machines))
    loose = {row[1] for row in rows if row[4] in HELD and len(names_in(row[3])) != 1}
    came_to = _kinds_by_node(loose) if loose else {}
    for uid, key, _project, flavor, phase, _asked, _priority, gpus, *_more in rows:
        names = names_in(flavor)
        if phase in HELD:
            held[key, names[0] if len(names) == 1 else came_to.get(str(uid), "")] += gpus
            continue
        for name in names or ("",):
            waiting[key, name] += gpus
    return held, waiting


def purpose_of(kind: str) -> str:
    """Return what work of a kind is for; what no engine looks after trains, too."""
    return str(getattr(registered().get(kind), "purpose", "") or Purpose.TRAIN)


class Priorities:
    """The classes of priority, read once."""

    def __init__(self) -> None:
        rows = list(Priority.objects.all())
        self._by_name = {row.name: row.value for row in rows}
        self._by_purpose = {row.purpose: row.value for row in rows if row.purpose}

    def value(self, name: str, purpose: str) -> int:
        """Return what a name means; one that is gone means what the purpose does."""
        known = self._by_name.get(name)
        return self._by_purpose.get(purpose, 0) if known is None else known
