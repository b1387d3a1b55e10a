"""What people read of a workspace: one word for how it is, its filter, and why it is so."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from django.db.models import Q
from django.utils.translation import gettext_lazy as _

from notebooks.choices import State
from runtime.protocol import Phase
from runtime.reasons import Fault, Reason, ReasonInfo
from work import why
from work.choices import StopReason
from work.kinds import States
from work.why import Why

if TYPE_CHECKING:
    from notebooks.models import Workspace

_STOPS = frozenset((Phase.STOPPED, Phase.STOPPING))
_PIN_GONE = _("The registry no longer has the image that this tag meant when it was pinned.")
_TAKE_NEWEST = _(
    "Press “Take the newest image of this tag”, or run “berth workspace repin” with its name."
)


def state_of(row: Workspace) -> State:
    """Return its phase: after a press, what was pressed."""
    return State(row.shown_phase)


def info_of(row: Workspace) -> ReasonInfo:
    """Return what its reason means; where a tag was pinned, name and tag were right then."""
    info = why.info_of(row.reason, row.cluster_key)
    if row.reason == Reason.IMAGE_NOT_FOUND and row.pinned_tag:
        return replace(info, text=_PIN_GONE, advice=_TAKE_NEWEST)
    return info


def why_of(row: Workspace) -> Why:
    if (waits := why.on_its_way(row.reason, row.external_ref, row.resources)) is not None:
        return waits
    text = str(info_of(row).text)
    if row.stop_reason and row.phase in _STOPS and row.reason != Reason.HELD:
        text = str(StopReason(row.stop_reason).label)
    return Why(text, row.message) if text else Why(row.message)


def advice_of(row: Workspace) -> str:
    return str(info_of(row).advice)


def warning_of(row: Workspace) -> str:
    """Return what is wrong around one that runs; empty where nothing is."""
    info = info_of(row)
    wrong = row.shown_phase == Phase.RUNNING and info.fault == Fault.PLATFORM
    return str(info.text) if wrong else ""


STATES = States(
    words=State,
    of=state_of,
    over=frozenset({State.STOPPED, State.FAILED, State.DELETED}),
    filters={
        word: Q(phase=word)
        for word in (
            State.RUNNING.value,
            State.PENDING.value,
            State.STARTING.value,
            State.STOPPED.value,
            State.FAILED.value,
        )
    },
    why=why_of,
    advice=advice_of,
    warning=warning_of,
)
