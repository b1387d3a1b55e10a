"""What was measured: now, over time, and since when nothing happens. Unknown is left out."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db.models import Avg, F, OuterRef, Subquery, Sum

from common.clock import now
from metrics.models import FIELDS, FRESH, Quiet, Sample
from metrics.rollups import RAW_KEPT, TIERS, Tier

if TYPE_CHECKING:
    from django.db import models

    Uids = Collection[UUID] | models.QuerySet[Any, Any]

_ASKING = timedelta(minutes=1)  # "the last two hours" began two hours and a moment ago
LATEST = timedelta(minutes=2)  # older figures say nothing of now


@dataclass(frozen=True)
class Reading:
    """What was measured at one moment."""

    at: datetime
    cpu_milli: int | None
    memory_mib: int | None
    rx_rate: float | None
    tx_rate: float | None
    gpu_utilisation: float | None
    gpu_memory_mib: int | None
    shared: bool
    simulated: bool


@dataclass
class Figure:
    """One figure over a span: how often it was measured, the sum, the lowest and the highest."""

    count: int
    total: float
    low: float
    high: float

    @property
    def mean(self) -> float:
        return self.total / self.count

    def add(self, other: Figure) -> None:
        self.count += other.count
        self.total += other.total
        self.low, self.high = min(self.low, other.low), max(self.high, other.high)


@dataclass
class Span:
    """What was measured from ``at`` on, for one step. A figure that nobody measured is absent."""

    at: datetime
    figures: dict[str, Figure] = field(default_factory=dict)
    shared: bool = False
    simulated: bool = False

    def mean(self, name: str) -> float | None:
        found = self.figures.get(name)
        return found.mean if found else None


def latest(uids: Uids, within: timedelta = LATEST) -> dict[UUID, Reading]:
    """Return the newest reading of each workload; who has none is absent. One query."""
    fresh = Sample.objects.filter(device="", at__gte=now() - within)
    newest = fresh.filter(uid=OuterRef("uid")).order_by("-at", "-pk").values("pk")[:1]
    rows = fresh.filter(uid__in=uids, pk=Subquery(newest))
    return {
        uid: Reading(at, *values)
        for uid, at, *values in rows.values_list("uid", "at", *FIELDS, "shared", "simulated")
    }


def means(uids: Uids, since: datetime, name: str) -> dict[UUID, float]:
    """Return the mean of one figure of each workload; who has none is absent. One query."""
    tier = _tier(since, timedelta())
    model: type[models.Model] = tier.model if tier else Sample
    mean = Sum(f"{name}_sum") / Sum(F(f"{name}_count") * 1.0) if tier else Avg(name)
    begin = _floor(since, tier.step) if tier else since
    rows = model._default_manager.filter(  # noqa: SLF001 - one of several models
        uid__in=uids, device="", at__gte=begin
    )
    found: Any = rows.order_by().values_list("uid").annotate(mean=mean)
    return {uid: value for uid, value in found if value is not None}


def series(
    uids: Uids, since: datetime, step: timedelta, fields: Iterable[str] = FIELDS, device: str = ""
) -> dict[UUID, list[Span]]:
    """Return the spans of each workload (or of one of its devices) in their order. One query.

    They come from the coarsest roll-up that is as fine as ``step`` and reaches back so far, so the
    newest of them may be up to ten minutes late for steps of an hour, a minute for shorter ones.
    """
    names = tuple(fields)
    tier = _tier(since, step)
    step = max(step, tier.step) if tier else step
    found: dict[UUID, dict[datetime, Span]] = {}
    for uid, at, shared, simulated, figures in _rows(tier, uids, since, names, device):
        start = _floor(at, step)
        span = found.setdefault(uid, {}).setdefault(start, Span(start))
        span.shared |= shared
        span.simulated |= simulated
        for name, figure in figures.items():
            if known := span.figures.get(name):
                known.add(figure)
            else:
                span.figures[name] = figure
    return {uid: [spans[at] for at in sorted(spans)] for uid, spans in found.items()}


def quiet_since(uids: Sequence[UUID]) -> dict[UUID, datetime]:
    """Return since when nothing computes in each; of one at work, when that was seen last.

    Who is absent may compute or not: processor and GPUs were not all measured lately.
    """
    rows = Quiet.objects.filter(uid__in=uids, known_at__gt=now() - FRESH)
    return dict(rows.values_list("uid", "since"))


def _tier(since: datetime, step: timedelta) -> Tier | None:
    """Return the roll-up to read; None: the samples themselves."""
    fine = [tier for tier in TIERS if tier.step <= step]
    reach = now() - since - _ASKING
    if step < TIERS[0].step and reach <= RAW_KEPT:
        return None
    for tier in (*reversed(fine), *TIERS):
        if reach <= tier.kept:
            return tier
    return TIERS[-1]


def _rows(
    tier: Tier | None, uids: Uids, since: datetime, names: tuple[str, ...], device: str
) -> Iterable[tuple[UUID, datetime, bool, bool, Mapping[str, Figure]]]:
    if tier is None:
        samples = Sample.objects.filter(uid__in=uids, device=device, at__gte=since)
        for uid, at, shared, simulated, *values in samples.values_list(
            "uid", "at", "shared", "simulated", *names
        ):
            figures = zip(names, values, strict=True)
            known = {n: Figure(1, float(v), v, v) for n, v in figures if v is not None}
            yield uid, at, shared, simulated, known
        return
    columns = [f"{name}_{part}" for name in names for part in ("count", "sum", "min", "max")]
    spans = tier.model._default_manager.filter(  # noqa: SLF001 - one of several models
        uid__in=uids, device=device, at__gte=_floor(since, tier.step)
    )
    for uid, at, shared, simulated, *parts in spans.values_list(
        "uid", "at", "shared", "simulated", *columns
    ):
        told = {name: parts[4 * n : 4 * n + 4] for n, name in enumerate(names)}
        yield (
            uid,
            at,
            bool(shared),
            bool(simulated),
            {name: Figure(*four) for name, four in told.items() if four[0]},
        )


def _floor(at: datetime, step: timedelta) -> datetime:
    seconds = step.total_seconds()
    return datetime.fromtimestamp(at.timestamp() // seconds * seconds, tz=UTC)
