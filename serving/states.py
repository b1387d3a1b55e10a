"""What people read of an endpoint: one word for how it is, its filter, and why it is so."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.db.models import F, Q
from django.utils.translation import gettext as _

from runtime.protocol import Desired, Phase
from serving.choices import State
from work import why
from work.choices import StopReason
from work.kinds import States
from work.why import Why

if TYPE_CHECKING:
    from serving.models import Endpoint

ENDED = (Phase.STOPPED, Phase.FAILED)
OVER = frozenset({State.STOPPED, State.FAILED})


def state_of(row: Endpoint) -> State:  # noqa: PLR0911 - one per state
    """Return the one word for people."""
    if row.desired == Desired.ABSENT or row.deleted_at is not None:
        return State.DELETING
    if row.desired == Desired.STOPPED:
        if row.phase not in ENDED:
            return State.STOPPING
        return State.ASLEEP if row.stop_reason == StopReason.ASLEEP else State.STOPPED
    if not row.is_seen and row.phase in ENDED:
        return State.QUEUED
    if row.phase in ENDED:
        return State.FAILED
    if row.phase == Phase.RUNNING:
        return State.READY
    if row.phase == Phase.STOPPING:
        return State.STOPPING
    return State.STARTING if row.phase == Phase.STARTING else State.QUEUED


_WANTED = Q(desired=Desired.RUNNING)
_SEEN = Q(observed_generation__gte=F("generation"))
_ASLEEP = Q(desired=Desired.STOPPED, stop_reason=StopReason.ASLEEP)
# Coarse groups that a list can be narrowed to.
FILTERS: dict[str, Q] = {
    "ready": _WANTED & Q(phase=Phase.RUNNING),
    "queued": _WANTED
    & (Q(phase__in=[Phase.PENDING, Phase.UNKNOWN, Phase.STARTING]) | (Q(phase__in=ENDED) & ~_SEEN)),
    "asleep": _ASLEEP,
    "stopped": Q(desired=Desired.STOPPED) & ~_ASLEEP,
    "failed": _WANTED & _SEEN & Q(phase__in=ENDED),
}


def why_of(row: Endpoint) -> Why:
    if (waits := why.on_its_way(row.reason, row.external_ref, row.resources)) is not None:
        return waits
    if row.stop_reason and row.desired == Desired.STOPPED:
        said = _("%(reason)s.") % {"reason": StopReason(row.stop_reason).label}
        return Why(said, row.message)
    text = str(why.info_of(row.reason, row.cluster_key).text)
    return Why(text, row.message) if text else Why(row.message)


def stopped_says(row: Endpoint) -> str:
    """What callers are told of one that no request wakes."""
    if row.stop_reason and row.stop_reason != StopReason.ASLEEP:
        why = StopReason(row.stop_reason).label
        return _("It does not answer until somebody starts it. %(why)s.") % {"why": why}
    return _("It does not answer until somebody starts it.")


def failed_says(row: Endpoint) -> str:
    """What callers are told of one that failed: nothing that an engine or a registry said of it."""
    text = why.info_of(row.reason, row.cluster_key).text
    return _("It failed: %(why)s") % {"why": text} if text else _("It failed.")


def advice_of(row: Endpoint) -> str:
    return str(why.info_of(row.reason, row.cluster_key).advice)


STATES = States(words=State, of=state_of, over=OVER, filters=FILTERS, why=why_of, advice=advice_of)
