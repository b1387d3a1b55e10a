"""Listens to status changes of any kind of work: its timeline, and the turns by which the next
ones are estimated.

Runs inside the engine's apply transaction: what it writes is exact, once, or not at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from common.clock import now
from queues import history
from runtime.models import ONE_MACHINE
from runtime.protocol import Phase
from runtime.workload_state import RESTARTED
from work import kinds
from work.models import Step, Workload

if TYPE_CHECKING:
    from runtime.reconcilers import Transition

_ENDED = frozenset({Phase.STOPPED, Phase.FAILED})
_SAID_BY_PEOPLE = {"accepted", "stop-asked"}  # words of services, told with the intent


def on_transition(change: Transition) -> None:
    if isinstance(change.row, Workload):
        _keep_turn(change)
        if kinds.kind_of(change.row.kind).timeline:
            _note(change)


def _note(change: Transition) -> None:
    """Write the new steps; what was told already when it was asked for is written once.

    Each pod that replaced another is told, so that word comes more than once.
    """
    row, told = change.row, change.outcome.timeline
    noted = (change.outcome.external_ref or {}).get("noted", {})
    launch = noted.get("launch", change.seen.launch)
    known: set[str] = set()
    if _SAID_BY_PEOPLE & {word for word, _said in told}:  # the engine's own are noted with the row
        steps = Step.objects.filter(workload=row, launch=launch)
        known = set(steps.values_list("word", flat=True))
    Step.objects.bulk_create(
        Step(workload=row, launch=launch, word=word, at=now(), message=message[:300])
        for word, message in told
        if word not in known or word == RESTARTED
    )


def _keep_turn(change: Transition) -> None:
    """Keep the turn of a launch that is over.

    The claim of one machine keeps its own. A launch that began and ended between two looks counts
    too: what it began at stands on the row by then.
    """
    row: Any = change.row
    if row.cluster_key == ONE_MACHINE or not row.gpus:
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
