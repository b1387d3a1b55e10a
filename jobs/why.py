"""Why a job is as it is, in words; what is common to all work stands in ``work.why``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from django.utils.functional import Promise
from django.utils.translation import gettext as _t
from django.utils.translation import gettext_lazy as _

from jobs.choices import StopReason
from runtime.protocol import Phase
from runtime.reasons import Reason, ReasonInfo
from work import why
from work.why import Why

if TYPE_CHECKING:
    from jobs.models import Job

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
        text = _ended_with(row)
    return Why(text, row.message) if text else Why(row.message)


def advice_of(row: Job) -> str:
    return str(info_of(row).advice)


def _ended_with(row: Job) -> str:
    if row.replicas == 1 or row.failed_replica is None:
        return _t("Its program ended with exit code %(code)d.") % {"code": row.exit_code}
    said = {"replica": row.failed_replica, "code": row.exit_code}
    return _t("Replica %(replica)d ended first, with exit code %(code)d.") % said
