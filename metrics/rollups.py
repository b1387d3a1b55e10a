"""Rolling samples up by minute and by hour, and forgetting what is old.

A roll-up adds each sample once: it takes those after the last one that it holds (``Progress``),
adds them to their spans and moves on, in one transaction. So a restart, a second worker or a clock
that moves neither loses a sample nor counts one twice, and a late sample reaches its span.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, timedelta
from typing import TYPE_CHECKING, Any, Literal

from django.db import connections, transaction
from django.db.models import Count, Max, Min, Q, Sum
from django.db.models.functions import TruncHour, TruncMinute

from common.clock import now
from metrics.models import FIELDS, HourSample, MinuteSample, Progress, Quiet, RollUp, Sample

if TYPE_CHECKING:
    from django.db import models

AT_ONCE = 50_000  # samples in one transaction
BATCH = 10_000  # rows that one statement deletes
MOST_BATCHES = 30  # in one turn: the next one goes on


@dataclass(frozen=True)
class Tier:
    """How finely what is older is kept, and for how long."""

    name: Literal["minute", "hour"]
    model: type[RollUp]
    step: timedelta
    kept: timedelta
    trunc: type[TruncMinute | TruncHour]


RAW_KEPT = timedelta(hours=2)
MINUTE = Tier("minute", MinuteSample, timedelta(minutes=1), timedelta(hours=48), TruncMinute)
HOUR = Tier("hour", HourSample, timedelta(hours=1), timedelta(days=400), TruncHour)
TIERS = (MINUTE, HOUR)
_QUIET_KEPT = timedelta(hours=1)  # a longer gap in what is known begins anew anyway

_ADDED = ("samples", "shared", "simulated", *(f"{name}_count" for name in FIELDS))
_SUMS = tuple(f"{name}_sum" for name in FIELDS)
_LOWS = tuple(f"{name}_min" for name in FIELDS)
_HIGHS = tuple(f"{name}_max" for name in FIELDS)


def progress_locked() -> Progress:
    """Return how far roll-ups are, and keep others from samples until the transaction ends."""
    Progress.objects.get_or_create()
    return Progress.objects.select_for_update().get()


def roll_up(tier: Tier) -> int:
    """Add all samples that the tier lacks; return how many there were."""
    count = 0
    while added := _roll_up_some(tier):
        count += added
    return count


def _roll_up_some(tier: Tier) -> int:
    with transaction.atomic():
        progress = progress_locked()
        new = Sample.objects.filter(pk__gt=getattr(progress, tier.name)).order_by("pk")
        ids = new.values("pk")[:AT_ONCE]
        found = Sample.objects.filter(pk__in=ids).aggregate(last=Max("pk"), count=Count("pk"))
        if not found["count"]:
            return 0
        _add(tier, new.filter(pk__lte=found["last"]).order_by())
        setattr(progress, tier.name, found["last"])
        progress.save(update_fields=[tier.name])
    count: int = found["count"]
    return count


def _add(tier: Tier, samples: models.QuerySet[Sample]) -> None:
    """Group samples by span and add them to the rows, inside the database."""
    figures: dict[str, Any] = {}
    for name in FIELDS:
        figures[f"{name}_count"] = Count(name)
        figures[f"{name}_sum"], figures[f"{name}_min"] = Sum(name), Min(name)
        figures[f"{name}_max"] = Max(name)
    values = ("samples", "count_shared", "count_simulated", *figures)
    grouped = (
        samples.annotate(span=tier.trunc("at", tzinfo=UTC))
        .values("uid", "device", "span")
        .annotate(
            samples=Count("pk"),
            count_shared=Count("pk", filter=Q(shared=True)),
            count_simulated=Count("pk", filter=Q(simulated=True)),
            **figures,
        )
        .values_list("uid", "device", "span", *values)
    )
    columns = ("uid", "device", "at", "samples", "shared", "simulated", *figures)
    table = tier.model._meta.db_table  # noqa: SLF001 - the public name of it
    sets = [
        *(f"{c} = {table}.{c} + excluded.{c}" for c in _ADDED),
        # NULL is what nothing is known of: with it the other one stands
        *(f"{c} = COALESCE({table}.{c} + excluded.{c}, {table}.{c}, excluded.{c})" for c in _SUMS),
        *(
            f"{c} = CASE WHEN {table}.{c} {sign} excluded.{c} THEN {table}.{c}"
            f" ELSE COALESCE(excluded.{c}, {table}.{c}) END"
            for sign, ends in (("<", _LOWS), (">", _HIGHS))
            for c in ends
        ),
    ]
    using = samples.select_for_update().db  # where one writes
    select, params = grouped.query.get_compiler(using).as_sql()
    with connections[using].cursor() as cursor:
        cursor.execute(
            f"INSERT INTO {table} ({', '.join(columns)}) {select} "
            f"ON CONFLICT (uid, device, at) DO UPDATE SET {', '.join(sets)}",
            params,
        )


def forget_old() -> int:
    """Delete what is older than it is kept, in batches; a sample not before every tier holds it."""
    at = now()
    progress = Progress.objects.first()
    held = min(progress.minute, progress.hour) if progress else 0
    old: list[models.QuerySet[Any]] = [
        Sample.objects.filter(at__lt=at - RAW_KEPT, pk__lte=held),
        *(tier.model._default_manager.filter(at__lt=at - tier.kept) for tier in TIERS),  # noqa: SLF001
        Quiet.objects.filter(known_at__lt=at - _QUIET_KEPT),
    ]
    return sum(_delete(rows) for rows in old)


def _delete(rows: models.QuerySet[Any]) -> int:
    count = 0
    for _ in range(MOST_BATCHES):
        ids = rows.order_by("pk").values("pk")[:BATCH]
        deleted, _by_model = rows.model._default_manager.filter(pk__in=ids).delete()  # noqa: SLF001
        count += deleted
        if deleted < BATCH:
            break
    return count
