"""One pure function from intent and observation to what people see, and its filter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db.models import F, Q

from jobs.choices import State
from runtime.protocol import Desired, Phase

if TYPE_CHECKING:
    from jobs.models import Job

ENDED = (Phase.STOPPED, Phase.FAILED)
OVER = frozenset({State.SUCCEEDED, State.FAILED, State.CANCELLED})


def state_of(row: Job) -> State:  # noqa: PLR0911 - one per state
    """Return the one word for people.

    A job that ended by itself is stopped with exit code 0 or failed; one that was told to stop is
    cancelled, whatever its program then said. A new launch that the engine has not seen is queued.
    """
    if row.desired == Desired.ABSENT or row.deleted_at is not None:
        return State.DELETING
    if row.desired == Desired.STOPPED:
        return State.CANCELLED if row.phase in ENDED else State.CANCELLING
    if not row.is_seen and row.phase in ENDED:
        return State.QUEUED
    if row.phase == Phase.STOPPED:
        return State.SUCCEEDED
    if row.phase == Phase.FAILED:
        return State.FAILED
    if row.phase in {Phase.RUNNING, Phase.STOPPING}:
        return State.RUNNING
    return State.STARTING if row.phase == Phase.STARTING else State.QUEUED


_WANTED = Q(desired=Desired.RUNNING)
_SEEN = Q(observed_generation__gte=F("generation"))
# Coarse groups that a list can be narrowed to.
FILTERS: dict[str, Q] = {
    "queued": _WANTED
    & (Q(phase__in=[Phase.PENDING, Phase.UNKNOWN]) | (Q(phase__in=ENDED) & ~_SEEN)),
    "running": _WANTED & Q(phase__in=[Phase.STARTING, Phase.RUNNING, Phase.STOPPING]),
    "succeeded": _WANTED & _SEEN & Q(phase=Phase.STOPPED),
    "failed": _WANTED & _SEEN & Q(phase=Phase.FAILED),
    "cancelled": Q(desired=Desired.STOPPED),
}
