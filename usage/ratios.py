"""Three ratios: GPUs requested, attached and really utilised, of what there is (C31).

*Requested*: held and waited for, may exceed 100 %. *Attached*: held. Both of supply. *Utilised*:
mean utilisation of the attached devices of which it is known; nobody knows it where none was
measured. Here as they are now, from what is open; over time: ``usage.ratio_history``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum
from typing import Any
from uuid import UUID

from django.db.models import Count, Q, Sum

from common.clock import now
from metrics import selectors as metrics
from metrics.models import FRESH, DeviceReading
from usage.capacity import supply_now
from usage.ledger import CAUSES
from usage.models import Grain, Interval, LedgerHour, LedgerProgress, Mark, Wait


class By(StrEnum):
    """What groups are made of."""

    PROJECT = "project"
    PERSON = "person"
    FLAVOR = "flavor"
    KIND = "kind"
    CLUSTER = "cluster"
    NODE = "node"


# The column that tells groups apart, that of their word, and how fine rows must be for it.
COLUMNS = {
    By.PROJECT: ("project_uid", "project_slug", Grain.PROJECT),
    By.PERSON: ("owner_uid", "owner_name", Grain.OWNER),
    By.FLAVOR: ("flavor", "flavor", Grain.ALL),
    By.KIND: ("kind", "kind", Grain.ALL),
    By.CLUSTER: ("cluster_key", "cluster_key", Grain.ALL),
    By.NODE: (
        "cluster_key",
        "cluster_key",
        Grain.ALL,
    ),  # of nodes see usage.node_days
}


@dataclass(frozen=True)
class Scope:
    """Whose work is asked about: a project's, a person's, or everybody's."""

    project_uid: UUID | None = None
    owner_uid: UUID | None = None

    @property
    def is_all(self) -> bool:
        return self.project_uid is None and self.owner_uid is None

    @property
    def only(self) -> dict[str, Any]:
        found = {"project_uid": self.project_uid, "owner_uid": self.owner_uid}
        return {name: value for name, value in found.items() if value is not None}

    @property
    def grain(self) -> Grain:
        if self.owner_uid is not None:
            return Grain.OWNER
        return Grain.ALL if self.project_uid is None else Grain.PROJECT


@dataclass
class Ratio:
    """Devices at one moment, or device-seconds over a span. ``supply`` 0: not known."""

    supply: float = 0.0
    waiting: float = 0.0
    attached: float = 0.0
    measured: float = 0.0
    utilised: float = 0.0

    def add(self, other: Ratio) -> None:
        self.supply += other.supply
        self.waiting += other.waiting
        self.attached += other.attached
        self.measured += other.measured
        self.utilised += other.utilised

    @property
    def requested(self) -> float:
        return self.attached + self.waiting

    @property
    def requested_ratio(self) -> float | None:
        return self.requested / self.supply if self.supply else None

    @property
    def attached_ratio(self) -> float | None:
        return self.attached / self.supply if self.supply else None

    @property
    def utilisation(self) -> float | None:
        return self.utilised / self.measured if self.measured else None

    @property
    def known(self) -> float | None:
        """The part of what was attached of which use is known."""
        return self.measured / self.attached if self.attached else None


@dataclass
class Group:
    """One project, person, kind … ``key`` None: what nobody held."""

    key: UUID | str | None
    label: str
    name: str = ""
    ratio: Ratio = field(default_factory=Ratio)


def at_present(scope: Scope, by: By | None = None) -> tuple[Ratio, list[Group]]:
    """Return how it is at this moment, and by group. Use is the mean of the last two minutes."""
    total, groups = Ratio(), dict[Any, Group]()
    uid_of, label_of, _grain = COLUMNS[by or By.PROJECT]
    supply = supply_now()
    total.supply = sum(supply.values())

    for row, own in live(scope):
        key, label = getattr(row, uid_of), getattr(row, label_of)
        total.add(own)
        groups.setdefault(key, Group(key, label)).ratio.add(own)
    for group in groups.values():
        group.ratio.supply = _supply_of(group.key, by, supply)
    if by == By.NODE:
        groups = {}
        for key, node, own in nodes_now():
            name = f"{key}/{node}" if node else key  # a machine is its own node
            groups[name] = Group(name, name, ratio=own)
    return total, ordered(groups.values())


def live(scope: Scope) -> Iterator[tuple[Interval | Wait, Ratio]]:
    """Yield all that holds or waits for devices now, with what it holds and how busy that is."""
    held = Interval.objects.filter(ended_at__isnull=True, gpus__gt=0, **scope.only)
    use = metrics.means(held.values("uid"), now() - metrics.LATEST, "gpu_utilisation")
    for row in held:
        rate = use.get(row.uid)
        if row.marks and row.marks[-1][1] == Mark.WAIT:
            yield row, Ratio(waiting=row.gpus)
        elif rate is None:
            yield row, Ratio(attached=row.gpus)
        else:
            part = row.gpus * rate / 100
            yield row, Ratio(attached=row.gpus, measured=row.gpus, utilised=part)
    for wait in Wait.objects.filter(ended_at__isnull=True, **scope.only):
        yield wait, Ratio(waiting=wait.gpus)


def nodes_now() -> Iterator[tuple[str, str, Ratio]]:
    """Yield each node with its devices as they are; nobody waits for a node. One query."""
    fresh, serves = now() - FRESH, Q(healthy=True, foreign=False)
    known = Q(uid__isnull=False, utilisation__isnull=False, at__gte=fresh)
    rows = DeviceReading.objects.filter(seen_at__gte=fresh).values("cluster_key", "node")
    rows = rows.annotate(
        supply=Count("pk", filter=serves),
        attached=Count("pk", filter=Q(uid__isnull=False)),
        measured=Count("pk", filter=known),
        percent=Sum("utilisation", filter=known),
    )
    for row in rows.order_by("cluster_key", "node"):
        amounts = {name: float(row[name]) for name in ("supply", "attached", "measured")}
        use = Ratio(**amounts, utilised=(row["percent"] or 0) / 100)
        yield row["cluster_key"], row["node"], use


def lost_lately() -> dict[str, float]:
    """Return GPU-seconds of the last 24 closed hours by cause."""
    until = LedgerProgress.objects.values_list("until", flat=True).first()
    if until is None:
        return {}
    rows = LedgerHour.objects.filter(hour__gte=until - timedelta(hours=24), hour__lt=until)
    sums = rows.aggregate(**{f"sum_{cause}": Sum(cause) for cause in CAUSES})
    return {cause: sums[f"sum_{cause}"] or 0.0 for cause in CAUSES}


def _supply_of(key: Any, by: By | None, supply: dict[tuple[str, str], int]) -> float:
    """Return what a group's share is of: the kind's or the cluster's own, else everything."""
    if by == By.FLAVOR:
        return sum(n for (_cluster, flavor), n in supply.items() if flavor == key)
    if by == By.CLUSTER:
        return sum(n for (cluster, _flavor), n in supply.items() if cluster == key)
    return sum(supply.values())


def ordered(groups: Iterable[Group]) -> list[Group]:
    return sorted(groups, key=lambda one: (-one.ratio.requested, one.label))
