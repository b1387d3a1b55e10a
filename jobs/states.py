"""What people read of a job: one word for how it is, its filter, and why it is so."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from django.db.models import F, Q
from django.utils.functional import Promise
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from jobs.choices import State
from runtime.protocol import Desired, Phase
from runtime.reasons import Reason, ReasonInfo
from work import why
from work.choices import StopReason
from work.kinds import States
from work.why import Why

if TYPE_CHECKING:
    from jobs.models import Job

ENDED = (Phase.STOPPED, Phase.FAILED)
OVER = frozenset({State.SUCCEEDED, State.FAILED, State.CANCELLED})


def state_of(row: Job) -> State:  # noqa: PLR0911 - one per state
    """Return the one word for people.

    A job that ended by itself is stopped with exit code 0 or failed; one that was told to stop is
    cancelled, whatever its program then said. A new launch that the engine has not seen is queued.
    """
    if row.desired == Desired.ABSENT or row.deleted_at is not None:
        return State.DELETING
    if row.desired == Desired.STOPPED:
        return State.CANCELLED if row.phase in ENDED else State.CANCELLING
    if not row.is_seen and row.phase in ENDED:
        return State.QUEUED
    if row.phase == Phase.STOPPED:
        return State.SUCCEEDED
    if row.phase == Phase.FAILED:
        return State.FAILED
    if row.phase in {Phase.RUNNING, Phase.STOPPING}:
        return State.RUNNING
    return State.STARTING if row.phase == Phase.STARTING else State.QUEUED


_WANTED = Q(desired=Desired.RUNNING)
_SEEN = Q(observed_generation__gte=F("generation"))
# Coarse groups that a list can be narrowed to.
FILTERS: dict[str, Q] = {
    "queued": _WANTED
    & (Q(phase__in=[Phase.PENDING, Phase.UNKNOWN]) | (Q(phase__in=ENDED) & ~_SEEN)),
    "running": _WANTED & Q(phase__in=[Phase.STARTING, Phase.RUNNING, Phase.STOPPING]),
    "succeeded": _WANTED & _SEEN & Q(phase=Phase.STOPPED),
    "failed": _WANTED & _SEEN & Q(phase=Phase.FAILED),
    "cancelled": Q(desired=Desired.STOPPED),
}


# --- why ------------------------------------------------------------------------------------

_STOPS = frozenset((Phase.STOPPED, Phase.STOPPING))
_KEPT = _("What it wrote to volumes is kept.")
# What is said otherwise of a job than of work that people open: text and advice.
_OWN: Mapping[str, tuple[Promise, Promise | str]] = {
    Reason.TIME_LIMIT: (
        _("It ran into its time limit."),
        _("Give it a longer time limit in its settings and run it again."),
    ),
    Reason.FINISHED: (_("Its program ended well."), ""),
    Reason.USER: (_("It was cancelled by request."), _KEPT),
    Reason.PREEMPTED: (
        _("Its place was needed by work that goes first; it is started again."),
        _("It goes on by itself, from its newest checkpoint where it keeps any."),
    ),
    Reason.DATA_MISSING: (
        _("A load that it needs did not finish."),
        _("Open the load, mend what it names and start it again; the job goes on by itself."),
    ),
    Reason.START_TIMEOUT: (
        _("It did not begin in time."),
        _("The end of the log usually tells why. Run it again to retry."),
    ),
}


def info_of(row: Job) -> ReasonInfo:
    info = why.info_of(row.reason, row.cluster_key)
    text, advice = _OWN.get(row.reason, (info.text, info.advice))
    return replace(info, text=text, advice=advice)


def why_of(row: Job) -> Why:
    if (waits := why.on_its_way(row.reason, row.external_ref, row.resources)) is not None:
        return waits
    text = str(info_of(row).text)
    told = row.stop_reason not in {"", StopReason.CANCELLED}
    if told and row.phase in _STOPS and row.reason != Reason.HELD:
        text = str(StopReason(row.stop_reason).label) + "."
    if row.reason == Reason.EXIT and row.exit_code is not None:
        told_twice = row.message == f"exit code {row.exit_code}"  # by the machine itself
        return Why(_ended_with(row), "" if told_twice else row.message)
    return Why(text, row.message) if text else Why(row.message)


def advice_of(row: Job) -> str:
    return str(info_of(row).advice)


def _ended_with(row: Job) -> str:
    if row.replicas == 1 or row.failed_replica is None:
        return _t("Its program ended with exit code %(code)d.") % {"code": row.exit_code}
    said = {"replica": row.failed_replica, "code": row.exit_code}
    return _t("Replica %(replica)d ended first, with exit code %(code)d.") % said


STATES = States(words=State, of=state_of, over=OVER, filters=FILTERS, why=why_of, advice=advice_of)
