"""Noting that a volume is used, and asking for a new measurement after that."""

from __future__ import annotations

from typing import TYPE_CHECKING
from uuid import UUID

from common.clock import now
from runtime.hints import hint_uids
from volumes.models import Volume

if TYPE_CHECKING:
    from collections.abc import Iterable

    from accounts.models import User


def volume_note_use(*, uids: Iterable[UUID | str], user: User | None) -> None:
    """Remember who used them last, and when. Called by whatever mounts them or writes there."""
    Volume.objects.filter(uid__in=list(uids), deleted_at__isnull=True).update(
        last_used_at=now(), last_used_by=user
    )


def volume_measure_soon(*, uids: Iterable[UUID | str]) -> None:
    """Measure them anew: something wrote, or deleted, a lot."""
    hint_uids(Volume.KIND, [UUID(str(uid)) for uid in uids])
