"""Reading what belongs to a workload of any kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from work.models import Step, Workload


def steps_of(row: Workload, launch: int | None = None) -> Sequence[Step]:
    """Return the timeline of one launch (the latest by default), oldest first."""
    return list(row.steps.filter(launch=launch or row.launch).order_by("id"))
