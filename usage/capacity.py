"""Demand against supply by kind of GPU over time (A15): what there was, was held, was waited for.

``sample`` adds what is so at this moment to the row of its hour; averages are sums divided by the
number of samples, so that an hour in which nobody looked counts for nothing. An hour keeps its
peaks. A waiting workload that takes any of several kinds counts for each of them, one that takes
any kind for the kind ''.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from typing import Any, NamedTuple

from django.db import transaction
from django.db.models import Count, F, Max, Q, Sum
from django.db.models.functions import TruncDay

from clusters.demand import Demand, demand_on, rows_with_gpus, with_replicas
from clusters.device_use import node_uses, uses
from clusters.models import Cluster, Device, Node
from clusters.selectors import flavor_use
from common.clock import now
from runtime.protocol import Desired, Phase
from runtime.reasons import NOT_ASKED, Reason
from usage.models import CapacityHour, Grain, LedgerDay
from usage.selectors import Range

KEPT = timedelta(days=400)
_BESIDE = ("out", "others", "fragmented", "held_back")
HEAD = ("day", "cluster", "gpu_kind", "supply", "attached", "waiting", "requested", "peak",
        "peak_waiting", "hours_with_waiting", "hours_seen", "utilisation")  # fmt: skip


@dataclass(frozen=True)
class Sight:
    """One kind on one cluster at one moment, in devices."""

    cluster: str
    kind: str
    supply: int
    attached: int
    waiting: int
    out: int = 0
    others: int = 0
    fragmented: int = 0
    held_back: int = 0


@dataclass
class Figures:
    """Averages of a span of hours, its peaks, and how much of it was seen."""

    supply: float = 0.0
    attached: float = 0.0
    waiting: float = 0.0
    peak: int = 0  # of requested: attached and waiting at one moment
    peak_waiting: int = 0
    hours_with_waiting: int = 0
    hours_seen: int = 0
    measured: float = 0.0  # GPU-seconds of which it is known what was done
    computed: float = 0.0  # their utilisation times their length

    @property
    def utilisation(self) -> float | None:
        """Mean percent of what was held, as far as it was measured; None where nothing was."""
        return 100 * self.computed / self.measured if self.measured else None

    @property
    def requested(self) -> float:
        return self.attached + self.waiting

    @property
    def used(self) -> float | None:
        """Attached, of what there was; None where there was nothing."""
        return min(1.0, self.attached / self.supply) if self.supply else None

    @property
    def short(self) -> int:
        """How many more there would have had to be, so that nobody waited at the peak."""
        return max(0, round(self.peak - self.supply))


@dataclass(frozen=True)
class Day:
    day: date
    figures: Figures


@dataclass
class Kind:
    """One kind on one cluster: the whole span, and each of its days."""

    cluster: str
    kind: str
    total: Figures = field(default_factory=Figures)
    days: list[Day] = field(default_factory=list)

    @property
    def last_day(self) -> date | None:
        return self.days[-1].day if self.days else None


# --- writing --------------------------------------------------------------------------------
def sample() -> int:
    """Note how it is now; returns how many kinds there are. Called by one worker at a time."""
    at = now()
    hour = at.replace(minute=0, second=0, microsecond=0)
    seen = list(_look())
    with transaction.atomic():
        for one in seen:
            _add(one, hour)
        CapacityHour.objects.filter(hour__lt=at - KEPT).delete()
    return len(seen)


def _look() -> Iterator[Sight]:
    clusters = list(Cluster.objects.filter(enabled=True))
    demand = demand_on([c.key for c in clusters])
    known: dict[str, set[str]] = {c.key: set() for c in clusters}
    wishes = _wishes()
    pieces: dict[str, Counter[str]] = {}
    for use in uses([c for c in clusters if c.runs_images], demand):
        key, kind = use.cluster.key, use.flavor.name
        known[key].add(kind)
        supply = max(0, use.total - use.held)
        asked = [wish for wish in wishes[key] if wish.takes(kind)] if use.free else []
        if asked and key not in pieces:
            pieces[key] = _largest(use.cluster)
        parts = _of_free(use.free, pieces[key][kind] if asked else 0, asked)
        yield Sight(key, kind, supply, use.used, use.waiting, use.out, use.held, *parts)
    for cluster in clusters:
        found = demand[cluster.key]
        if not cluster.runs_images:
            for local in flavor_use(cluster.key):
                name = local.flavor.name
                known[cluster.key].add(name)
                held = local.total - local.free
                asked = [wish for wish in wishes[cluster.key] if wish.takes(name)]
                parts = _of_free(local.free, local.free, asked)
                waiting = found.waiting[name]
                yield Sight(cluster.key, name, local.total, held, waiting, 0, 0, *parts)
        yield from _elsewhere(cluster.key, found, known[cluster.key])


class _Wish(NamedTuple):
    """Work of one size that waits for devices: how many for each of its replicas, and of all."""

    kinds: str
    size: int
    total: int

    def takes(self, kind: str) -> bool:
        return not self.kinds or kind in self.kinds.split(",")


# It could not begin yet, whatever were free.
_NOT_YET = NOT_ASKED | {Reason.DOES_NOT_FIT}


def _wishes() -> dict[str, list[_Wish]]:
    """Return what waits and could begin, by cluster; one query for each table of work."""
    found: dict[str, list[_Wish]] = defaultdict(list)
    for rows, _kind in rows_with_gpus():
        waiting = with_replicas(
            rows.filter(
                deleted_at__isnull=True, gpus__gt=0, phase=Phase.PENDING, desired=Desired.RUNNING
            ).exclude(reason__in=_NOT_YET)
        ).order_by()
        sums = waiting.values("cluster_key", "gpu_flavor", "gpus").annotate(n=Sum("all_gpus"))
        for row in sums:
            wish = _Wish(row["gpu_flavor"].replace(" ", ""), row["gpus"], row["n"])
            found[row["cluster_key"]].append(wish)
    return found


def _largest(cluster: Cluster) -> Counter[str]:
    """Return the most that is free of each kind on one node."""
    found: Counter[str] = Counter()
    for node in node_uses(cluster, Node.objects.filter(cluster=cluster).exclude(offers={})):
        for kind, count in node.free.items():
            found[kind] = max(found[kind], count)
    return found


def _of_free(free: int, largest: int, asked: Iterable[_Wish]) -> tuple[int, int]:
    """Return how many free devices lie in pieces too small for what waits, and how many rules
    (ceilings, budgets, guarantees of others) keep from what would fit.
    """
    wishes = list(asked)
    fragmented = min(free, sum(w.total for w in wishes if largest < w.size <= free))
    held_back = min(free - fragmented, sum(w.total for w in wishes if w.size <= largest))
    return fragmented, held_back


def supply_now() -> dict[tuple[str, str], int]:
    """Return how many of each kind are in service on each cluster, and not held by others."""
    found = {
        (key, kind): max(0, seen["total"] - seen.get("held", 0))
        for key, kinds in Cluster.objects.filter(enabled=True).values_list("key", "kinds")
        for kind, seen in kinds.items()
    }
    devices = Device.objects.filter(cluster__enabled=True, healthy=True, flavor__isnull=False)
    counts = devices.values_list("cluster__key", "flavor__name").annotate(n=Count("pk"))
    for key, kind, count in counts.order_by():
        found[key, kind] = count
    return found


def _elsewhere(key: str, demand: Demand, known: set[str]) -> Iterator[Sight]:
    """What is waited for and is not there at all, and what takes any kind."""
    for name, count in demand.waiting.items():
        if name not in known and count:
            yield Sight(key, name, 0, 0, count)


def _add(one: Sight, hour: datetime) -> None:
    requested = one.attached + one.waiting
    row, made = CapacityHour.objects.select_for_update().get_or_create(
        cluster_key=one.cluster,
        flavor=one.kind,
        hour=hour,
        defaults={
            "samples": 1,
            "supply": one.supply,
            "attached": one.attached,
            "waiting": one.waiting,
            **{name: getattr(one, name) for name in _BESIDE},
            "peak": requested,
            "peak_waiting": one.waiting,
        },
    )
    if made:
        return
    CapacityHour.objects.filter(pk=row.pk).update(
        samples=F("samples") + 1,
        supply=F("supply") + one.supply,
        attached=F("attached") + one.attached,
        waiting=F("waiting") + one.waiting,
        **{name: F(name) + getattr(one, name) for name in _BESIDE},
        peak=max(row.peak, requested),
        peak_waiting=max(row.peak_waiting, one.waiting),
    )


# --- reading --------------------------------------------------------------------------------
def report(span: Range) -> list[Kind]:
    """Return every kind that was there or asked for, with its days. Two queries.

    What was really used comes from the ledger, whose days are those of UTC.
    """
    rows = (
        CapacityHour.objects.filter(hour__gte=span.since, hour__lt=span.until)
        .annotate(day=TruncDay("hour"))
        .values("cluster_key", "flavor", "day")
        .annotate(
            n=Sum("samples"),
            sum_supply=Sum("supply"),
            sum_attached=Sum("attached"),
            sum_waiting=Sum("waiting"),
            top=Max("peak"),
            top_waiting=Max("peak_waiting"),
            hours=Count("id"),
            hours_waiting=Count("id", filter=Q(peak_waiting__gt=0)),
        )
        .order_by("cluster_key", "flavor", "day")
    )
    groups: dict[tuple[str, str], list[dict[str, Any]]] = {}
    looks: dict[tuple[str, date], int] = {}  # a kind that is not there is seen only when wanted
    for found in rows:
        row: dict[str, Any] = {**found}
        groups.setdefault((row["cluster_key"], row["flavor"]), []).append(row)
        where = (row["cluster_key"], row["day"])
        looks[where] = max(looks.get(where, 0), row["n"])
    used = _used(span)
    for key, days in groups.items():
        for one in days:
            one["n"] = looks[one["cluster_key"], one["day"]]
            one["measured"], one["computed"] = used.get((*key, one["day"].date()), (0.0, 0.0))
    return [
        Kind(*key, _figures(days), [Day(row["day"].date(), _figures([row])) for row in days])
        for key, days in groups.items()
    ]


def _used(span: Range) -> dict[tuple[str, str, date], tuple[float, float]]:
    """Return GPU-seconds measured, and utilised of these, by cluster, kind and day."""
    rows = LedgerDay.objects.filter(
        grain=Grain.ALL, day__gte=span.since.date(), day__lte=span.until.date()
    ).values_list("cluster_key", "flavor", "day")
    sums = rows.annotate(known=Sum("measured"), computed=Sum("utilised")).order_by()
    return {(key, kind, day): (known, computed) for key, kind, day, known, computed in sums}


def _figures(rows: list[dict[str, Any]]) -> Figures:
    samples = sum(row["n"] for row in rows) or 1
    return Figures(
        supply=sum(row["sum_supply"] for row in rows) / samples,
        attached=sum(row["sum_attached"] for row in rows) / samples,
        waiting=sum(row["sum_waiting"] for row in rows) / samples,
        peak=max(row["top"] for row in rows),
        peak_waiting=max(row["top_waiting"] for row in rows),
        hours_with_waiting=sum(row["hours_waiting"] for row in rows),
        hours_seen=sum(row["hours"] for row in rows),
        measured=sum(row["measured"] for row in rows),
        computed=sum(row["computed"] for row in rows),
    )


def csv_rows(kinds: Iterable[Kind]) -> Iterator[tuple[Any, ...]]:
    """One line for each day of each kind; ``HEAD`` names the columns."""
    for kind in kinds:
        for one in kind.days:
            seen = one.figures
            yield (
                one.day.isoformat(),
                kind.cluster,
                kind.kind,
                round(seen.supply, 2),
                round(seen.attached, 2),
                round(seen.waiting, 2),
                round(seen.requested, 2),
                seen.peak,
                seen.peak_waiting,
                seen.hours_with_waiting,
                seen.hours_seen,
                "" if seen.utilisation is None else round(seen.utilisation, 1),
            )
