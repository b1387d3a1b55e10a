"""The steps of a launch as people read them: those that were, then those still to come."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _
from django.utils.translation import pgettext

from common.clock import now
from runtime.models import ONE_MACHINE
from runtime.protocol import Phase
from runtime.workload_state import RECLAIMED, RESTARTED
from work.selectors import steps_of

if TYPE_CHECKING:
    from work.models import Step, Workload

_ON_ITS_WAY = frozenset({Phase.PENDING, Phase.STARTING})
_MOVING = frozenset({*_ON_ITS_WAY, Phase.STOPPING, Phase.DELETING})


@dataclass(frozen=True)
class Line:
    """One line of the timeline; ``took`` is the time until the next step."""

    word: str
    text: str
    message: str
    at: datetime | None
    took: timedelta | None
    state: str  # done, now, failed, ahead


def step_word(word: str, *, on_cluster: bool = False) -> str:
    if on_cluster and word == "placed":
        return _("Handed to the cluster")
    words = {
        "accepted": pgettext("a start", "Accepted"),
        "queued": _("Waiting for its turn"),
        "preparing": _("Preparing the project's namespace"),
        "waiting": _("First what it needs"),
        "placed": _("Placed"),
        "scheduled": _("Placed on a node"),
        "image": _("Image ready"),
        "starting": _("Starting"),
        "ready": _("Answers"),
        "running": _("Running"),
        RESTARTED: _("Started again"),
        RECLAIMED: _("GPUs asked back"),
        "stop-asked": _("Asked to stop"),
        "stopping": _("Stopping"),
        "stopped": _("Stopped"),
        "failed": _("Failed"),
        "deleting": _("Deleting"),
    }
    return words.get(word, word)


def is_far(row: Workload) -> bool:
    """Whether it runs on a cluster, where a start has other steps."""
    return row.cluster_key != ONE_MACHINE


def timeline(
    row: Workload, phase: Phase, ahead: Sequence[str], own: Mapping[str, Any] | None = None
) -> list[Line]:
    """Return the steps of the latest launch, then those of ``ahead`` that are still to come.

    ``phase`` is that for people: after a press, what was pressed. ``own`` are words of its kind
    for some steps; one whose word is empty is not told.
    """
    own = own or {}
    steps = [step for step in steps_of(row) if own.get(step.word, step.word)]
    lines = [_line(row, phase, steps, index) for index in range(len(steps))]
    lines = [replace(x, text=str(own[x.word])) if x.word in own else x for x in lines]
    if phase in _ON_ITS_WAY:
        seen, far = {step.word for step in steps}, is_far(row)
        lines += [
            Line(word, step_word(word, on_cluster=far), "", None, None, "ahead")
            for word in ahead
            if word not in seen
        ]
    return lines


def _line(row: Workload, phase: Phase, steps: Sequence[Step], index: int) -> Line:
    step, last = steps[index], index == len(steps) - 1
    after = None if last else steps[index + 1].at
    state = "failed" if step.word == "failed" else "now" if last and phase in _MOVING else "done"
    took = after - step.at if after else (now() - step.at if state == "now" else None)
    # the place in the queue and what is still lacking change: the head of the page says them
    message = "" if step.word in {"queued", "waiting"} else step.shown_message
    text = step_word(step.word, on_cluster=is_far(row))
    if step.word == "scheduled" and message:
        text, message = _("Placed on %(node)s") % {"node": message}, ""
    return Line(step.word, text, message, step.at, took, state)
