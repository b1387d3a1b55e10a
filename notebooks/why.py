"""Why a workspace is as it is, in words: the plain ones first, what a program said after them.

What the engine and the clusters wrote is in their own language; the plain words are said anew for
each reader.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from django.utils.translation import gettext_lazy as _

from notebooks.choices import StopReason
from notebooks.image_pull import pull_of
from placement.reasons import waiting
from runtime import reasons
from runtime.models import ONE_MACHINE
from runtime.protocol import Phase, Resources
from runtime.reasons import Fault, Reason, ReasonInfo

STOPS = frozenset((Phase.STOPPED, Phase.STOPPING))
_PIN_GONE = _("The registry no longer has the image that this tag meant when it was pinned.")
_TAKE_NEWEST = _(
    "Press “Take the newest image of this tag”, or run “berth workspace repin” with its name."
)


@dataclass(frozen=True)
class Why:
    text: str
    detail: str = ""  # what a driver or a registry said, in its own words

    @property
    def sentence(self) -> str:
        """Both, for what is one line: the API, the command line, a table."""
        return f"{self.text} {self.detail}".strip()


@dataclass(frozen=True)
class State:
    """The columns that tell it; ``ref`` needs only the keys ``queue`` and ``pull``."""

    phase: str
    reason: str
    message: str
    stop_reason: str
    ref: Mapping[str, Any]
    size: Resources
    cluster_key: str
    pinned: str = ""  # the digest that stands for its image's tag


def info_of(reason: str, cluster_key: str, pinned: str = "") -> ReasonInfo:
    """Return what ``reason`` means there: who works on one machine knows of no cluster.

    ``pinned``: the digest that stands for its image's tag. Name and tag were right then.
    """
    info = reasons.info(reason)
    if reason == Reason.IMAGE_NOT_FOUND and pinned:
        return replace(info, text=_PIN_GONE, advice=_TAKE_NEWEST)
    if reason != Reason.UNREACHABLE or cluster_key != ONE_MACHINE:
        return info
    return replace(
        info,
        text=_("The machine does not answer; what is shown is the last thing known."),
        advice=_("Nothing needs to be done: it is tried again until the machine answers."),
    )


def why_of(state: State) -> Why:
    queue = state.ref.get("queue")
    if state.reason == Reason.QUEUED and queue:
        lacking, position = queue.get("lacking") or (), queue.get("position") or 1
        return Why(str(waiting(lacking, position, state.size)))
    if (pull := pull_of(state.reason, state.ref.get("pull"))) is not None:
        return Why(pull.sentence)
    text = str(info_of(state.reason, state.cluster_key, state.pinned).text)
    if state.stop_reason and state.phase in STOPS and state.reason != Reason.HELD:
        text = str(StopReason(state.stop_reason).label)
    return Why(text, state.message) if text else Why(state.message)


def warning_of(phase: str, reason: str, cluster_key: str) -> str:
    """Return what is wrong around one that runs; empty where nothing is."""
    info = info_of(reason, cluster_key)
    return str(info.text) if phase == Phase.RUNNING and info.fault == Fault.PLATFORM else ""
