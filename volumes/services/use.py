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

# What ``require_usable`` reads.
_STATE = (
    *("id", "name", "desired", "deleted_at"),
    *("restore_serial", "restore_done", "move_serial", "move_done"),
)
# The lock of a reference to the row: a change of other columns does not wait for it. A row that
# was waited for is answered as it is then.
_HOLD = (
    f"SELECT {', '.join(_STATE)} FROM volumes_volume"  # noqa: S608 - names of this file
    " WHERE id = ANY(%s) ORDER BY id FOR KEY SHARE"
)


def volumes_hold(volumes: Iterable[Volume]) -> None:
    """Raise unless each that is still there may be used; so it stays until the transaction ends.

    What puts a volume back, removes it or hands it over locks its row, then asks who uses it: it
    waits for us or we for it. Holders do not wait for each other. SQLite has one writer anyhow.
    Call it before anything that takes limits: those who lock a volume take them second.
    """
    keys = sorted({volume.pk for volume in volumes})
    if not keys:
        return
    rows: Iterable[Volume] = Volume.objects.filter(pk__in=keys).only(*_STATE).order_by("pk")
    if connection.vendor == "postgresql":
        rows = Volume.objects.raw(_HOLD, [keys])
    for row in rows:
        if row.deleted_at is None:
            require_usable(row)


def volume_take_turn(volume: Volume) -> None:
    """Let whoever calls this for the same volume wait until the transaction ends.

    For a rule between rows that lie on one volume: what is asked after it sees all that others
    have written. Holders do not wait for it, nor it for them.
    """
    list(Volume.objects.select_for_update(no_key=True).filter(pk=volume.pk).values_list("pk"))


def volume_note_use(*, uids: Iterable[UUID | str], user: User | None) -> None:
    """Remember who used them last, and when. Called by whatever mounts them or writes there."""
    Volume.objects.filter(uid__in=list(uids), deleted_at__isnull=True).update(
        last_used_at=now(), last_used_by=user
    )


def volume_note_written(*, uids: Iterable[UUID | str]) -> None:
    """Something may have been written that no measurement has seen; there is no hurry."""
    wanted = [UUID(str(uid)) for uid in uids]
    Volume.objects.filter(uid__in=wanted, deleted_at__isnull=True).update(measure_asked_at=now())


def volume_measure_soon(*, uids: Iterable[UUID | str]) -> None:
    """Measure them anew: something wrote, or deleted, a lot."""
    wanted = [UUID(str(uid)) for uid in uids]
    volume_note_written(uids=wanted)
    hint_uids(Volume.KIND, wanted)
