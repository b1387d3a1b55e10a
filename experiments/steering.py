"""Steers searches: looks at what trials said, ends what is over, begins the next.

Everything is decided from rows. A trial is written in the transaction that makes its job, under
the lock of its search: a worker that is killed loses none, and two of them make none twice.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import structlog
from django.db import transaction

from accounts.principal import Principal
from clusters.streams import log_read
from common.clock import now
from common.errors import BerthError, Conflict, Forbidden, Invalid, NotFound, Unavailable
from events import services as events
from experiments.choices import Reason, State, TrialState
from experiments.models import Experiment, Trial
from experiments.rules import filled, numbers_said
from experiments.search import Tried, ask, lags
from experiments.services import best_of
from jobs import choices as jobs
from jobs.kind import JOB
from jobs.states import OVER, state_of
from runtime.protocol import Desired
from work.services import workload_create
from work.services.base import lock
from work.services.ending import request_stop

if TYPE_CHECKING:
    from jobs.models import Job

log = structlog.get_logger(__name__)

READ = 1024 * 1024  # of a log in one turn
CURVE = 1000  # values that are kept of a trial
_LIVE = (State.RUNNING, State.STOPPING)
# Archiving has stopped its trials: nobody wants it to go on months later, when it is undone.
_FINAL = frozenset({"project-archived"})


def turn() -> None:
    """Look at every search that is not over; one that can't be steered holds up no other."""
    for row in Experiment.objects.filter(state__in=_LIVE).select_related("project", "owner"):
        try:
            steer(row)
        except Exception:
            log.exception("experiment-turn", experiment=str(row.uid))


def steer(row: Experiment) -> None:
    """Bring one search a step on: what its trials said, whether it is over, what comes next."""
    trials = list(row.trials.select_related("job__project", "job__owner"))
    for trial in trials:
        if trial.state == TrialState.RUNNING:
            _look(row, trial, trials)
    running = [one for one in trials if one.state == TrialState.RUNNING]
    reason = row.reason if row.state == State.STOPPING else _why_over(row, trials)
    if reason == Reason.TRIALS and running and row.state == State.RUNNING:
        return  # its last trials go on to their end
    if reason:
        for trial in running:
            _end_job(trial)
        _end(row, reason, over=not running, best=best_of(row, trials))
        return
    for _ in range(row.parallel - len(running)):
        if not _begin(row, trials):
            return


def _look(row: Experiment, trial: Trial, trials: list[Trial]) -> None:
    """Write down what a trial has said, and how it ended."""
    job = trial.job
    if job is None or job.desired == Desired.ABSENT or job.deleted_at is not None:
        trial.state, trial.ended_at = TrialState.STOPPED, now()
        trial.save()
        return
    state = state_of(job)
    over = state in OVER
    if job.started_at is not None:
        until = job.finished_at or job.stopped_at or now()
        held = max(0.0, (until - job.started_at).total_seconds())
        trial.gpu_seconds = max(trial.gpu_seconds, held * job.gpus * job.all_replicas)
    try:
        _read(row, trial, job, over=over)
    except Unavailable:
        if over:
            return  # what it said is not known yet: asked again
    except Conflict:
        pass  # a cluster that keeps no logs
    early = trial.state == TrialState.EARLY_STOPPED
    if not over and row.early_stopping and not early:
        others = [one.curve for one in trials if one.state == TrialState.SUCCEEDED]
        if lags(trial.curve, others, maximizes=row.maximizes):
            _end_job(trial)
            trial.state, trial.ended_at = TrialState.EARLY_STOPPED, now()
    elif over:
        ended = {jobs.State.FAILED: TrialState.FAILED, jobs.State.CANCELLED: TrialState.STOPPED}
        said = TrialState.METRIC_UNAVAILABLE if trial.value is None else TrialState.SUCCEEDED
        trial.state, trial.ended_at = ended.get(state, said), now()
    trial.save()


def _read(row: Experiment, trial: Trial, job: Job, *, over: bool) -> None:
    """Read on in the log of replica 0, whole lines only while it may still write."""
    said = b""
    offset = trial.log_offset
    while len(said) < READ:
        part = log_read(job.cluster_key, str(job.uid), offset=offset)
        if part.next_offset < offset:  # it began anew: another launch, or another pod
            said, offset = b"", 0
            continue
        if part.next_offset == offset or not part.data:
            break
        said, offset = said + part.data, part.next_offset
    if not over and said and (cut := said.rfind(b"\n") + 1):
        said, offset = said[:cut], offset - (len(said) - cut)
    elif not over and len(said) < READ:
        return  # the line is not whole
    found = numbers_said(said.decode(errors="replace"), row.metric)
    best = max if row.maximizes else min
    if found:
        trial.value = best([*found, *([] if trial.value is None else [trial.value])])
    trial.curve = (trial.curve + found)[:CURVE]
    trial.log_offset = offset
    if over and len(said) >= READ:
        _read(row, trial, job, over=over)


