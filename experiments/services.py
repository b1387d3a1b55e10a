"""Beginning a search, stopping it or one trial, and making a job of the best trial."""

from __future__ import annotations

import itertools
import json
import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from django.db import IntegrityError, transaction
from django.urls import reverse
from django.utils.translation import gettext as _

from clusters.models import Cluster
from common.clock import now
from common.errors import BerthError, Conflict, Forbidden, wrong
from common.manifests import Change
from events import services as events
from experiments import katib, rules, selectors
from experiments.choices import Algorithm, Engine, Reason, State, TrialState
from experiments.models import Experiment, Trial
from experiments.search import any_value
from jobs.kind import JOB
from jobs.tensorboard import tensorboard_of
from notifications.services import notify_owner
from projects.access import Permission, project_enter
from projects.others import reason_for, tell_owner
from work.selectors import names_taken
from work.services import workload_create, workload_plan, workload_stop
from work.services.base import locked
from work.services.ending import request_delete

if TYPE_CHECKING:
    from accounts.principal import Principal
    from jobs.models import Job
    from projects.models import Project
    from work.services import Plan

OWN_ALGORITHMS = frozenset((Algorithm.RANDOM, Algorithm.TPE, Algorithm.GRID))  # of Optuna here
NAME_MAX = 50  # a trial's number follows it in the name of its job


EDITABLE = ("trials_max", "parallel", "failed_max", "gpu_hours", "goal")  # how long it goes on


def experiment_plan(
    *, principal: Principal, project: Project, said: Mapping[str, Any]
) -> tuple[Experiment, Plan, str]:
    """Return a search as it would be, the plan of its first trial, and why it would be refused.

    The sentences of the plan are of the whole search. A trial that has to wait is no refusal; one
    that is larger than a limit, and so would wait for ever, is.
    """
    template, parameters = dict(said["job"]), [dict(one) for one in said["parameters"]]
    name = JOB.table["name"].clean(said["name"])
    if len(name) > NAME_MAX:
        raise wrong("name", _("At most %(n)d characters.") % {"n": NAME_MAX})
    if "name" in template:
        raise wrong("job", _("Its trials are named after the search: leave the name out."))
    rules.require_parameters(parameters, said["algorithm"])
    for one in parameters:
        if one["type"] == "int":
            one |= {key: int(one[key]) for key in ("min", "max", "step") if key in one}
    rules.require_used(template, [one["name"] for one in parameters])
    seed = said.get("seed")
    row = Experiment(
        **{
            **{key: value for key, value in said.items() if key != "job"},
            "name": name,
            "parameters": parameters,
            "seed": secrets.randbelow(2**31) if seed is None else seed,
        },
        project=project,
        owner=principal.user,
        sealed={"job": json.dumps(template)},
    )
    first = {one["name"]: any_value(one) for one in parameters}
    trial = {**rules.filled(template, first, 1), "name": f"{name}-1"}
    plan = workload_plan(principal=principal, project=project, kind=JOB, said=trial)
    choose_engine(row, template, plan.row.cluster_key)
    too_large = any(q.limit is not None and q.after - q.used > q.limit for q in plan.quota)
    told = replace(plan, sentences=_sentences(row, plan))
    return row, told, plan.refusal if too_large else ""


def _sentences(row: Experiment, plan: Plan) -> tuple[str, ...]:
    """What the plan of its first trial comes to for all of a search."""
    count = {"parallel": min(row.parallel, row.trials_max), "trials": row.trials_max}
    told = [
        _("Values are chosen by: %(engine)s.") % {"engine": row.get_engine_display()},
        _("%(trials)d trials, up to %(parallel)d at the same time.") % count,
    ]
    if gpus := count["parallel"] * JOB.total_of(plan.row).gpus:
        told.append(_("Together they hold up to %(n)d GPUs.") % {"n": gpus})
    if row.gpu_hours is not None:
        told.append(_("It ends when %(n)s GPU-hours are spent.") % {"n": f"{row.gpu_hours:g}"})
    if plan.sentences:
        told.append(_("Of the first trial: %(said)s") % {"said": " ".join(plan.sentences)})
    return tuple(told)


def experiment_create(
    *,
    principal: Principal,
    project: Project,
    said: Mapping[str, Any],
    beside: Callable[[Experiment], object] = lambda _row: None,
) -> Experiment:
    """Begin a search; ``beside`` is called in the transaction that makes it."""
    row, _plan, refusal = experiment_plan(principal=principal, project=project, said=said)
    if refusal:
        raise Conflict(refusal, code="trial-too-large")
    try:
        with transaction.atomic():
            row.save(force_insert=True)
            beside(row)
            events.record(
                actor=principal, verb="experiment.created", target=row, project_uid=project.uid
            )
    except IntegrityError as error:
        message = _("There is a search of this name in the project already.")
        raise Conflict(message, code="name-taken") from error
    return row


