"""Beginning a search, stopping it or one trial, and making a job of the best trial."""

from __future__ import annotations

import json
import secrets
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from django.db import IntegrityError, transaction
from django.utils.translation import gettext as _

from common.errors import Conflict, Forbidden, wrong
from events import services as events
from experiments import rules
from experiments.choices import Reason, State, TrialState
from experiments.models import Experiment, Trial
from experiments.search import ask
from jobs.kind import JOB
from projects.access import Permission, project_enter
from projects.others import reason_for
from work.services import workload_create, workload_plan, workload_stop

if TYPE_CHECKING:
    from accounts.principal import Principal
    from jobs.models import Job
    from projects.models import Project

NAME_MAX = 50  # a trial's number follows it in the name of its job


def experiment_create(
    *,
    principal: Principal,
    project: Project,
    said: Mapping[str, Any],
    beside: Callable[[Experiment], object] = lambda _row: None,
) -> Experiment:
    """Begin a search. What its first trial would be refused for is refused here.

    ``beside`` is called in the transaction that makes it.
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
    first = ask(
        parameters=parameters,
        algorithm=row.algorithm,
        maximizes=row.maximizes,
        seed=row.seed,
        tried=(),
    )
    trial = {**rules.filled(template, first or {}), "name": f"{name}-1"}
    workload_plan(principal=principal, project=project, kind=JOB, said=trial)
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
