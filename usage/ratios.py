"""Three ratios: GPUs requested, attached and really utilised, of what there is (C31).

*Requested*: held and waited for, may exceed 100 %. *Attached*: held. Both of supply. *Utilised*:
mean utilisation of the attached devices of which it is known; nobody knows it where none was
measured. Now from what is open, over time from the ledger.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any
from uuid import UUID

from django.db.models import QuerySet, Sum

from clusters.models import Flavor
from clusters.wording import work_words
from common.clock import now
from metrics import selectors as metrics
from usage.capacity import supply_now
from usage.ledger import CAUSES, FIGURES, WASTE
from usage.models import Grain, Interval, LedgerDay, LedgerHour, LedgerProgress, Mark, Wait
from usage.names import people, projects
from usage.selectors import Range

SHOWN = 7  # groups that a chart tells apart; what is left is one more
_FINE = timedelta(days=3)  # shorter spans are told by the hour
_HOUR_S = 3600
_FLAVOR = ("name", "label", "price_per_hour")


class By(StrEnum):
    """What groups are made of."""

    PROJECT = "project"
    PERSON = "person"
    FLAVOR = "flavor"
    KIND = "kind"
    CLUSTER = "cluster"


# The column that tells groups apart, that of their word, and how fine rows must be for it.
_COLUMNS = {
    By.PROJECT: ("project_uid", "project_slug", Grain.PROJECT),
    By.PERSON: ("owner_uid", "owner_name", Grain.OWNER),
    By.FLAVOR: ("flavor", "flavor", Grain.ALL),
    By.KIND: ("kind", "kind", Grain.ALL),
    By.CLUSTER: ("cluster_key", "cluster_key", Grain.ALL),
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


@dataclass(frozen=True)
class Step:
    """A day, or an hour of a short span; ``of``: what each shown group attached."""

    at: datetime
    ratio: Ratio
    of: list[float]


@dataclass
class Loss:
    """GPU-hours that one cause took from one owner, and what they cost at the prices of today."""

    cause: str
    key: UUID | str | None
    label: str
    name: str = ""
    gpu_hours: float = 0.0
    cost: Decimal = Decimal(0)


@dataclass(frozen=True)
class History:
    """A span: the whole, its steps, its groups (the greatest first) and what was lost in it."""

    span: Range
    by: By
    step: timedelta
    total: Ratio
    steps: list[Step]
    groups: list[Group]
    losses: list[Loss]
    causes: dict[str, float]  # GPU-hours of all of it

    @property
    def shown(self) -> list[Group]:
        return self.groups[:SHOWN]

    @property
    def lost(self) -> float:
        return sum(self.causes[cause] for cause in WASTE)

    @property
    def cost(self) -> Decimal:
        return sum((loss.cost for loss in self.losses), Decimal(0))


# --- now ------------------------------------------------------------------------------------------
def at_present(scope: Scope, by: By | None = None) -> tuple[Ratio, list[Group]]:
    """Return how it is at this moment, and by group. Use is the mean of the last two minutes."""
    total, groups = Ratio(), dict[Any, Group]()
    uid_of, label_of, _grain = _COLUMNS[by or By.PROJECT]
    supply = supply_now()
    total.supply = sum(supply.values())

    for row, own in live(scope):
        key, label = getattr(row, uid_of), getattr(row, label_of)
        total.add(own)
        groups.setdefault(key, Group(key, label)).ratio.add(own)
    for group in groups.values():
        group.ratio.supply = _supply_of(group.key, by, supply)
    return total, _ordered(groups.values())


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


# --- over time ------------------------------------------------------------------------------------
def history(scope: Scope, span: Range, by: By, *, drawn: bool = False) -> History:
    """Return the ratios and losses of a span; a constant number of queries.

    ``drawn``: each step also tells what the shown groups attached.
    """
    when, step, rows, everything = _source(scope, span, by)
    figures = {f"sum_{name}": Sum(name) for name in FIGURES}
    whole = list(everything.values(when).annotate(**figures).order_by(when))
    uid_of, label_of, _grain = _COLUMNS[by]
    own_supply = by in {By.FLAVOR, By.CLUSTER}
    supply: dict[Any, float] = defaultdict(float)  # of each step
    of_key: dict[Any, float] = defaultdict(float)  # of each kind, or cluster
    there = _source(Scope(), span, By.KIND)[3].values(when, "flavor", "cluster_key")
    for row in there.annotate(n=Sum("supply")).filter(n__gt=0).order_by():
        supply[row[when]] += row["n"]
        of_key[row[uid_of] if own_supply else None] += row["n"]
    columns = list(dict.fromkeys((uid_of, label_of, "flavor")))
    kinds = {name: rest for name, *rest in Flavor.objects.values_list(*_FLAVOR)}
    groups: dict[Any, Group] = {}
    losses: dict[tuple[str, Any], Loss] = {}
    for row in rows.values(*columns).annotate(**figures).order_by():
        key, label = row[uid_of], row[label_of]
        if row["sum_attached"] or row["sum_waiting"] or (own_supply and scope.is_all):
            _sum_up(groups.setdefault(key, Group(key, label)).ratio, row)
        for cause in WASTE:
            if row[f"sum_{cause}"]:
                loss = losses.setdefault((cause, key), Loss(cause, key, label))
                hours = row[f"sum_{cause}"] / _HOUR_S
                loss.gpu_hours += hours
                loss.cost += Decimal(hours) * kinds.get(row["flavor"], ("", 0))[1]
    for group in groups.values():
        group.ratio.supply = of_key[group.key if own_supply else None]
    ordered = _ordered(groups.values())
    shown = {group.key: n for n, group in enumerate(ordered[:SHOWN])}
    held: dict[Any, list[float]] = defaultdict(lambda: [0.0] * len(shown))
    if drawn:
        some = rows.filter(**{f"{uid_of}__in": list(shown)}).values_list(when, uid_of)
        for moment, key, attached in some.annotate(n=Sum("attached")).order_by():
            held[moment][shown[key]] = attached
    steps = []
    total = Ratio()
    own = {row[when]: row for row in whole}
    for moment in sorted(own.keys() | supply.keys()):  # also those in which none of this work was
        ratio = _sum_up(Ratio(), own[moment]) if moment in own else Ratio()
        ratio.supply = supply[moment]
        total.add(ratio)
        steps.append(Step(_moment(moment), ratio, held[moment]))
    found = History(
        span,
        by,
        step,
        total,
        steps,
        ordered,
        sorted(losses.values(), key=lambda loss: (-loss.gpu_hours, loss.cause, loss.label)),
        {cause: sum(row[f"sum_{cause}"] for row in whole) / _HOUR_S for cause in CAUSES},
    )
    _name(by, [*found.groups, *found.losses], {name: label for name, (label, _) in kinds.items()})
    return found


def _source(
    scope: Scope, span: Range, by: By
) -> tuple[str, timedelta, QuerySet[Any], QuerySet[Any]]:
    """Return the column of time, its step, and rows: fine enough for groups, and coarsest."""
    if span.until - span.since <= _FINE:
        hours = LedgerHour.objects.filter(
            hour__gt=span.since - timedelta(hours=1), hour__lt=span.until, **scope.only
        )
        return "hour", timedelta(hours=1), hours, hours
    last = (span.until - timedelta(microseconds=1)).astimezone(UTC).date()
    first = span.since.astimezone(UTC).date()
    days = LedgerDay.objects.filter(day__gte=first, day__lte=last, **scope.only)
    fine = max(_COLUMNS[by][2], scope.grain)
    return "day", timedelta(days=1), days.filter(grain=fine), days.filter(grain=scope.grain)


def _sum_up(ratio: Ratio, row: dict[str, Any]) -> Ratio:
    for name in ("supply", "waiting", "attached", "measured", "utilised"):
        setattr(ratio, name, getattr(ratio, name) + row[f"sum_{name}"])
    return ratio


def _moment(value: date | datetime) -> datetime:
    if isinstance(value, datetime):
        return value
    return datetime(value.year, value.month, value.day, tzinfo=UTC)


def _ordered(groups: Iterable[Group]) -> list[Group]:
    return sorted(groups, key=lambda one: (-one.ratio.requested, one.label))


def _name(by: By, groups: Iterable[Group | Loss], kinds: dict[str, str]) -> None:
    """Give groups and losses the names that people read. One query at the most."""
    found = list(groups)
    keys: set[Any] = {one.key for one in found if one.key is not None}
    names: dict[Any, str] = {}
    if by == By.PROJECT:
        names = projects(keys)
    elif by == By.PERSON:
        names = people(keys)
    elif by == By.FLAVOR:
        names = {key: kinds.get(key, key) for key in keys}
    elif by == By.KIND:
        names = {key: work_words(key) for key in keys}
    for one in found:
        one.name = names.get(one.key, one.label)


# --- CSV ------------------------------------------------------------------------------------------
RATIO_HEAD = ("from", "group", "supply_gpu_hours", "requested_gpu_hours", "attached_gpu_hours",
              "measured_gpu_hours", "utilised_gpu_hours", "requested_percent", "attached_percent",
              "utilised_percent")  # fmt: skip
WASTE_HEAD = ("cause", "owner", "gpu_hours", "cost", "currency")


def csv_rows(scope: Scope, span: Range, by: By, *, monthly: bool) -> Iterator[tuple[Any, ...]]:
    """Yield one line for each step (or month) and group, and one of all groups together, "*"."""
    when, _step, rows, everything = _source(scope, span, by)
    label_of = _COLUMNS[by][1]
    five = {f"sum_{n}": Sum(n) for n in ("supply", "waiting", "attached", "measured", "utilised")}
    supply: dict[str, float] = defaultdict(float)

    def begin(moment: Any) -> str:
        return f"{moment:%Y-%m}" if monthly else moment.isoformat()

    for moment, n in (
        _source(Scope(), span, By.KIND)[3].values_list(when).annotate(n=Sum("supply")).order_by()
    ):
        supply[begin(moment)] += n
    lines: dict[tuple[str, str], Ratio] = defaultdict(Ratio)
    for row in everything.values(when).annotate(**five).order_by():
        _sum_up(lines[begin(row[when]), "*"], row)
    for row in rows.values(when, label_of).annotate(**five).order_by():
        if row["sum_attached"] or row["sum_waiting"]:
            _sum_up(lines[begin(row[when]), row[label_of]], row)
    for (moment, label), ratio in sorted(lines.items()):
        ratio.supply = supply[moment]
        amounts = (ratio.supply, ratio.requested, ratio.attached, ratio.measured, ratio.utilised)
        shares = (ratio.requested_ratio, ratio.attached_ratio, ratio.utilisation)
        yield (
            moment,
            label,
            *(round(amount / _HOUR_S, 4) for amount in amounts),
            *("" if share is None else round(share * 100, 2) for share in shares),
        )


def waste_rows(found: History, currency: str) -> Iterator[tuple[Any, ...]]:
    for loss in found.losses:
        cost = loss.cost.quantize(Decimal("0.01"))
        yield loss.cause, loss.label, round(loss.gpu_hours, 4), cost, currency
