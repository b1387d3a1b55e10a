"""Listens to status changes: timeline, end of the countdown, news for people.

Runs inside the engine's apply transaction: what it writes is exact, once, or not at all.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from common.clock import now
from notebooks.models import Step, Workspace
from notebooks.notices import tell_failed
from runtime.protocol import Phase

if TYPE_CHECKING:
    from runtime.reconcilers import Transition

_ENDED = {Phase.STOPPED, Phase.FAILED}


def on_transition(change: Transition) -> None:
    if not isinstance(change.row, Workspace):
        return
    _note(change)
    if change.after in _ENDED and change.before not in _ENDED:
        Workspace.objects.filter(pk=change.row.pk).update(stopped_at=now(), ends_at=None)
        if change.after == Phase.FAILED:
            tell_failed(change.row)


def _note(change: Transition) -> None:
    """Write the new steps; what a crash made the engine tell twice is written once."""
    row = change.row
    launch = (change.outcome.external_ref or {}).get("noted", {}).get("launch", row.launch)
    known = set(Step.objects.filter(workspace=row, launch=launch).values_list("word", flat=True))
    Step.objects.bulk_create(
        Step(workspace=row, launch=launch, word=word, at=now(), message=message[:300])
        for word, message in change.outcome.timeline
        if word not in known
    )
