"""Listens to status changes: timeline, end of the countdown, news for people.

Runs inside the engine's apply transaction: what it writes is exact, once, or not at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from common.clock import now
from notebooks.models import Workspace
from notebooks.notices import tell_failed
from runtime.protocol import Phase
from runtime.workload_state import RESTARTED
from volumes.services.base import volume_note_written
from work.models import Step, Workload

if TYPE_CHECKING:
    from uuid import UUID

    from runtime.reconcilers import Transition

_ENDED = {Phase.STOPPED, Phase.FAILED}
_SAID_BY_PEOPLE = {"accepted", "stop-asked"}  # words of services, told with the intent


def on_transition(change: Transition) -> None:
    if not isinstance(change.row, Workspace):
        return
    _note(change)
    if change.after in _ENDED and change.before not in _ENDED:
        Workload.objects.filter(pk=change.row.pk).update(stopped_at=now(), ends_at=None)
        volume_note_written(uids=_written(change.row))
        if change.after == Phase.FAILED:
            tell_failed(change.row)


def _written(row: Workspace) -> list[UUID]:
    mounts = row.mounts.filter(read_only=False)
    return [row.home.uid, *mounts.values_list("volume__uid", flat=True)]


def _note(change: Transition) -> None:
    """Write the new steps; what was told already when it was asked for is written once.

    Each pod that replaced another is told, so that word comes more than once.
    """
    row = change.row
    launch = (change.outcome.external_ref or {}).get("noted", {}).get("launch", row.launch)
    words = {word for word, _message in change.outcome.timeline}
    known = set()
    if words & _SAID_BY_PEOPLE:  # the engine's own are noted with the row, in one transaction
        steps = Step.objects.filter(workload=row, launch=launch)
        known = set(steps.values_list("word", flat=True))
    Step.objects.bulk_create(
        Step(workload=row, launch=launch, word=word, at=now(), message=message[:300])
        for word, message in change.outcome.timeline
        if word not in known or word == RESTARTED
    )
