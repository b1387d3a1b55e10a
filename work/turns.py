"""Turns of work on clusters that keep their own line: by them the next ones are estimated."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from common.clock import now
from queues import history
from runtime.models import ONE_MACHINE
from runtime.protocol import Phase
from work.models import Workload

if TYPE_CHECKING:
    from runtime.reconcilers import Transition

_ENDED = frozenset({Phase.STOPPED, Phase.FAILED})


def on_transition(change: Transition) -> None:
    """Keep the turn of a launch that is over; runs inside the engine's apply transaction.

    The claim of one machine keeps its own. A launch that began and ended between two looks counts
    too: what it began at stands on the row by then.
    """
    row: Any = change.row
    if not isinstance(row, Workload) or row.cluster_key == ONE_MACHINE or not row.gpus:
        return
    before = change.seen if isinstance(change.seen, Workload) else row
    launch = change.outcome.updates.get("launch", before.launch)
    if not (change.gone or change.after in _ENDED or launch != before.launch):
        return
    told = row if row.started_at is not None else before
    if told.started_at is None or told.started_at < (told.asked_at or told.started_at):
        return  # it never began, or what stands there is of an earlier launch
    asked = told.asked_at or told.started_at
    history.keep_of_cluster(told, asked_at=asked, ended_at=row.stopped_at or now())