def _why_over(row: Experiment, trials: list[Trial]) -> str:
    best = best_of(row, trials)
    if best is not None and best.value is not None and row.goal is not None:
        reached = best.value >= row.goal if row.maximizes else best.value <= row.goal
        if reached:
            return Reason.GOAL
    bad = (TrialState.FAILED, TrialState.METRIC_UNAVAILABLE)
    if sum(one.state in bad for one in trials) > row.failed_max:
        return Reason.FAILURES
    spent = sum(one.gpu_seconds for one in trials) / 3600
    if row.gpu_hours is not None and spent >= row.gpu_hours and trials:
        return Reason.GPU_HOURS
    return Reason.TRIALS if len(trials) >= row.trials_max else ""


def _begin(row: Experiment, trials: list[Trial]) -> bool:
    """Make the next trial; False: it has to wait, or there is none."""
    if len(trials) >= row.trials_max:
        return False
    number = len(trials) + 1
    tried = [Tried(t.parameters, t.value, runs=t.state == TrialState.RUNNING) for t in trials]
    how: dict[str, Any] = {"parameters": row.parameters, "algorithm": row.algorithm}
    values = ask(**how, maximizes=row.maximizes, seed=row.seed, tried=tried)
    if values is None:
        if not any(one.runs for one in tried):
            _end(row, Reason.GRID, over=True, best=best_of(row, trials))
        return False
    made: list[Trial] = []

    def beside(job: Job) -> None:
        held = Experiment.objects.select_for_update().get(pk=row.pk)
        if held.state != State.RUNNING or held.trials.count() != number - 1:
            raise Conflict("", code="turned")
        made.append(Trial.objects.create(experiment=row, number=number, parameters=values, job=job))

    template = filled(row.template, values)
    try:
        workload_create(
            principal=Principal(user=row.owner),
            project=row.project,
            kind=JOB,
            said={**template, "name": f"{row.name}-{row.uid.hex[-6:]}-{number}"},
            beside=beside,
        )
    except BerthError as error:
        _refused(row, trials, error)
        return False
    _note(row, "")
    trials.extend(made)
    return bool(made)


def _refused(row: Experiment, trials: list[Trial], error: BerthError) -> None:
    """End a search whose next trial can't be made; one that waiting helps waits, and says so."""
    running = [trial for trial in trials if trial.state == TrialState.RUNNING]
    final = isinstance(error, Invalid | Forbidden | NotFound) or error.code in _FINAL
    if not final or error.code == "name-taken":  # another worker made it, or somebody has that name
        _note(row, error.message)
        return
    for trial in running:
        _end_job(trial)
    _end(row, Reason.REFUSED, over=not running, best=None, message=error.message)


@transaction.atomic
def _end_job(trial: Trial) -> None:
    if trial.job is not None:
        request_stop(lock(trial.job), reason=JOB.asked, actor=None)


@transaction.atomic
def _end(
    row: Experiment, reason: str, *, over: bool, best: Trial | None, message: str = ""
) -> None:
    """Write that it stops, or that it is over."""
    held = Experiment.objects.select_for_update().get(pk=row.pk)
    if held.state not in _LIVE:
        return
    held.reason, held.state = reason, State.STOPPING
    held.message = message[:500] or (held.message if reason == Reason.REFUSED else "")
    if over:
        bad = reason in {Reason.FAILURES, Reason.REFUSED} or best is None
        held.state = State.FAILED if bad else State.SUCCEEDED
        held.state = State.STOPPED if reason == Reason.USER else held.state
        held.ended_at = now()
        events.record(
            actor=None,
            verb="experiment.ended",
            target=held,
            project_uid=row.project.uid,
            data={"state": held.state, "reason": reason},
        )
    held.save()
    row.state = held.state


def _note(row: Experiment, message: str) -> None:
    if row.message != message[:500]:
        row.message = message[:500]
        Experiment.objects.filter(pk=row.pk).update(message=row.message)
