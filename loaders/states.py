"""One pure function from intent, observation and reports to what people see, and its filter."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db.models import F, Q

from loaders.choices import Result, Stage, State, StopReason
from loaders.models import ENDED
from runtime.protocol import Desired, Phase

if TYPE_CHECKING:
    from loaders.models import Load

# What stands still: nothing of it runs and nothing is on its way.
SETTLED = frozenset(
    {State.PAUSED, State.DONE, State.PARTIAL, State.FAILED, State.CANCELLED, State.STOPPED}
)
ENDING = frozenset({State.PAUSING, State.CANCELLING, State.STOPPING})
MOVING = frozenset({State.LISTING, State.COPYING, State.VERIFYING})

_OF_STAGE = {
    Stage.LISTING: State.LISTING,
    Stage.COPYING: State.COPYING,
    Stage.DELETING: State.COPYING,
    Stage.VERIFYING: State.VERIFYING,
    Stage.ENDED: State.COPYING,  # it says so itself; it is over when it is seen to be gone
}
_OF_RESULT = {
    Result.DONE: State.DONE,
    Result.PARTIAL: State.PARTIAL,
    Result.FAILED: State.FAILED,
    Result.PAUSED: State.PAUSED,
    Result.CANCELLED: State.CANCELLED,
    Result.STOPPED: State.STOPPED,
}
_STOPS: dict[str, tuple[State, State]] = {
    StopReason.PAUSED: (State.PAUSING, State.PAUSED),
    StopReason.CANCELLED: (State.CANCELLING, State.CANCELLED),
}


def state_of(row: Load) -> State:
    """Return the one word for people."""
    if row.desired == Desired.ABSENT or row.deleted_at is not None:
        return State.DELETING
    if row.goes_on:
        return State.WAITING
    if row.result:
        return _OF_RESULT[Result(row.result)]
    return _stopping(row) if row.desired == Desired.STOPPED else _on_its_way(row)


def _stopping(row: Load) -> State:
    under_way, over = _STOPS.get(row.stop_reason, (State.STOPPING, State.STOPPED))
    return over if row.phase in ENDED else under_way


def _on_its_way(row: Load) -> State:
    if row.phase in {Phase.RUNNING, Phase.STOPPING}:
        return _OF_STAGE.get(Stage(row.stage or Stage.STARTING), State.STARTING)
    if row.phase == Phase.STARTING:
        return State.STARTING
    if row.phase in ENDED and row.is_seen:
        return State.FAILED  # the engine set it aside before anything was counted
    return State.QUEUED if "queue" in row.external_ref else State.WAITING


_GOES_ON = Q(desired=Desired.RUNNING, retry_at__isnull=False)
_RUNS = Q(desired=Desired.RUNNING, result="")
# Coarse groups that a list can be narrowed to.
FILTERS: dict[str, Q] = {
    "running": _RUNS & Q(phase__in=[Phase.STARTING, Phase.RUNNING, Phase.STOPPING]),
    "waiting": _RUNS
    & (
        Q(phase__in=[Phase.PENDING, Phase.UNKNOWN])
        | Q(phase__in=ENDED, observed_generation__lt=F("generation"))
    )
    | _GOES_ON,
    "done": Q(result=Result.DONE),
    "partial": Q(result=Result.PARTIAL),
    "failed": (Q(result=Result.FAILED) & ~_GOES_ON)
    | (_RUNS & Q(phase=Phase.FAILED, observed_generation__gte=F("generation"))),
    "paused": Q(result=Result.PAUSED)
    | Q(desired=Desired.STOPPED, result="", stop_reason=StopReason.PAUSED),
    "cancelled": Q(result__in=[Result.CANCELLED, Result.STOPPED])
    | (Q(desired=Desired.STOPPED, result="") & ~Q(stop_reason=StopReason.PAUSED)),
    "scheduled": ~Q(schedule=""),
}
