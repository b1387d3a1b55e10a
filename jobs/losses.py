"""What a job does when it loses its place: a preemption, a lost node, a machine that restarted.

``after_loss`` says it: it starts again by itself, with fewer replicas where fewer fit, or stays
stopped until a person starts it. A cluster makes lost pods anew by itself; one machine does not.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from django.utils.translation import gettext as _

from clusters import registry
from common.errors import wrong
from jobs.choices import AfterLoss
from jobs.models import Run
from placement.clusters import known_cluster
from placement.fleet import Fleet
from runtime import training
from runtime.protocol import Phase, Seen
from runtime.reasons import Reason
from work import kinds
from work.services.resolve import request_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from jobs.models import Job
    from runtime.protocol import Observation
    from runtime.workload_state import Status

# How often a run goes on after its machine was lost, where its retries allow no more: a program
# may bring its machine down itself.
MOST = 5
# Words of a machine's supervisor for an end that nobody saw: with the machine, or with all its
# processes.
_UNSEEN = frozenset({"vanished", "unknown"})
_TAKEN = frozenset(
    {Reason.PREEMPTED, Reason.EVICTED, Reason.DRAINED, Reason.NODE_LOST, Reason.REPLACED}
)
# Of one that had begun: a queue put it out, and its pods are gone already.
_IN_LINE = frozenset({Reason.QUEUED, Reason.NO_CAPACITY, Reason.RECLAIMING, Reason.CEILING})
_ELASTIC = frozenset({training.NONE, training.PYTORCH})


def check(row: Job) -> None:
    """Raise what is wrong with ``after_loss`` and ``min_replicas``."""
    if row.after_loss != AfterLoss.FEWER:
        return
    if row.framework not in _ELASTIC:
        said = _("Only PyTorch, or a job without a framework, goes on with fewer replicas.")
        raise wrong("after_loss", said)
    if row.replicas == 1:
        raise wrong("after_loss", _("It has one replica, so it can't go on with fewer."))
    if row.min_replicas > row.replicas:
        said = _("It has %(n)d replicas: at least so many can't be more.")
        raise wrong("min_replicas", said % {"n": row.replicas})


def sentence(row: Job) -> str:
    """Return what a plan says of it; "" where it starts again, as usual."""
    if row.after_loss == AfterLoss.WAIT:
        return _("When it loses its place it stays stopped until somebody starts it.")
    if row.after_loss == AfterLoss.FEWER:
        said = {"low": row.min_replicas, "high": row.replicas}
        told = _(
            "When it loses its place it goes on with %(low)d to %(high)d replicas, as many as fit "
            "then: its program reads WORLD_SIZE anew, and begins from its newest checkpoint."
        )
        return told % said
    return ""


def lost(row: Job, seen: Observation, status: Status, ref: Mapping[str, Any]) -> str:
    """Return why what was ensured lost its place and is ours to start again or stop; "": not so."""
    if registry.row_for(row.cluster_key).runs_images:
        if row.after_loss == AfterLoss.RESTART or row.started_at is None:
            return ""
        if status.phase == Phase.PENDING and status.reason in _IN_LINE:
            return str(Reason.PREEMPTED)
        if status.reason == Reason.EVICTED and times(row, ref) >= max(row.retries, MOST):
            return ""  # it may bring that about itself: the cluster judges by its retries
        # a node that is only silent may answer again, and what runs there goes on
        is_taken = status.reason in _TAKEN and not seen.detail.get("silent")
        return str(status.reason) if is_taken else ""
    is_gone = seen.seen is Seen.MISSING or (seen.seen is Seen.EXITED and seen.reason in _UNSEEN)
    if not is_gone:
        return ""
    kept = row.checkpoints or seen.detail.get("checkpoint") or row.smoke_of is not None
    most = max(row.retries, MOST if kept else 0)
    may = row.after_loss == AfterLoss.WAIT or times(row, ref) < most
    return str(Reason.MACHINE_LOST) if may else ""


def times(row: Job, ref: Mapping[str, Any]) -> int:
    """Return how often it was lost since a person started it."""
    noted = ref.get("lost") or {}
    return int(noted["times"]) if noted.get("asked_at") == str(row.asked_at) else 0


def goes_on(row: Job) -> bool:
    """Whether this launch is one by which the engine goes on, and no person's."""
    return not Run.objects.filter(job=row.pk, launch=row.launch).exists()


def fitting(row: Job) -> int | None:
    """Return with how many replicas it can start now, at least its fewest; None: with all."""
    cluster = known_cluster(row.cluster_key)
    fleet = Fleet([cluster], row.project.uid)
    asked = request_of(kinds.kind_of(row.KIND), row)
    for count in range(row.replicas, row.min_replicas, -1):
        if fleet.decide(cluster, replace(asked, replicas=count), uid=row.uid).starts_now:
            return None if count == row.replicas else count
    return row.min_replicas if row.min_replicas < row.replicas else None