@dataclass(frozen=True)
class Applied:
    """What a document came to, or would come to."""

    row: Experiment
    action: str  # create, update, none
    changes: Sequence[Change]
    sentences: Sequence[str] = ()
    refusal: str = ""


def experiment_apply(
    *, principal: Principal, project: Project, said: Mapping[str, Any], plan: bool = False
) -> Applied:
    """Begin what is not there, or change how long it goes on; ``plan``: say it and do nothing."""
    wanted, planned, refusal = experiment_plan(principal=principal, project=project, said=said)
    row = Experiment.objects.filter(project=project, name=wanted.name).first()
    if row is None:
        made = (
            wanted if plan else experiment_create(principal=principal, project=project, said=said)
        )
        changes = [Change(name, None, value) for name, value in said.items()]
        return Applied(made, "create", changes, planned.sentences, refusal)
    fixed = ("parameters", "metric", "objective", "algorithm", "early_stopping")
    other = [name for name in fixed if getattr(row, name) != getattr(wanted, name)]
    mine = principal.user.pk == row.owner_id
    if mine and {**row.template, "cluster": ""} != {**wanted.template, "cluster": ""}:
        other.append("job")
    if other:
        text = _("It can't be changed in a search that has begun: delete it, or give another name.")
        raise wrong(other[0], text)
    found = {name: (getattr(row, name), getattr(wanted, name)) for name in EDITABLE if name in said}
    changes = [Change(name, *both) for name, both in found.items() if both[0] != both[1]]
    new = {change.field: change.after for change in changes}
    if changes and plan:
        try:
            _require_editable(principal, row, new, restart=False)
        except BerthError as error:
            refusal = error.message
    elif changes:
        row = experiment_edit(principal=principal, row=row, said=new)
    return Applied(row, "update" if changes else "none", changes, (), refusal if changes else "")


def choose_engine(row: Experiment, template: dict[str, Any], cluster_key: str) -> None:
    """Katib where the cluster of the trials has it and can do it: then they run there."""
    cluster = Cluster.objects.filter(key=cluster_key).first()
    can = cluster is not None and katib.is_on(cluster) and row.algorithm in katib.ALGORITHMS
    if can and (is_free := katib.has_room(row)):
        row.engine, row.cluster_key = Engine.KATIB, cluster_key
        row.sealed = {"job": json.dumps({**template, "cluster": cluster_key})}
    elif row.algorithm not in OWN_ALGORITHMS:
        said = {"word": row.get_algorithm_display(), "where": cluster.name if cluster else ""}
        if can and not is_free:
            text = _("%(word)s needs Katib, where this project has %(n)d searches already.")
            raise Conflict(text % {**said, "n": katib.MOST}, code="katib-is-full")
        text = _("%(word)s needs Katib, which %(where)s lacks. Choose another algorithm.")
        raise wrong("algorithm", text % said)


def own_algorithm(row: Experiment) -> str:
    """Return how Optuna chooses, also where it does so in place of Katib."""
    return row.algorithm if row.algorithm in OWN_ALGORITHMS else Algorithm.TPE


@transaction.atomic
def experiment_edit(
    *, principal: Principal, row: Experiment, said: Mapping[str, Any], restart: bool = False
) -> Experiment:
    """Change how long a search goes on; ``restart``: one that is over goes on from its trials."""
    project_enter(principal, row.project.slug, Permission.JOB_CREATE)
    held = Experiment.objects.select_for_update().get(pk=row.pk)
    _require_editable(principal, held, said, restart=restart)
    for name, value in said.items():
        setattr(held, name, value)
    if restart:
        held.state, held.reason, held.message, held.ended_at = State.RUNNING, "", "", None
        held.generation, held.begun_before = held.generation + 1, held.trials.count()
        held.restarted_at, held.silent_since = now(), None
        if held.in_katib:
            raise Conflict(_("Katib still takes its records of it away: try again soon."))
        if held.cluster_key:
            held.engine = Engine.KATIB
    held.save()
    verb = "experiment.restarted" if restart else "experiment.edited"
    data = dict(said)
    events.record(actor=principal, verb=verb, target=held, project_uid=row.project.uid, data=data)
    return held


def _require_editable(
    principal: Principal, row: Experiment, said: Mapping[str, Any], *, restart: bool
) -> None:
    if principal.user.pk != row.owner_id:
        raise Forbidden(_("Only who began the search can change it: it runs in their name."))
    if row.state == State.STOPPING or (row.state == State.RUNNING) == restart:
        text = _("It runs.") if restart else _("It is over: let it go on, with more trials.")
        raise Conflict(text, code="not-now")
    begun = row.trials.count()
    if said.get("trials_max", row.trials_max) <= begun:
        text = _("It has begun %(n)d trials already: give it more.")
        raise wrong("trials_max", text % {"n": begun})


