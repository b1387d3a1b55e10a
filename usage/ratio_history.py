"""The three ratios, and what was lost, over time: from the ledger, by node from `NodeDay`."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

from django.db.models import QuerySet, Sum

from clusters.models import Flavor
from clusters.wording import work_words
from usage import node_days
from usage.ledger import CAUSES, FIGURES, HELD, WASTE
from usage.models import LedgerDay, LedgerHour
from usage.names import people, projects
from usage.ratios import COLUMNS, By, Group, Ratio, Scope, ordered
from usage.selectors import Range

SHOWN = 7  # groups that a chart tells apart; what is left is one more
_FINE = timedelta(days=3)  # shorter spans are told by the hour
_HOUR_S = 3600
_FLAVOR = ("name", "label", "price_per_hour")


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


def history(scope: Scope, span: Range, by: By, *, drawn: bool = False) -> History:
    """Return the ratios and losses of a span; a constant number of queries.

    ``drawn``: each step also tells what the shown groups attached.
    """
    when, step, rows, everything = _source(scope, span, by)
    figures = {f"sum_{name}": Sum(name) for name in FIGURES}
    whole = list(everything.values(when).annotate(**figures).order_by(when))
    uid_of, label_of, _grain = COLUMNS[by]
    own_supply = by in {By.FLAVOR, By.CLUSTER, By.NODE}
    supply: dict[Any, float] = defaultdict(float)  # of each step
    of_key: dict[Any, float] = defaultdict(float)  # of each kind, or cluster
    there = _source(Scope(), span, By.NODE if by == By.NODE else By.KIND)[3].values(
        when, "flavor", "cluster_key"
    )
    for row in there.annotate(n=Sum("supply")).filter(n__gt=0).order_by():
        supply[row[when]] += row["n"]
        of_key[row[uid_of] if own_supply else None] += row["n"]
    kinds = {name: rest for name, *rest in Flavor.objects.values_list(*_FLAVOR)}
    groups: dict[Any, Group] = {}
    losses: dict[tuple[str, Any], Loss] = {}
    for row in _lines(scope, by, rows, everything):
        key, label = row[uid_of], row[label_of]
        if row["sum_attached"] or row["sum_waiting"] or (own_supply and scope.is_all):
            _sum_up(groups.setdefault(key, Group(key, label)).ratio, row)
        for cause in WASTE:
            if row.get(f"sum_{cause}"):
                loss = losses.setdefault((cause, key), Loss(cause, key, label))
                hours = row[f"sum_{cause}"] / _HOUR_S
                loss.gpu_hours += hours
                loss.cost += Decimal(hours) * kinds.get(row["flavor"], ("", 0))[1]
    for group in groups.values():
        group.ratio.supply = of_key[group.key if own_supply else None]
    greatest = ordered(groups.values())
    shown = [group.key for group in greatest[:SHOWN]]
    held = _of_shown(rows, when, uid_of, shown) if drawn else {}
    steps = []
    total = Ratio()
    own = {row[when]: row for row in whole}
    for moment in sorted(own.keys() | supply.keys()):  # also those in which none of this work was
        ratio = _sum_up(Ratio(), own[moment]) if moment in own else Ratio()
        ratio.supply = supply[moment]
        total.add(ratio)
        of = held.get(moment, [0.0] * len(shown))
        steps.append(Step(_moment(moment), ratio, of))
    found = History(
        span,
        by,
        step,
        total,
        steps,
        greatest,
        sorted(losses.values(), key=lambda loss: (-loss.gpu_hours, loss.cause, loss.label)),
        {cause: sum(row[f"sum_{cause}"] for row in whole) / _HOUR_S for cause in CAUSES},
    )
    if by == By.NODE:
        found = _by_node(found)
    _name(by, [*found.groups, *found.losses], {name: label for name, (label, _) in kinds.items()})
    return found


def _of_shown(
    rows: QuerySet[Any], when: str, uid_of: str, shown: list[Any]
) -> dict[Any, list[float]]:
    """Return what each shown group attached, by step."""
    found: dict[Any, list[float]] = defaultdict(lambda: [0.0] * len(shown))
    some = rows.filter(**{f"{uid_of}__in": shown}).values_list(when, uid_of)
    for moment, key, attached in some.annotate(n=Sum("attached")).order_by():
        found[moment][shown.index(key)] = attached
    return found


def _by_node(found: History) -> History:
    """Return a history by cluster as one by node. Causes are known of the whole only."""
    groups: dict[str, Group] = {}
    days: dict[datetime, dict[str, float]] = defaultdict(dict)
    for row in node_days.rows(*_days(found.span)):
        name = row["label"]
        _sum_up(groups.setdefault(name, Group(name, name)).ratio, row)
        days[_moment(row["day"])][name] = row["sum_attached"]
    greatest = ordered(groups.values())
    shown = [group.label for group in greatest[:SHOWN]]
    steps = [replace(s, of=[days[s.at].get(name, 0.0) for name in shown]) for s in found.steps]
    return replace(found, groups=greatest, steps=steps, losses=[])


def _lines(
    scope: Scope, by: By, rows: QuerySet[Any], everything: QuerySet[Any]
) -> list[dict[str, Any]]:
    """Return the sums of each group and kind of GPU.

    Sums cost: of people's work none is taken of what nobody holds, whose own rows are few.
    """
    uid_of, label_of, _grain = COLUMNS[by]
    of_work = by in {By.PROJECT, By.PERSON}
    lost = [cause for cause in WASTE if cause in HELD or not of_work]
    names = ["waiting", "attached", "measured", "utilised", *lost]
    if of_work:
        rows = rows.filter(project_uid__isnull=False)
    else:
        names.append("supply")
    columns = list(dict.fromkeys((uid_of, label_of, "flavor")))
    sums = {f"sum_{name}": Sum(name) for name in names}
    found: list[dict[str, Any]] = list(rows.values(*columns).annotate(**sums).order_by())
    if of_work and scope.is_all:
        free = everything.filter(kind="").values("flavor")
        sums = {f"sum_{cause}": Sum(cause) for cause in WASTE}
        nobody = {uid_of: None, label_of: "", "sum_attached": 0.0, "sum_waiting": 0.0}
        found += [nobody | row for row in free.annotate(**sums).order_by()]
    return found


def _source(
    scope: Scope, span: Range, by: By
) -> tuple[str, timedelta, QuerySet[Any], QuerySet[Any]]:
    """Return the column of time, its step, and rows: fine enough for groups, and coarsest."""
    if span.until - span.since <= _FINE and by != By.NODE:
        hours = LedgerHour.objects.filter(
            hour__gt=span.since - timedelta(hours=1), hour__lt=span.until, **scope.only
        )
        return "hour", timedelta(hours=1), hours, hours
    first, last = _days(span)
    days = LedgerDay.objects.filter(day__gte=first, day__lte=last, **scope.only)
    fine = max(COLUMNS[by][2], scope.grain)
    return "day", timedelta(days=1), days.filter(grain=fine), days.filter(grain=scope.grain)


def _days(span: Range) -> tuple[date, date]:
    """Return the first and the last day (UTC) of a span."""
    last = (span.until - timedelta(microseconds=1)).astimezone(UTC).date()
    return span.since.astimezone(UTC).date(), last


def _sum_up(ratio: Ratio, row: dict[str, Any]) -> Ratio:
    for name in ("supply", "waiting", "attached", "measured", "utilised"):
        setattr(ratio, name, getattr(ratio, name) + (row.get(f"sum_{name}") or 0.0))
    return ratio


def _moment(value: date | datetime) -> datetime:
    if isinstance(value, datetime):
        return value
    return datetime(value.year, value.month, value.day, tzinfo=UTC)


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
    label_of = COLUMNS[by][1]
    five = {f"sum_{n}": Sum(n) for n in ("supply", "waiting", "attached", "measured", "utilised")}
    supply: dict[str, float] = defaultdict(float)

    def begin(moment: Any) -> str:
        return f"{moment:%Y-%m}" if monthly else moment.isoformat()

    for moment, n in (
        _source(Scope(), span, By.NODE if by == By.NODE else By.KIND)[3]
        .values_list(when)
        .annotate(n=Sum("supply"))
        .order_by()
    ):
        supply[begin(moment)] += n
    lines: dict[tuple[str, str], Ratio] = defaultdict(Ratio)
    for row in everything.values(when).annotate(**five).order_by():
        _sum_up(lines[begin(row[when]), "*"], row)
    if by == By.NODE:
        label_of, groups = "label", node_days.rows(*_days(span))
    else:
        groups = rows.values(when, label_of).annotate(**five).order_by()
    for row in groups:
        if row["sum_attached"] or row["sum_waiting"]:
            _sum_up(lines[begin(row[when]), row[label_of]], row)
    for (moment, label), ratio in sorted(lines.items()):
        if by != By.NODE or label == "*":  # a node has its own
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
