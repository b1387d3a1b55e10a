"""Every GPU that a reader may see, where it stands, who holds it and what it does.

A constant number of queries, whatever there is. Names of work, owners and projects are those that
the reader may see; of the rest it is known that another project has it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, NamedTuple
from uuid import UUID

from django.db.models import BigIntegerField, Case, F, Func, Max, Q, QuerySet, When

from clusters.accelerators import closed_by
from clusters.models import Cluster, Flavor, Node, Pool
from clusters.options import RACK, UNIT, options_of
from common.clock import now
from metrics.models import FRESH, DeviceReading, MinuteSample
from projects.access import permissions_for, projects_visible_to
from projects.choices import Role
from projects.models import Membership, Project
from work import kinds
from work.models import Workload

if TYPE_CHECKING:
    from accounts.principal import Principal

BACK = timedelta(hours=24)  # how far one may look back
STALE = timedelta(seconds=60)  # the duty that measures is late by more than a turn
UP, CORDONED, CLOSED, DOWN = "up", "cordoned", "closed", "down"


@dataclass(frozen=True)
class Filters:
    """What of the fleet is asked for; "" is everything."""

    cluster: str = ""
    kind: str = ""
    pool: str = ""
    project: str = ""


class Holder(NamedTuple):
    """Work that holds devices, as far as the reader may know: "" is another project's."""

    name: str = ""
    kind: str = ""
    owner: str = ""
    project: str = ""
    url: str = ""


class Cell(NamedTuple):
    """One device. ``uid``: who holds it, since a moment in Unix seconds; figures None: unknown."""

    device: str
    flavor: str
    uid: UUID | None
    foreign: bool
    healthy: bool
    since: int | None
    utilisation: float | None
    memory_used_mib: int | None
    memory_mib: int
    shared: bool
    simulated: bool

    @property
    def is_free(self) -> bool:
        return self.uid is None and not self.foreign

    @property
    def held_since(self) -> datetime | None:
        return None if self.since is None else datetime.fromtimestamp(self.since, UTC)


@dataclass(frozen=True)
class Place:
    """A node, or a machine, with its devices."""

    name: str
    cluster: Cluster
    unit: str
    rack: str
    state: str
    reserved: bool
    cells: Sequence[Cell]

    @property
    def free(self) -> int:
        """How many devices may be given out at this moment."""
        return sum(c.is_free and c.healthy for c in self.cells) if self.state == UP else 0


@dataclass(frozen=True)
class Fleet:
    """``seen_at``: when the oldest part of it was looked at; None: never, or it is of the past."""

    clusters: Sequence[Cluster]
    places: Sequence[Place]
    holders: Mapping[UUID, Holder]
    flavors: Mapping[str, str]  # name → label
    seen_at: datetime | None = None

    def named(self, cell: Cell) -> Holder | None:
        """Return who holds a device, where the reader may know."""
        holder = self.holders.get(cell.uid) if cell.uid else None
        return holder if holder is not None and holder.name else None

    @property
    def is_stale(self) -> bool:
        return self.seen_at is not None and now() - self.seen_at > STALE

    @property
    def silent(self) -> list[Cluster]:
        """Clusters that do not answer: what is shown of them is the last thing known."""
        return [one for one in self.clusters if one.checked_at and not one.reachable]

    @property
    def devices(self) -> int:
        return sum(len(place.cells) for place in self.places)


def clusters_seen(who: Principal) -> list[Cluster]:
    """Return the clusters on which work of the reader's projects may run; auditors see all."""
    rows = Cluster.objects.filter(enabled=True).order_by("name", "key")
    if who.is_auditor:
        return list(rows)
    mine = projects_visible_to(who).values_list("pk", "clusters__key")
    keys = {key for _pk, key in mine}
    if not keys:
        return []
    return [row for row in rows if None in keys or row.key in keys]