def experiment_delete(*, principal: Principal, row: Experiment, said: str = "") -> None:
    """Delete a search that is over, with the jobs of its trials."""
    require_change(principal, row)
    said = reason_for(principal, row.owner, said)
    with transaction.atomic():
        row = Experiment.objects.select_for_update().get(pk=row.pk)
        if row.state == State.RUNNING:
            raise Conflict(_("It is not over yet: stop it first."), code="not-over")
        if row.state == State.STOPPING:
            text = _("Its trials are still ending: try again when it has stopped.")
            raise Conflict(text, code="not-over")
        if row.in_katib:
            text = _("Katib still takes its records of it away: try again soon.")
            raise Conflict(text, code="not-over")
        for trial in row.trials.select_related("job"):
            if trial.job is not None:
                request_delete(locked(trial.job), actor=principal, said=said)
        listed = reverse("experiments:list", args=[row.project.slug])
        tell_owner(principal, row.owner, "work.deleted", row, said, url=listed)
        events.record(
            actor=principal,
            verb="experiment.deleted",
            target=row,
            project_uid=row.project.uid,
            message=said,
        )
        row.delete()


@transaction.atomic
def experiment_stop(*, principal: Principal, row: Experiment, said: str = "") -> Experiment:
    """Ask a search to stop, with its trials. A second time changes nothing."""
    require_change(principal, row)
    said = reason_for(principal, row.owner, said)
    row = Experiment.objects.select_for_update().get(pk=row.pk)
    if row.state == State.STOPPING:
        return row
    if row.state != State.RUNNING:
        raise Conflict(_("It is over: there is nothing to stop."), code="not-running")
    row.state, row.reason, row.message = State.STOPPING, Reason.USER, ""
    row.save(update_fields=["state", "reason", "message"])
    events.record(
        actor=principal,
        verb="experiment.stopped",
        target=row,
        project_uid=row.project.uid,
        message=said,
    )
    why = f"{principal.user.label}: {said}"
    if said:
        notify_owner(row, "work.stopped", reason=why)
    return row


def trial_stop(*, principal: Principal, trial: Trial, said: str = "") -> None:
    """Ask the job of one trial to stop; the search goes on with others."""
    if trial.state != TrialState.RUNNING or trial.job is None:
        raise Conflict(_("It is over: there is nothing to stop."), code="not-running")
    workload_stop(principal=principal, row=trial.job, said=said)


def experiment_promote(*, principal: Principal, row: Experiment, name: str = "") -> Job:
    """Make and start a job with the values of the best trial; only its owner has the template."""
    project_enter(principal, row.project.slug, Permission.JOB_CREATE)
    if principal.user.pk != row.owner_id:
        raise Forbidden(_("Only who began the search can make a job of it: it has their settings."))
    best = best_of(row, list(row.trials.all()))
    if best is None:
        raise Conflict(_("No trial has ended well yet."), code="no-best")
    usual = itertools.chain(
        [f"{row.name}-best"], (f"{row.name}-best-{n}" for n in itertools.count(2))
    )
    taken = names_taken(row.project, row.owner, JOB)
    name = name or next(one for one in usual if one not in taken)
    said = {**rules.filled(row.template, best.parameters, name), "name": name}
    made: Job = workload_create(principal=principal, project=row.project, kind=JOB, said=said)
    events.record(
        actor=principal,
        verb="experiment.promoted",
        target=row,
        project_uid=row.project.uid,
        data={"trial": best.number, "job": made.name},
    )
    return made


def experiment_tensorboard(*, principal: Principal, row: Experiment, must_fit: bool = False) -> Any:
    """Return a workspace of the person's that shows what its trials write: of many the best."""
    found = selectors.trials_of(row).filter(job__deleted_at=None, job__isnull=False)
    trials = list(found.defer("curve"))  # long, and of hundreds
    jobs = [one.job for one in best_first(row, trials) if one.job is not None]
    return tensorboard_of(
        principal=principal, of=row.uid, jobs=jobs, name=row.name, must_fit=must_fit
    )


def require_change(principal: Principal, row: Experiment) -> None:
    """Raise unless it is one's own, or one may end jobs of others."""
    mine = principal.user.pk == row.owner_id
    wanted = Permission.JOB_CREATE if mine else Permission.JOB_MANAGE
    project_enter(principal, row.project.slug, wanted)


def best_of(row: Experiment, trials: list[Trial]) -> Trial | None:
    """Return the best of the trials that ended well."""
    done = [one for one in trials if one.state == TrialState.SUCCEEDED and one.value is not None]
    pick = max if row.maximizes else min
    return pick(done, key=lambda one: one.value or 0.0) if done else None


def best_first(row: Experiment, trials: list[Trial]) -> list[Trial]:
    """Return what runs, then by what was said, then what said nothing."""
    sign = -1 if row.maximizes else 1

    def at(one: Trial) -> tuple[bool, bool, float, int]:
        told = one.value is None
        return one.state != TrialState.RUNNING, told, sign * (one.value or 0.0), one.number

    return sorted(trials, key=at)
