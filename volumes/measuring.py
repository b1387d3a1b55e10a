"""When the size of a volume is found out, and what is known of it meanwhile.

One machine tells it at each look. A cluster runs a short program beside the data for it: when
something was written since, at most every half hour unasked, few at a time; what nobody uses is
measured once a day. While one runs, or when it failed, what was known stays.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

import structlog
from django.db.models import Q

from common.clock import now
from runtime.capabilities.volumes import SupportsMeasuring
from runtime.protocol import DriverError, NotYet, Unreachable
from volumes import references
from volumes.models import Volume, VolumeDay
from volumes.topology import placement_beside

if TYPE_CHECKING:
    from runtime.capabilities.volumes import Measured, SupportsVolumes


log = structlog.get_logger(__name__)

LOOK_EVERY_S = 600.0
IN_USE, QUIET = timedelta(minutes=30), timedelta(days=1)
FIRST = timedelta(minutes=10)  # what starts on a new volume goes first; whoever fills it asks
SOONEST, AFTER_FAILURE = timedelta(seconds=30), timedelta(hours=1)
TIMES_AS_LONG = 20  # so much of the time a volume is left alone after it was measured
AT_ONCE, FULL_S = 2, 30.0  # of one cluster: each is a pod
FORGOTTEN = timedelta(hours=1)  # one that began then counts no more


@dataclass(frozen=True)
class Look:
    """``used`` is what is known now, None: nothing."""

    used: int | None
    updates: dict[str, Any] = field(default_factory=dict)
    requeue_s: float = LOOK_EVERY_S


def look(driver: SupportsVolumes, row: Volume) -> Look:
    if isinstance(driver, SupportsMeasuring):
        return _measured(driver, row)
    used = driver.volume_usage(str(row.uid))
    at = now() if used is not None else row.used_at
    return Look(used, {"used_bytes": used, "used_at": at, "used_at_least": False})


def let_go(driver: object, row: Volume) -> None:
    """Nothing of ours may hold a volume that is to be moved, put back or removed."""
    if isinstance(driver, SupportsMeasuring):
        driver.end_measuring(str(row.uid))


def _measured(driver: SupportsMeasuring, row: Volume) -> Look:
    at = now()
    began = row.measuring_since
    if began is None:
        wait = due_in(row, at)
        if wait > 0:
            return Look(row.used_bytes, requeue_s=min(wait, LOOK_EVERY_S))
        # how many of the cluster are being measured: two workers may go one beyond the limit
        rows = Volume.objects.filter(cluster_key=row.cluster_key, deleted_at__isnull=True)
        others = rows.filter(measuring_since__gt=at - FORGOTTEN).exclude(pk=row.pk)
        if others.count() >= AT_ONCE:
            return Look(row.used_bytes, requeue_s=FULL_S)
        began = at
    where = placement_beside(row.cluster_key, row, row.KIND, row.project)
    try:
        found = driver.measure_volume(str(row.uid), where)
    except NotYet as under_way:
        return Look(row.used_bytes, {"measuring_since": began}, under_way.retry_in)
    except Unreachable:
        raise
    except DriverError as error:
        log.warning("volumes.not_measured", uid=str(row.uid), error=str(error))
        return _not_known(row, at)
    return _not_known(row, at) if found is None else _known(found, began, at)


def _known(found: Measured, began: datetime, at: datetime) -> Look:
    rest = max(SOONEST, timedelta(seconds=TIMES_AS_LONG * found.seconds))
    updates = {
        "used_bytes": found.bytes,
        "used_at": began,  # what was written since may not be in it
        "used_at_least": not found.whole,
        "measuring_since": None,
        "measure_not_before": at + rest,
    }
    return Look(found.bytes, updates)


def _not_known(row: Volume, at: datetime) -> Look:
    updates = {"measuring_since": None, "measure_not_before": at + AFTER_FAILURE}
    return Look(row.used_bytes, updates)


def due_in(row: Volume, at: datetime) -> float:
    """Return the seconds until it is to be measured."""
    soonest = row.measure_not_before or row.measure_asked_at or row.created_at + FIRST
    return (max(_wanted_at(row), soonest) - at).total_seconds()


def _wanted_at(row: Volume) -> datetime:
    last, asked = row.used_at, row.measure_asked_at
    if last is None:
        return row.created_at
    if asked is not None and asked >= last:
        return asked
    used = row.last_used_at is not None and row.last_used_at >= last
    return last + (IN_USE if used or references.holders_of(row) else QUIET)


KEPT = timedelta(days=400)
SHOWN = timedelta(days=90)


def note_day(row: Volume, found: Look) -> None:
    """Keep what a look found out, in the row of its day; repeated it says the same."""
    used, at = found.updates.get("used_bytes"), found.updates.get("used_at")
    if used is None or at is None:
        return
    one = VolumeDay(
        volume=row,
        project_id=row.project_id,
        day=at.date(),
        used_bytes=used,
        at_least=found.updates.get("used_at_least", False),
        size_limit_mib=row.size_limit_mib,
    )
    VolumeDay.objects.bulk_create(
        [one],
        update_conflicts=True,
        unique_fields=["volume", "day"],
        update_fields=["project", "used_bytes", "at_least", "size_limit_mib"],
    )


def days_of(row: Volume) -> list[VolumeDay]:
    """Return the days that are shown, oldest first; not those in a project it was handed from."""
    since = now().date() - SHOWN
    return list(row.days.filter(project_id=row.project_id, day__gt=since).order_by("day"))


def prune_days() -> int:
    """Forget what is too old, or of volumes that are gone; return how many days."""
    old = Q(day__lt=(now() - KEPT).date()) | Q(volume__deleted_at__isnull=False)
    count, _by = VolumeDay.objects.filter(old).delete()
    return count
