"""Closing hours: the duty of one worker that writes the ledger of each hour that is over, once.

An hour is written whole, with its day, in one transaction; writing it again gives the same rows.
What is learned of the past later (``LateFact``) has its hours written anew.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

from django.db import transaction
from django.db.models import Max, Q, Sum

from common.clock import now
from metrics.models import HourSample, MinuteSample
from metrics.rollups import MINUTE as MINUTES
from metrics.sampling import GPU_BUSY
from usage.ledger import FIGURES, HOUR, MINUTE, Amounts, Dims, Hold, Supply, Want, ledger, millis
from usage.listeners import TAKEN
from usage.models import (
    RESIZED,
    CapacityHour,
    Grain,
    Interval,
    LateFact,
    LedgerDay,
    LedgerHour,
    LedgerProgress,
    Wait,
)

KEPT = timedelta(days=400)
GRACE = timedelta(minutes=10)  # roll-ups and transactions of the hour are over by then
FIRST = timedelta(hours=48)  # how far back the first turn begins: so long minutes are kept
AT_ONCE = 24  # hours in one turn
STALE = timedelta(days=7)  # how long the last that was seen of supply stands for what nobody saw
_HOUR = timedelta(hours=1)
_DIMS = ("cluster_key", "flavor", "project_uid", "project_slug", "owner_uid", "owner_name", "kind")
_OF_GRAIN = {
    Grain.ALL: ("cluster_key", "flavor", "kind"),
    Grain.PROJECT: ("cluster_key", "flavor", "kind", "project_uid"),
    Grain.OWNER: ("cluster_key", "flavor", "kind", "project_uid", "owner_uid"),
}
_WORDS = {"project_slug": "project_uid", "owner_name": "owner_uid"}
_BATCH = 500


def close_due(most: int = AT_ONCE) -> int:
    """Write the hours that are over, and anew those of which more is known; return how many."""
    count = 0
    while count < most and _close_next():
        count += 1
    if count:
        _forget_old()
    return count


def _close_next() -> bool:
    at = now()
    ends = _floor(at - GRACE)
    with transaction.atomic():
        LedgerProgress.objects.get_or_create(defaults={"until": ends - FIRST})
        progress = LedgerProgress.objects.select_for_update().get()
        if progress.until > ends:  # a clock was ahead: what was written of then is written anew
            progress.until = ends
            progress.save(update_fields=["until"])
        facts = list(LateFact.objects.order_by("since"))
        hour = min([_floor(fact.since) for fact in facts] + [progress.until])
        hour = max(hour, _floor(at - KEPT))
        if hour >= ends:
            return False
        LateFact.objects.filter(pk__in=[f.pk for f in facts if f.until <= hour + _HOUR]).delete()
        late = [f.pk for f in facts if f.since < hour + _HOUR < f.until]
        LateFact.objects.filter(pk__in=late).update(since=hour + _HOUR)
        _write_hour(hour)
        if hour >= progress.until:
            progress.until = hour + _HOUR
            progress.save(update_fields=["until"])
    return True


def _write_hour(hour: datetime) -> None:
    rows = rows_of_hour(hour, hour + _HOUR)
    LedgerHour.objects.filter(hour=hour).delete()
    LedgerHour.objects.bulk_create(
        (LedgerHour(hour=hour, **_columns(dims), **_seconds(row)) for dims, row in rows.items()),
        batch_size=_BATCH,
    )
    write_day(hour)


def rows_of_hour(hour: datetime, until: datetime) -> dict[Dims, Amounts]:
    """Return the ledger of an hour as far as ``until``, from what is written down now."""
    begin = millis(hour)
    now_on = min(millis(until), begin + HOUR)
    overlaps = Q(ended_at__isnull=True) | Q(ended_at__gt=hour)
    began = Q(placed_at__lt=until) | Q(placed_at__isnull=True, started_at__lt=until)
    held = Interval.objects.filter(overlaps, began, gpus__gt=0)
    holds = [_hold(row, now_on) for row in held]
    waits = Wait.objects.filter(overlaps, began_at__lt=until)
    wants = [
        Want(_dims(row), row.gpus, millis(row.began_at), _end(row.ended_at, now_on))
        for row in waits
    ]
    use = _use(hour, until, {hold.uid for hold in holds})
    return ledger(begin, holds, wants, use, _supply(hour), busy=GPU_BUSY)


def _hold(row: Interval, now_on: int) -> Hold:
    begin = millis(row.placed_at or row.started_at)
    marks = [(int(at), str(word)) for at, word in row.marks]
    if not marks and row.placed_at is None:  # a version before wrote none
        marks = [(begin, "run")]
    return Hold(
        dims=_dims(row),
        uid=row.uid,
        gpus=row.gpus,
        begin=begin,
        end=_end(row.ended_at, now_on),
        marks=tuple(marks),
        failed=None not in (row.ended_at, row.placed_at)
        and row.ready_at is None
        and row.end_reason != RESIZED,
        taken=row.end_reason in TAKEN,
    )


def _use(hour: datetime, until: datetime, uids: set[UUID]) -> dict[UUID, dict[int, float]]:
    """Return mean utilisation by minute; of hours whose minutes are gone, that of the hour."""
    found: dict[UUID, dict[int, float]] = defaultdict(dict)
    told = {"device": "", "at__gte": hour, "at__lt": until, "gpu_utilisation_count__gt": 0}
    columns = ("uid", "at", "gpu_utilisation_sum", "gpu_utilisation_count")
    if hour < now() - MINUTES.kept:
        for uid, at, total, count in HourSample.objects.filter(**told).values_list(*columns):
            if uid in uids:
                begin = millis(at)
                found[uid] = dict.fromkeys(range(begin, begin + HOUR, MINUTE), total / count)
        return found
    rows = MinuteSample.objects.filter(**told).values_list(*columns)
    for uid, at, total, count in rows.iterator(chunk_size=5000):
        if uid in uids:
            found[uid][millis(at)] = total / count
    return found


def _supply(hour: datetime) -> Iterator[Supply]:
    """Yield what there was of each kind; where nobody looked in an hour, as it was seen before."""
    last = (
        CapacityHour.objects.filter(hour__lte=hour, hour__gt=hour - STALE)
        .order_by()
        .values("cluster_key")
        .annotate(last=Max("hour"))
    )
    wanted = Q(pk__in=[])
    for one in last:
        wanted |= Q(cluster_key=one["cluster_key"], hour=one["last"])
    rows = list(CapacityHour.objects.filter(wanted).exclude(flavor=""))
    looks: dict[str, int] = defaultdict(int)  # a kind that came within the hour was seen less
    for row in rows:
        looks[row.cluster_key] = max(looks[row.cluster_key], row.samples)
    for row in rows:
        n = looks[row.cluster_key] or 1
        free = (row.fragmented / n, row.held_back / n) if row.hour == hour else (0.0, 0.0)
        yield Supply(
            *(row.cluster_key, row.flavor, row.supply / n, row.out / n, row.others / n), *free
        )


def write_day(hour: datetime) -> None:
    """Add up the day of an hour, in each grain."""
    day = hour.date()
    begin = datetime(day.year, day.month, day.day, tzinfo=UTC)
    hours = LedgerHour.objects.filter(hour__gte=begin, hour__lt=begin + timedelta(days=1))
    LedgerDay.objects.filter(day=day).delete()
    for grain, columns in _OF_GRAIN.items():
        words = [name for name, uid in _WORDS.items() if uid in columns]
        groups = (
            hours.order_by()
            .values(*columns)
            .annotate(
                **{f"sum_{name}": Sum(name) for name in FIGURES},
                **{f"max_{name}": Max(name) for name in words},
            )
        )
        LedgerDay.objects.bulk_create(
            (
                LedgerDay(
                    day=day,
                    grain=grain,
                    **{name: row[name] for name in columns},
                    **{name: row[f"sum_{name}"] for name in FIGURES},
                    **{name: row[f"max_{name}"] for name in words},
                )
                for row in groups
            ),
            batch_size=_BATCH,
        )


def _forget_old() -> None:
    old = now() - KEPT
    LedgerHour.objects.filter(hour__lt=old).delete()
    LedgerDay.objects.filter(day__lt=old.date()).delete()
    Wait.objects.filter(ended_at__lt=old).delete()


def _dims(row: Interval | Wait) -> Dims:
    return Dims(
        row.cluster_key,
        row.flavor,
        row.project_uid,
        row.project_slug,
        row.owner_uid,
        row.owner_name,
        row.kind,
    )


def _columns(dims: Dims) -> dict[str, Any]:
    return dict(zip(_DIMS, dims, strict=True))


def _seconds(row: Amounts) -> dict[str, float]:
    return {name: row[name] / 1000 for name in FIGURES}


def _floor(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(minute=0, second=0, microsecond=0)


def _end(at: datetime | None, now_on: int) -> int:
    return now_on if at is None else millis(at)