def look(who: Principal, asked: Filters, at: datetime | None = None) -> Fleet:
    """Return the fleet as it is, or as it was in the minute of ``at``."""
    clusters = [c for c in clusters_seen(who) if asked.cluster in {"", c.key}]
    keys = {cluster.key: cluster for cluster in clusters}
    rows = DeviceReading.objects.filter(cluster_key__in=list(keys)).order_by("id")
    past = _past(at, clusters) if at else None
    devices: Any = (
        rows.values("uid") if past is None else list({one.uid for one in past.values() if one.uid})
    )
    holders = _holders(who, devices)
    project = asked.project
    cells: dict[tuple[str, str], list[Cell]] = defaultdict(list)
    columns = (*Cell._fields[:5], "began", "rate", "used", *Cell._fields[8:])
    for key, node, *values in _known(rows).values_list("cluster_key", "node", *columns):
        cell = Cell(*values)
        if past is not None:
            cell = _then(cell, key, past)
        if asked.kind not in {"", cell.flavor}:
            continue
        if project and (cell.uid is None or holders.get(cell.uid, _OTHER).project != project):
            continue
        cells[key, node].append(cell)
    return Fleet(
        clusters,
        _places(clusters, cells, asked.pool),
        holders,
        dict(Flavor.objects.values_list("name", "label")),
        None if past is not None else _seen_at(rows),
    )


_OTHER = Holder()


class _Seconds(Func):
    """A time as Unix seconds: 12,000 of them are read in half the time."""

    output_field = BigIntegerField()
    template = "CAST(ROUND((julianday(%(expressions)s) - 2440587.5) * 86400) AS integer)"

    def as_postgresql(self, compiler: Any, connection: Any) -> Any:
        template = "CAST(EXTRACT(EPOCH FROM %(expressions)s) AS bigint)"
        return self.as_sql(compiler, connection, template=template)


def _known(rows: QuerySet[DeviceReading]) -> QuerySet[DeviceReading]:
    """Add ``rate`` and ``used``, unknown where they are too old to say anything, and ``began``."""
    fresh = Q(at__gte=now() - FRESH)
    return rows.annotate(
        rate=Case(When(fresh, then=F("utilisation"))),
        used=Case(When(fresh, then=F("memory_used_mib"))),
        began=_Seconds("since"),
    )


def _seen_at(rows: QuerySet[DeviceReading]) -> datetime | None:
    """Return when the cluster was looked at that was looked at longest ago."""
    newest = rows.order_by().values("cluster_key").annotate(last=Max("seen_at"))
    return min((row["last"] for row in newest), default=None)


class _Then(NamedTuple):
    """What was measured of a device in one minute of the past, and who held it then."""

    uid: UUID | None
    utilisation: float | None
    memory_used_mib: int | None


def _past(at: datetime, clusters: Iterable[Cluster]) -> dict[tuple[str, str], _Then]:
    """Return what was measured in a minute, by cluster and device. Two queries."""
    minute = at.replace(second=0, microsecond=0)
    rows = MinuteSample.objects.filter(at=minute).exclude(device="")
    where = {cluster.uid: cluster.key for cluster in clusters}  # samples of a free device
    nobody = set(where)
    work = Workload.objects.filter(cluster_key__in=list(where.values()), uid__in=rows.values("uid"))
    where |= dict(work.values_list("uid", "cluster_key"))
    columns = ("device", "uid", "gpu_utilisation_sum", "gpu_utilisation_count")
    memory = ("gpu_memory_mib_sum", "gpu_memory_mib_count")
    return {
        (where[uid], device): _Then(
            None if uid in nobody else uid, rate / n if n else None, round(used / m) if m else None
        )
        for device, uid, rate, n, used, m in rows.values_list(*columns, *memory)
        if uid in where
    }


def _then(cell: Cell, key: str, past: Mapping[tuple[str, str], _Then]) -> Cell:
    """Return a device as it was; what nobody measured then is not known, nor who held it."""
    was = past.get((key, cell.device.partition("#")[0]))
    uid, rate, used = was if was is not None else (None, None, None)
    return cell._replace(
        uid=uid, foreign=False, healthy=True, since=None, utilisation=rate, memory_used_mib=used
    )


