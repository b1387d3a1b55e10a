"""What is known of every device now, held or not: on machines, and on nodes of clusters.

``on_nodes`` is pure. Nodes say how many devices they have, the watch says what work is on them,
exporters say what some of them do and for which pod. Where nobody tells which device a workload
has, it gets one of those that are left, and of that one no figure is told: it may be another's.
"""

from __future__ import annotations

import itertools
from collections import Counter, defaultdict
from dataclasses import dataclass, fields, replace
from operator import attrgetter
from typing import TYPE_CHECKING
from uuid import UUID

from clusters.accelerators import held_by_kind
from clusters.demand import placed_on
from clusters.models import Flavor, Hold, Node
from clusters.selectors import devices_there
from metrics import bulk
from metrics.models import DEVICE_LENGTH, DeviceReading

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from clusters.demand import Placed
    from clusters.models import Cluster
    from runtime.use_sources import DeviceUse


@dataclass(slots=True)
class Cell:
    """One device; the columns of ``DeviceReading``."""

    cluster_key: str
    node: str
    device: str
    flavor: str
    seen_at: datetime
    healthy: bool = True
    uid: UUID | None = None
    foreign: bool = False
    since: datetime | None = None
    utilisation: float | None = None
    memory_used_mib: int | None = None
    memory_mib: int = 0
    at: datetime | None = None
    shared: bool = False
    simulated: bool = False

    @property
    def is_free(self) -> bool:
        return self.uid is None and not self.foreign

    def tell(self, use: DeviceUse, at: datetime) -> None:
        if (use.utilisation, use.memory_mib) == (None, None):
            return
        self.utilisation, self.at = use.utilisation, at
        self.memory_used_mib = None if use.memory_mib is None else max(0, round(use.memory_mib))

    def forget(self) -> None:
        """Whose the figures are is not known."""
        self.utilisation = self.memory_used_mib = self.at = None


# Labels of nodes whose devices a test or a demonstration only says are there.
SIMULATED = {("berth.dev/simulated-gpu", "true"), ("berth.dev/simulated", "true")}
COLUMNS = tuple(field.name for field in fields(Cell))
_values = attrgetter(*COLUMNS)


def store(cluster: Cluster, told: Sequence[DeviceUse], at: datetime, *, is_machine: bool) -> None:
    """Write down what is known of all devices of a cluster, in the caller's transaction."""
    rows = DeviceReading.objects.filter(cluster_key=cluster.key)
    before = {row[2]: Cell(*row) for row in rows.values_list(*COLUMNS)}
    if is_machine:
        cells = _on_machine(cluster, told, at)
    else:
        flavors = {f.name: f for f in Flavor.objects.only("name", "resource", "memory_mib")}
        resources = {name: flavor.resource for name, flavor in flavors.items()}
        held = cluster.held or {}
        there = Node.objects.filter(cluster=cluster).exclude(offers={}).order_by("name")
        seen = list(there.values_list("name", "offers", "labels"))
        nodes = [
            (name, offers, held_by_kind(offers, held.get(name, {}), resources))
            for name, offers, _labels in seen
        ]
        pretended = {name for name, _offers, labels in seen if SIMULATED & labels.items()}
        cells = on_nodes(cluster.key, nodes, told, placed_on([cluster.key]), before, at)
        for cell in cells:
            known = flavors.get(cell.flavor)
            cell.memory_mib = known.memory_mib if known else 0
            cell.simulated = cell.node in pretended
    for cell in cells:
        was = before.get(cell.device)
        if cell.uid is None:
            cell.since = None
        elif cell.since is None:
            cell.since = was.since if was is not None and was.uid == cell.uid else at
    replace_all(cluster.key, cells)


def replace_all(key: str, cells: Iterable[Cell]) -> None:
    """Keep these instead of the rows of a cluster: cheaper than to look which of them changed."""
    DeviceReading.objects.filter(cluster_key=key).delete()
    bulk.add(DeviceReading, COLUMNS, map(_values, cells))


def _on_machine(cluster: Cluster, told: Iterable[DeviceUse], at: datetime) -> list[Cell]:
    uses = {one.device: one for one in told}
    holds = {
        device: (uid, since)
        for device, uid, since in Hold.objects.filter(claim__cluster=cluster).values_list(
            "device__uuid", "claim__workload_uid", "claim__granted_at"
        )
    }
    columns = ("uuid", "flavor__name", "healthy", "memory_mib", "simulated")
    found = []
    for uuid, flavor, healthy, memory_mib, simulated in (
        devices_there(cluster).order_by("index").values_list(*columns)
    ):
        uid, since = holds.get(uuid, (None, None))
        cell = Cell(
            *(cluster.key, "", uuid, flavor or "", at, healthy, uid),
            since=since,
            memory_mib=memory_mib,
            simulated=simulated,
        )
        if uuid in uses:
            cell.tell(uses[uuid], at)
        found.append(cell)
    return found


