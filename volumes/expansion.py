"""Making a volume as large as was asked, as far as its storage does; it is in use meanwhile."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from common.clock import now
from runtime.capabilities import CannotGrow, Growing
from volumes.mounting import backing_of, owner_of
from volumes.services.unfulfilled_expansion import growth_refused

if TYPE_CHECKING:
    from runtime.capabilities import SupportsVolumes
    from volumes.models import Volume

GROWING = "growing"
SLOWEST_S = 60.0
PART_OF_AGE = 0.1  # what takes longer is looked at more seldom


@dataclass(frozen=True)
class Growth:
    """What is to be said of it; nothing: it is as large as was asked."""

    reason: str = ""
    message: str = ""
    requeue_s: float | None = None
    updates: dict[str, Any] = field(default_factory=dict)


def ensure(driver: SupportsVolumes, row: Volume) -> Growth:
    """Make it exist with its size. One that the storage refuses for good is taken back."""
    project, owner = str(row.project.uid), owner_of(row)
    try:
        driver.ensure_volume(str(row.uid), project=project, owner=owner, backing=backing_of(row))
    except Growing as wait:
        since = row.growing_since or now()
        pause = min(PART_OF_AGE * (now() - since).total_seconds(), SLOWEST_S)
        pause = max(pause, wait.retry_in)
        return Growth(GROWING, str(wait), pause, {"growing_since": since})
    except CannotGrow as error:
        growth_refused(volume=row, why=str(error), size_mib=error.size_mib)
        return Growth(updates={"growing_since": None})
    return Growth(updates={"growing_since": None, "given_mib": row.size_limit_mib or 0})
