"""Steers searches: looks at what trials said, ends what is over, begins the next.

Everything is decided from rows. A trial is written in the transaction that makes its job, under
the lock of its search: a worker that is killed loses none, and two of them make none twice.
"""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from functools import cache
from typing import TYPE_CHECKING, Any

import structlog
from django.db import transaction
from django.db.models import Q
from django.utils.translation import gettext as _

from accounts.principal import Principal
from clusters.models import Cluster
from common.clock import now
from common.errors import BerthError, Conflict, Forbidden, Invalid, NotFound, Unavailable, wrong
from events import services as events
from experiments import katib
from experiments.choices import LIVE, Algorithm, Engine, Reason, State, TrialState
from experiments.models import Experiment, Trial
from experiments.reading import read
from experiments.rules import filled
from experiments.search import Tried, ask, lags
from experiments.selectors import ending
from experiments.services import best_of, own_algorithm
from jobs import choices as jobs
from jobs.kind import JOB
from jobs.states import OVER, state_of
from notifications.services import notify_owner
from runtime.protocol import Desired, DriverError, Phase
from usage.models import Interval
from work.choices import StopReason
from work.services import workload_create
from work.services.base import locked
from work.services.ending import request_stop

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from jobs.models import Job
    from runtime.capabilities.experiments import Proposal

log = structlog.get_logger(__name__)

SOON_S, SELDOM_S, GROWS = 2.0, 15.0, 1.5  # pauses between two looks at one search
PATIENCE_S = 120  # a Katib that proposes nothing for so long is not waited for
_ENDED = (Phase.STOPPED, Phase.FAILED)
# Archiving has stopped its trials: nobody wants it to go on months later, when it is undone.
_FINAL = frozenset({"project-archived"})


class Turns:
    """Looks at every search that is not over: soon where a job ended, else ever more seldom."""

    def __init__(self) -> None:
        self._next: dict[int, tuple[float, float]] = {}  # by search: when, and the pause then

    def tick(self) -> None:
        """One search that can't be steered holds up no other."""
        at, seen = time.monotonic(), dict[int, tuple[float, float]]()
        wanted = Q(state__in=LIVE) | Q(in_katib=True)
        over = Trial.objects.filter(state=TrialState.RUNNING, job__phase__in=_ENDED)
        at_once = set(over.values_list("experiment_id", flat=True))
        rows = Experiment.objects.filter(wanted).select_related("project", "owner")
        for pk in list(rows.values_list("pk", flat=True)):
            due, pause = self._next.get(pk, (0.0, SOON_S))
            if due > at and pk not in at_once:
                seen[pk] = (due, pause)
                continue
            if (row := rows.filter(pk=pk).first()) is None:
                continue  # over, or deleted, since this turn began
            before = _mark(row)
            try:
                steer(row)
            except Exception:
                log.exception("experiment-turn", experiment=str(row.uid))
            still = _mark(row) == before
            pause = min(pause * GROWS, SELDOM_S) if still else SOON_S
            seen[row.pk] = (at + pause, pause)
        self._next = seen


def _mark(row: Experiment) -> tuple[Any, ...]:
    told = row.trials.values_list("number", "state", "log_offset")
    held = Experiment.objects.filter(pk=row.pk).values_list("state", "trials_max", "parallel")
    return (*told, *held)


def steer(row: Experiment) -> None:
    """Bring one search a step on: what its trials said, whether it is over, what comes next."""
    if row.state not in LIVE:
        _leave_katib(row)
        return
    # Most of 500 are over: of those nobody asks for their jobs, or what they said.
    live = row.trials.filter(state=TrialState.RUNNING)
    asked = {
        one.pk: one
        for rows in (live, ending(row))
        for one in rows.select_related("job__project", "job__owner")
    }
    trials = [asked.get(one.pk, one) for one in row.trials.defer("curve")]
    done = row.trials.filter(state=TrialState.SUCCEEDED).values_list("curve", flat=True)
    others = cache(lambda: list(done))
    for trial in trials:
        if trial.state == TrialState.RUNNING:
            _look(row, trial, others)
        elif trial.pk in asked:
            _look_at_its_end(trial)
    running = [one for one in trials if one.state == TrialState.RUNNING]
    reason = row.reason if row.state == State.STOPPING else _why_over(row, trials)
    is_left = bool(running) or ending(row).exists()
    if reason == Reason.TRIALS and is_left and row.state == State.RUNNING:
        return  # its last trials go on to their end
    if reason:
        _end(row, reason, trials)
    elif len(running) < row.parallel:
        _begin_next(row, trials, row.parallel - len(running))
    elif row.silent_since:
        _silent(row, None)


def _begin_next(row: Experiment, trials: list[Trial], most: int) -> None:
    offered = _asked(row, trials) if row.engine == Engine.KATIB else []
    if row.engine == Engine.KATIB and not offered:
        return  # it has nothing yet
    for _place in range(most):
        if not _begin(row, trials, offered):
            return


