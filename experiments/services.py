"""Beginning a search, stopping it or one trial, and making a job of the best trial."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from clusters.models import Cluster
from common.clock import now
from common.errors import Conflict, Forbidden, wrong
from common.manifests import Change
from events import services as events
from experiments import katib, rules
from experiments.choices import Algorithm, Engine, Reason, State, TrialState
from experiments.models import Experiment, Trial
from experiments.search import any_value
from jobs.kind import JOB
from projects.access import Permission, project_enter
from projects.others import reason_for
from work.services import workload_create, workload_plan, workload_stop
from work.services.ending import workload_delete

if TYPE_CHECKING:
    from accounts.principal import Principal
    from jobs.models import Job
    from projects.models import Project

OWN_ALGORITHMS = frozenset((Algorithm.RANDOM, Algorithm.TPE, Algorithm.GRID))  # of Optuna here
NAME_MAX = 50  # a trial's number follows it in the name of its job


EDITABLE = ("trials_max", "parallel", "failed_max", "gpu_hours", "goal")  # how long it goes on


def experiment_of(*, principal: Principal, project: Project, said: Mapping[str, Any]) -> Experiment:
    """Return a search as it would be. What its first trial would be refused for is refused here."""
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
    trial = {**rules.filled(template, first), "name": f"{name}-1"}
    plan = workload_plan(principal=principal, project=project, kind=JOB, said=trial)
    choose_engine(row, template, plan.row.cluster_key)
    return row


def experiment_create(
    *,
    principal: Principal,
    project: Project,
    said: Mapping[str, Any],
    beside: Callable[[Experiment], object] = lambda _row: None,
) -> Experiment:
    """Begin a search; ``beside`` is called in the transaction that makes it."""
    row = experiment_of(principal=principal, project=project, said=said)
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


def experiment_apply(
    *, principal: Principal, project: Project, said: Mapping[str, Any], plan: bool = False
) -> tuple[Experiment, str, list[Change]]:
    """Begin what is not there, or change how long it goes on; ``plan``: say it and do nothing."""
    wanted = experiment_of(principal=principal, project=project, said=said)
    row = Experiment.objects.filter(project=project, name=wanted.name).first()
    if row is None:
        made = (
            wanted if plan else experiment_create(principal=principal, project=project, said=said)
        )
        return made, "create", [Change(name, None, value) for name, value in said.items()]
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
    if changes and not plan:
        new = {change.field: change.after for change in changes}
        row = experiment_edit(principal=principal, row=row, said=new)
    return row, "update" if changes else "none", changes


def choose_engine(row: Experiment, template: dict[str, Any], cluster_key: str) -> None:
    """Katib where the cluster of the trials has it and can do it: then they run there."""
    cluster = Cluster.objects.filter(key=cluster_key).first()
    if cluster is not None and katib.is_on(cluster) and row.algorithm in katib.ALGORITHMS:
        row.engine, row.cluster_key = Engine.KATIB, cluster_key
        row.sealed = {"job": json.dumps({**template, "cluster": cluster_key})}
    elif row.algorithm not in OWN_ALGORITHMS:
        said = {"word": row.get_algorithm_display(), "where": cluster.name if cluster else ""}
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
    if principal.user.pk != row.owner_id:
        raise Forbidden(_("Only who began the search can change it: it runs in their name."))
    held = Experiment.objects.select_for_update().get(pk=row.pk)
    if held.state == State.STOPPING or (held.state == State.RUNNING) == restart:
        text = _("It runs.") if restart else _("It is over: let it go on, with more trials.")
        raise Conflict(text, code="not-now")
    for name, value in said.items():
        setattr(held, name, value)
    begun = held.trials.count()
    if held.trials_max <= begun:
        text = _("It has begun %(n)d trials already: give it more.")
        raise wrong("trials_max", text % {"n": begun})
    if restart:
        held.state, held.reason, held.message, held.ended_at = State.RUNNING, "", "", None
        held.generation, held.begun_before = held.generation + 1, begun
        held.restarted_at = now()
        if held.in_katib:
            raise Conflict(_("Katib still takes its records of it away: try again soon."))
        if held.cluster_key:
            held.engine = Engine.KATIB
    held.save()
    verb = "experiment.restarted" if restart else "experiment.edited"
    data = dict(said)
    events.record(actor=principal, verb=verb, target=held, project_uid=row.project.uid, data=data)
    return held


def experiment_delete(*, principal: Principal, row: Experiment, said: str = "") -> None:
    """Delete a search that is over, with the jobs of its trials."""
    require_change(principal, row)
    said = reason_for(principal, row.owner, said)
    with transaction.atomic():
        row = Experiment.objects.select_for_update().get(pk=row.pk)
        if row.state in {State.RUNNING, State.STOPPING} or row.in_katib:
            raise Conflict(_("It is not over yet: stop it first, and wait."), code="not-over")
        for trial in row.trials.select_related("job__project", "job__owner"):
            if trial.job is not None:
                workload_delete(principal=principal, row=trial.job, said=said)
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
    said = {**rules.filled(row.template, best.parameters), "name": name or f"{row.name}-best"}
    made: Job = workload_create(principal=principal, project=row.project, kind=JOB, said=said)
    events.record(
        actor=principal,
        verb="experiment.promoted",
        target=row,
        project_uid=row.project.uid,
        data={"trial": best.number, "job": made.name},
    )
    return made


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
