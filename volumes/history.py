"""How full a volume was, by day: what was measured last on each, kept for ``KEPT``."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from django.db.models import Q

from common.clock import now
from volumes.models import Volume, VolumeDay

if TYPE_CHECKING:
    from volumes.measuring import Look

KEPT = timedelta(days=400)
SHOWN = timedelta(days=90)


def note(row: Volume, found: Look) -> None:
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


def prune() -> int:
    """Forget what is too old, or of volumes that are gone; return how many days."""
    old = Q(day__lt=(now() - KEPT).date()) | Q(volume__deleted_at__isnull=False)
    count, _by = VolumeDay.objects.filter(old).delete()
    return count
