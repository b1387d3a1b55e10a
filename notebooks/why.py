"""Why a workspace is as it is, in words; what is common to all work stands in ``work.why``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from django.utils.translation import gettext_lazy as _

from runtime.protocol import Phase, Resources
from runtime.reasons import Fault, Reason, ReasonInfo
from work import why
from work.choices import StopReason
from work.why import Why

STOPS = frozenset((Phase.STOPPED, Phase.STOPPING))
_PIN_GONE = _("The registry no longer has the image that this tag meant when it was pinned.")
_TAKE_NEWEST = _(
    "Press “Take the newest image of this tag”, or run “berth workspace repin” with its name."
)


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


def pinned_tag(image: str, digest: str) -> str:
    """Return the digest that stands for the image's tag; empty where none does."""
    return "" if not image or "@" in image else digest


def info_of(reason: str, cluster_key: str, pinned: str = "") -> ReasonInfo:
    """Return what ``reason`` means there.

    ``pinned``: the digest that stands for its image's tag. Name and tag were right then.
    """
    info = why.info_of(reason, cluster_key)
    if reason == Reason.IMAGE_NOT_FOUND and pinned:
        return replace(info, text=_PIN_GONE, advice=_TAKE_NEWEST)
    return info


def why_of(state: State) -> Why:
    if (waits := why.on_its_way(state.reason, state.ref, state.size)) is not None:
        return waits
    text = str(info_of(state.reason, state.cluster_key, state.pinned).text)
    if state.stop_reason and state.phase in STOPS and state.reason != Reason.HELD:
        text = str(StopReason(state.stop_reason).label)
    return Why(text, state.message) if text else Why(state.message)


def warning_of(phase: str, reason: str, cluster_key: str) -> str:
    """Return what is wrong around one that runs; empty where nothing is."""
    info = info_of(reason, cluster_key)
    return str(info.text) if phase == Phase.RUNNING and info.fault == Fault.PLATFORM else ""