def on_nodes(
    key: str,
    nodes: Iterable[tuple[str, Mapping[str, int], Mapping[str, int]]],
    told: Iterable[DeviceUse],
    placed: Iterable[Placed],
    before: Mapping[str, Cell],
    at: datetime,
) -> list[Cell]:
    """Return the devices of nodes. ``nodes``: name, devices by kind, and others' pods by kind."""
    by_node: dict[str, list[DeviceUse]] = defaultdict(list)
    for use in told:
        by_node[use.device.partition("/")[0]].append(use)
    work: dict[str, list[Placed]] = defaultdict(list)
    for one in placed:
        work[one.node].append(one)
    known: dict[str, list[Cell]] = defaultdict(list)
    for cell in before.values():
        known[cell.node].append(cell)
    return [
        cell
        for name, offers, others in nodes
        for cell in _on_node(
            (key, name), offers, others, by_node[name], work[name], known[name], at
        )
    ]


def _on_node(
    where: tuple[str, str],
    offers: Mapping[str, int],
    others: Mapping[str, int],
    told: Sequence[DeviceUse],
    work: Sequence[Placed],
    known: Sequence[Cell],
    at: datetime,
) -> list[Cell]:
    asked = {str(one.uid): one.flavor for one in work}
    left = Counter({kind: int(count) for kind, count in offers.items()})
    found: dict[str, Cell] = {}

    def kind_of(use: DeviceUse) -> str:
        if (flavor := asked.get(use.uid, "")) in offers:
            return flavor
        return next((kind for kind, count in left.items() if count > 0), next(iter(offers), ""))

    for use in told:
        name = use.device[:DEVICE_LENGTH]
        if name in found:  # a shared one, which another holds too
            name = f"{name[: DEVICE_LENGTH - 40]}#{use.uid}"
        kind = kind_of(use)
        left[kind] -= 1
        uid = UUID(use.uid) if use.uid else None
        cell = Cell(*where, name, kind, at, uid=uid, foreign=use.foreign, shared=use.shared)
        cell.simulated = use.simulated
        cell.tell(use, at)
        found[name] = cell
    told_free = {cell.device for cell in found.values() if cell.is_free}
    for kind, count in left.items():
        for cell in _not_told(where, kind, count, found, known, at):
            found[cell.device] = cell
    before = {cell.device: cell for cell in known}
    _hand_out(found, work, others, before, told_free)
    for cell in found.values():
        was = before.get(cell.device)
        if cell.is_free and was is not None and not was.is_free and cell.device not in told_free:
            cell.forget()  # who held it left, and what it did is over
    return list(found.values())


def _not_told(
    where: tuple[str, str],
    kind: str,
    count: int,
    found: Mapping[str, Cell],
    known: Iterable[Cell],
    at: datetime,
) -> Iterator[Cell]:
    """Return so many devices of a kind of which nobody told, under their names of before."""
    spare = [cell for cell in known if cell.flavor == kind and cell.device not in found]
    spare.sort(key=lambda cell: cell.at is None)  # the names that somebody told first
    taken = {*found, *(cell.device for cell in spare)}
    for was in spare[: max(0, count)]:
        yield replace(was, seen_at=at, uid=None, foreign=False, since=None)
    free = (f"{where[1]}/{kind}-{number}"[:DEVICE_LENGTH] for number in itertools.count())
    for name in itertools.islice((n for n in free if n not in taken), max(0, count - len(spare))):
        yield Cell(*where, name, kind, at)


def _hand_out(
    found: Mapping[str, Cell],
    work: Iterable[Placed],
    others: Mapping[str, int],
    before: Mapping[str, Cell],
    told_free: set[str],
) -> None:
    """Give what work holds, and others' pods, devices of which nobody told whose they are."""

    def take(kind: str, uid: UUID | None) -> None:
        free = [c for c in found.values() if c.is_free and kind in {c.flavor, ""}]
        if not free:
            return

        def rank(cell: Cell) -> tuple[bool, bool]:
            was = before.get(cell.device)
            mine = was is not None and (was.uid, was.foreign) == (uid, uid is None)
            return not mine, cell.device in told_free

        cell = min(free, key=rank)
        was = before.get(cell.device)
        if cell.device in told_free or was is None or was.uid != uid:
            cell.forget()
        cell.uid, cell.foreign = uid, uid is None

    has = Counter(cell.uid for cell in found.values() if cell.uid)
    for one in work:
        lacking = one.gpus - has[one.uid]
        has[one.uid] -= min(has[one.uid], one.gpus)
        kinds = {cell.flavor for cell in found.values()}
        for _ in range(lacking):
            take(one.flavor if one.flavor in kinds else "", one.uid)
    theirs = Counter(cell.flavor for cell in found.values() if cell.foreign)
    for kind, count in others.items():
        for _ in range(count - theirs[kind]):
            take(kind, None)
