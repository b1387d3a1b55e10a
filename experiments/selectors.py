"""Searches that somebody may see."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any
from uuid import UUID

from django.db.models import Count, F, Func, IntegerField, Q, QuerySet
from django.utils.translation import gettext as _

from common.errors import NotFound
from experiments.choices import TrialState
from experiments.models import Experiment, Trial
from jobs.states import ENDED
from projects.access import Permission, scoped
from runtime.protocol import Desired

if TYPE_CHECKING:
    from accounts.principal import Principal
    from jobs.models import Run
    from projects.models import Project


class Length(Func):
    """How many a column's JSON list has, counted where it lies."""

    function = "JSON_ARRAY_LENGTH"
    output_field = IntegerField()

    def as_postgresql(self, compiler: Any, connection: Any, **how: Any) -> Any:
        return self.as_sql(compiler, connection, function="JSONB_ARRAY_LENGTH", **how)


def visible_to(who: Principal, project: Project) -> QuerySet[Experiment]:
    rows = scoped(Experiment.objects.filter(project=project), who, Permission.JOB_READ)
    done = Count("trials", filter=~Q(trials__state=TrialState.RUNNING))
    return (
        rows.select_related("project", "owner")
        .annotate(begun=Count("trials"), done=done)
        .order_by("-id")
    )


def experiment_get(who: Principal, project: Project, uid: UUID) -> Experiment:
    row = visible_to(who, project).filter(uid=uid).first()
    if row is None:
        raise NotFound(_("There is no such thing, or you may not see it."))
    return row


def trials_of(row: Experiment) -> QuerySet[Trial]:
    return row.trials.select_related("job__project")


def trial_get(row: Experiment, number: int) -> Trial:
    trial = row.trials.select_related("job__project", "job__owner").filter(number=number).first()
    if trial is None:
        raise NotFound(_("There is no such thing, or you may not see it."))
    return trial


def ending(row: Experiment) -> QuerySet[Trial]:
    """Those that early stopping ended, and whose job holds its place, or did at the last look."""
    found = row.trials.filter(state=TrialState.EARLY_STOPPED, job__deleted_at=None)
    found = found.filter(job__desired=Desired.STOPPED)
    return found.exclude(job__phase__in=ENDED, job__phase_since__lte=F("ended_at"))


def metrics_of_run(run: Run) -> dict[str, float]:
    """Return how good a trial was, for a model of what its job left."""
    trial = Trial.objects.filter(job=run.job_id, value__isnull=False).select_related("experiment")
    found = trial.first()
    return {found.experiment.metric: found.value} if found and found.value is not None else {}
