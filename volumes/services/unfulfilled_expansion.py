"""What becomes of a wish for more room that the storage does not fulfil."""

from __future__ import annotations

from django.db import transaction

from quotas import services as quotas
from quotas.choices import STORAGE_MIB
from volumes.models import Volume
from volumes.services.base import lock, save, tell

MAX_WHY = 400


@transaction.atomic
def growth_refused(*, volume: Volume, why: str, size_mib: int) -> None:
    """Take the wish back: the volume is as large as before, and counts as much; say why.

    ``size_mib`` is what the driver saw; what is written of it here counts more, because storage
    rounds up. Nothing happens when somebody changed the volume meanwhile.
    """
    row = lock(volume)
    if row.generation != volume.generation:
        return
    wanted = row.size_limit_mib
    row.size_limit_mib = size_mib if row.given_mib is None else (row.given_mib or None)
    row.growth_refused, row.growing_since = why[:MAX_WHY], None
    quotas.lower(row.uid, {STORAGE_MIB: row.size_limit_mib or 0})
    save(row, "size_limit_mib", "growth_refused", "growing_since")
    change = {"from": wanted, "to": row.size_limit_mib}
    tell(None, "volume.not-resized", row, message=why, data={"size_limit_mib": change})
