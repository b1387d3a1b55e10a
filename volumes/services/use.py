"""Using a volume: keeping it as it is, noting who did, and asking for a new measurement."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from django.db import connection

from common.clock import now
from runtime.hints import hint_uids
from volumes.models import Volume
from volumes.selectors import require_usable

if TYPE_CHECKING:
    from collections.abc import Iterable

    from accounts.models import User

# The lock of a reference to the row: a change of other columns does not wait for it.
_HOLD = "SELECT 1 FROM volumes_volume WHERE id = ANY(%s) ORDER BY id FOR KEY SHARE"


def volumes_hold(volumes: Iterable[Volume]) -> None:
    """Raise unless each that is still there may be used; so it stays until the transaction ends.

    What puts a volume back, removes it or hands it over locks its row, then asks who uses it: it
    waits for us or we for it. Holders do not wait for each other. SQLite has one writer anyhow.
    Call it before anything that takes limits: those who lock a volume take them second.
    """
    keys = sorted({volume.pk for volume in volumes})
    if not keys:
        return
    if connection.vendor == "postgresql":
        with connection.cursor() as cursor:
            cursor.execute(_HOLD, [keys])
    for row in Volume.objects.filter(pk__in=keys, deleted_at__isnull=True).order_by("pk"):
        require_usable(row)


def volume_note_use(*, uids: Iterable[UUID | str], user: User | None) -> None:
    """Remember who used them last, and when. Called by whatever mounts them or writes there."""
    Volume.objects.filter(uid__in=list(uids), deleted_at__isnull=True).update(
        last_used_at=now(), last_used_by=user
    )


def volume_measure_soon(*, uids: Iterable[UUID | str]) -> None:
    """Measure them anew: something wrote, or deleted, a lot."""
    hint_uids(Volume.KIND, [UUID(str(uid)) for uid in uids])