def _asked(row: Experiment, trials: list[Trial]) -> list[Proposal]:
    """Tell Katib what has ended, and return what it proposes that has no trial yet.

    One that is away, or has lost what it knew, holds no search up: Optuna goes on with all trials.
    """
    if not row.in_katib and not katib.has_room(row):
        _without_katib(row, f"{katib.MOST} searches of the project have one there")
        return []
    # Written first: what is made there is never forgotten. Who stopped, deleted or restarted it
    # meanwhile has taken its objects away, or is about to: none is made again.
    held = Experiment.objects.filter(pk=row.pk, state=State.RUNNING, generation=row.generation)
    if not held.update(in_katib=True):
        return []
    row.in_katib = True
    why = ""
    known = {one.proposal for one in trials}
    try:
        for trial in trials:
            if trial.proposal and not trial.told and trial.state != TrialState.RUNNING:
                katib.tell(row, trial)
                Trial.objects.filter(pk=trial.pk).update(told=True)
                trial.told = True
        offered = [o for o in katib.proposed(row) if not o.told and o.name not in known]
    except DriverError as error:
        offered, why = [], str(error)
    if offered:
        _silent(row, None)
        return offered
    since = row.silent_since or now()
    _silent(row, since)
    if now() - since > timedelta(seconds=PATIENCE_S):
        _without_katib(row, why)
    elif why:
        _note(row, _("Katib does not answer, and the search waits: %(why)s") % {"why": why})
    return []


def _silent(row: Experiment, since: datetime | None) -> None:
    """Write since when there was a place for a trial, and Katib had no values for it."""
    if row.silent_since != since:
        row.silent_since = since
        Experiment.objects.filter(pk=row.pk).update(silent_since=since)


def _without_katib(row: Experiment, why: str) -> None:
    row.engine = Engine.INSTEAD
    Experiment.objects.filter(pk=row.pk).update(engine=row.engine)
    log.warning("experiment-without-katib", experiment=str(row.uid), error=why)


def _leave_katib(row: Experiment) -> None:
    """Take away what it has of a search that is over. Katib does so when its database answers."""
    held = Experiment.objects.filter(pk=row.pk, generation=row.generation)
    # A late turn: another has taken it away, and by now it may have been begun again.
    if not row.in_katib or not held.filter(in_katib=True).exists():
        return
    try:
        if Cluster.objects.filter(key=row.cluster_key).exists():  # else it went with the cluster
            katib.remove(row)
    except DriverError as error:
        late = row.ended_at is not None and now() - row.ended_at > timedelta(seconds=SELDOM_S)
        if late and row.reason != Reason.REFUSED:  # why it was refused matters more
            text = _("It is over; Katib still holds its records of it: %(why)s")
            _note(row, text % {"why": error})
        return
    kept = "" if row.reason != Reason.REFUSED else row.message
    held.update(in_katib=False, message=kept)


def _look(row: Experiment, trial: Trial, others: Callable[[], Sequence[Sequence[float]]]) -> None:
    """Write down what a trial has said, and how it ended. ``others``: of those that ended well.

    It is compared with them when it says something: they are many, and read for that alone.
    """
    job, before = trial.job, trial.curve
    if job is None or job.desired == Desired.ABSENT or job.deleted_at is not None:
        trial.state, trial.ended_at = TrialState.STOPPED, now()
        trial.save()
        return
    state = state_of(job)
    over = state in OVER
    trial.gpu_seconds = max(trial.gpu_seconds, _gpu_seconds(job))
    try:
        if not read(row, trial, job, over=over):
            trial.save()
            return  # the rest in the next turn: other searches have theirs before
    except Unavailable:
        if over:
            return  # what it said is not known yet: asked again
    except Conflict:
        pass  # a cluster that keeps no logs
    is_news = row.early_stopping and not over and trial.curve != before
    if is_news and lags(trial.curve, others(), maximizes=row.maximizes):
        trial.state, trial.ended_at = TrialState.EARLY_STOPPED, now()
        with transaction.atomic():  # never its job without it: that would be a stop by request
            _end_job(trial)
            trial.save()
        return
    if over:
        ended = {jobs.State.FAILED: TrialState.FAILED, jobs.State.CANCELLED: TrialState.STOPPED}
        said = TrialState.METRIC_UNAVAILABLE if trial.value is None else TrialState.SUCCEEDED
        trial.state, trial.ended_at = ended.get(state, said), now()
    trial.save()


def _look_at_its_end(trial: Trial) -> None:
    """Count what its job held until it ended; then it has ended, too."""
    if trial.job is None:
        return
    trial.gpu_seconds = max(trial.gpu_seconds, _gpu_seconds(trial.job))
    if state_of(trial.job) in OVER:
        trial.ended_at = now()
    trial.save(update_fields=["gpu_seconds", "ended_at"])