def _holders(who: Principal, uids: Any) -> dict[UUID, Holder]:
    """Return who holds devices. Two queries."""
    rows = Workload.objects.filter(uid__in=uids)
    columns = ("uid", "kind", "name", "short_id", "project_id", "project__slug")
    names = ("owner__display_name", "owner__username")
    may, found = _readable(who), {}
    words = {kind.word: (kind, _address(kind)) for kind in kinds.kinds()}
    for uid, word, name, short_id, project_id, slug, shown, username in rows.values_list(
        *columns, *names
    ):
        kind, address = words.get(word, (None, ""))
        if kind is None or not may(kind, project_id):
            found[uid] = _OTHER
            continue
        url = address.format(project=slug, short_id=short_id, uid=uid)
        found[uid] = Holder(name, word, shown or username, slug, url)
    return found


def _address(kind: kinds.Kind) -> str:
    """Return the address of any row of a kind, with places for what tells them apart."""
    row = kind.model(project=Project(slug="{project}"), short_id="{short_id}")
    row.uid = "{uid}"
    address: str = row.get_absolute_url()
    return address


def _readable(who: Principal) -> Any:
    """Return whether the reader may know the name of work of a kind in a project."""
    if who.is_auditor:
        return lambda kind, _project: who.allows_scope(kind.read)
    mine = Membership.objects.filter(user=who.user, project__deleted_at__isnull=True)
    granted = {
        one.project_id: permissions_for(who, one.project, Role(one.role))
        for one in mine.select_related("project")
    }
    return lambda kind, project: kind.read in granted.get(project, ())


class _Node(NamedTuple):
    name: str
    ready: bool
    schedulable: bool
    labels: Mapping[str, str]
    taints: Sequence[Mapping[str, str]]
    accelerators: Mapping[str, int]


def _places(
    clusters: Iterable[Cluster], cells: Mapping[tuple[str, str], Sequence[Cell]], pool: str
) -> list[Place]:
    pools: dict[int, list[Pool]] = defaultdict(list)
    for row in Pool.objects.filter(cluster__in=list(clusters)):
        pools[row.cluster_id].append(row)
    columns = ("name", "ready", "schedulable", "labels", "taints", "accelerators")
    rows = Node.objects.filter(cluster__in=list(clusters)).exclude(offers={}).order_by()
    nodes = {(pk, told[0]): _Node(*told) for pk, *told in rows.values_list("cluster_id", *columns)}
    by_key = {cluster.key: cluster for cluster in clusters}
    levels = {cluster.pk: options_of(cluster.options).levels for cluster in clusters}
    found = []
    for (key, name), mine in cells.items():
        cluster = by_key[key]
        there = nodes.get((cluster.pk, name)) if name else None
        said = there.labels if there is not None else {}
        inside = [
            row
            for row in pools[cluster.pk]
            if there is not None and row.node_labels.items() <= said.items()
        ]
        if pool and all(row.name != pool for row in inside):
            continue
        labels = levels[cluster.pk]
        found.append(
            Place(
                name or cluster.label,
                cluster,
                said.get(labels.get(UNIT, ""), ""),
                said.get(labels.get(RACK, ""), ""),
                _state(there, pools[cluster.pk]) if name else UP,
                any(row.is_reserved for row in inside),
                mine,
            )
        )
    order = {cluster.key: number for number, cluster in enumerate(clusters)}
    return sorted(found, key=lambda one: (order[one.cluster.key], one.unit, one.rack, one.name))


def _state(node: _Node | None, pools: Iterable[Pool]) -> str:
    if node is None or not node.ready:
        return DOWN
    if not node.schedulable:
        return CORDONED
    tolerations = [entry for row in pools for entry in row.tolerations]
    return CLOSED if closed_by(node.taints, node.accelerators, tolerations) else UP