def _gpu_seconds(job: Job) -> float:
    """What all its launches held, as usage has written it down."""
    held = Interval.objects.filter(uid=job.uid, gpus__gt=0)
    return sum(
        one.gpus * max(0.0, ((one.ended_at or now()) - one.started_at).total_seconds())
        for one in held
    )


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


def _chosen(
    row: Experiment, tried: list[Tried], offered: list[Proposal] | None
) -> tuple[dict[str, Any] | None, str]:
    """Return the next values, and Katib's name of them. None: there are none now."""
    if row.engine == Engine.KATIB:
        if not offered:
            return None, ""
        first = offered.pop(0)
        try:
            return katib.values(row.parameters, first.values), first.name
        except DriverError as error:
            _without_katib(row, str(error))
            return None, ""
    how: dict[str, Any] = {"parameters": row.parameters, "algorithm": own_algorithm(row)}
    try:
        return ask(**how, maximizes=row.maximizes, seed=row.seed, tried=tried), ""
    except (ArithmeticError, ValueError) as error:  # bounds that nothing can be chosen from
        raise wrong("parameters", str(error)) from error


def _begin(row: Experiment, trials: list[Trial], offered: list[Proposal] | None = None) -> bool:
    """Make the next trial; False: it has to wait, or there is none."""
    if len(trials) >= row.trials_max:
        return False
    number = len(trials) + 1
    tried = [Tried(t.parameters, t.value, runs=t.state == TrialState.RUNNING) for t in trials]
    try:
        values, proposal = _chosen(row, tried, offered)
    except BerthError as error:
        _refused(row, trials, error)
        return False
    if values is None:
        is_all = own_algorithm(row) == Algorithm.GRID
        if is_all and not any(one.runs for one in tried):
            _end(row, Reason.GRID, trials)
        return False
    made: list[Trial] = []

    def beside(job: Job) -> None:
        held = Experiment.objects.select_for_update().get(pk=row.pk)
        # It was stopped or changed, or somebody else was faster, since this turn began.
        fits = number <= held.trials_max
        if held.state != State.RUNNING or held.trials.count() != number - 1 or not fits:
            raise Conflict("", code="turned")
        said = {"number": number, "parameters": values, "proposal": proposal}
        made.append(Trial.objects.create(experiment=row, job=job, **said))

    template = filled(row.template, values, number)
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
    final = isinstance(error, Invalid | Forbidden | NotFound) or error.code in _FINAL
    if not final or error.code == "name-taken":  # another worker made it, or somebody has that name
        _note(row, error.message)
        return
    _end(row, Reason.REFUSED, trials, message=error.message)


@transaction.atomic
def _end_job(trial: Trial) -> None:
    if trial.job is not None:
        request_stop(locked(trial.job), reason=StopReason.SEARCH, actor=None)


def _end(row: Experiment, reason: str, trials: list[Trial], message: str = "") -> None:
    """Write that it is over, or that it stops; then what still runs of it is told to end."""
    running = [one for one in trials if one.state == TrialState.RUNNING]
    over = not running and not ending(row).exists()
    if not _ended(row, reason, trials, over=over, message=message):
        return
    for trial in running:
        _end_job(trial)
    if over:
        _leave_katib(row)


@transaction.atomic
def _ended(row: Experiment, reason: str, trials: list[Trial], *, over: bool, message: str) -> bool:
    """False: it was changed since this turn began, and goes on."""
    held = Experiment.objects.select_for_update().get(pk=row.pk)
    if held.state not in LIVE:
        return False
    counted = reason in {Reason.TRIALS, Reason.GOAL, Reason.GPU_HOURS, Reason.FAILURES}
    if held.state == State.RUNNING and counted and _why_over(held, trials) != reason:
        return False
    if held.state == State.STOPPING:
        reason, message = held.reason, ""  # who stopped it first says why
    held.reason, held.state = reason, State.STOPPING
    held.message = message[:500] or (held.message if reason == Reason.REFUSED else "")
    if over:
        bad = reason in {Reason.FAILURES, Reason.REFUSED} or best_of(row, trials) is None
        held.state = State.FAILED if bad else State.SUCCEEDED
        held.state = State.STOPPED if reason in {Reason.USER, Reason.PROJECT} else held.state
        held.ended_at = now()
        data = {"state": held.state, "reason": reason}
        said: dict[str, Any] = {"target": held, "project_uid": row.project.uid, "data": data}
        events.record(actor=None, verb="experiment.ended", **said)
        if held.state != State.STOPPED:
            notify_owner(held, "experiment.ended", reason=Reason(reason).label)
    held.save()
    row.state, row.reason = held.state, held.reason
    return True


def _note(row: Experiment, message: str) -> None:
    if row.message != message[:500]:
        row.message = message[:500]
        Experiment.objects.filter(pk=row.pk).update(message=row.message)
