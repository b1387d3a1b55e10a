"""Searches in the words of AI Platform Training: ``hyperparameters`` in, ``trainingOutput`` out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from django.db.models import F, Prefetch

from experiments import selectors, services
from experiments.api import ExperimentIn
from experiments.choices import State, TrialState
from experiments.models import Experiment, TrainingSearch, Trial
from jobs.ai_platform.api import document_for
from jobs.ai_platform.documents import refusal

if TYPE_CHECKING:
    from django.db.models import QuerySet

    from accounts.principal import Principal
    from projects.models import Project
    from work.services import Plan

_STATES = {
    State.RUNNING: "RUNNING",
    State.STOPPING: "CANCELLING",
    State.SUCCEEDED: "SUCCEEDED",
    State.FAILED: "FAILED",
    State.STOPPED: "CANCELLED",
}
_TRIALS = {
    TrialState.RUNNING: "RUNNING",
    TrialState.SUCCEEDED: "SUCCEEDED",
    TrialState.EARLY_STOPPED: "SUCCEEDED",
    TrialState.STOPPED: "CANCELLED",
}


class Submitted:
    """Searches that were submitted so (``jobs.ai_platform.searches.Searches``)."""

    def submit(
        self,
        *,
        principal: Principal,
        project: Project,
        said: Mapping[str, Any],
        document: Mapping[str, Any],
        labels: Mapping[str, Any],
    ) -> None:
        """Begin one; what the API of searches refuses is told in the names of the file."""

        def keep(row: Experiment) -> None:
            kept = {"document": dict(document), "labels": dict(labels)}
            TrainingSearch.objects.create(experiment=row, **kept)

        services.experiment_create(
            principal=principal, project=project, said=_checked(said), beside=keep
        )

    def plan(
        self, *, principal: Principal, project: Project, said: Mapping[str, Any]
    ) -> tuple[Plan, str]:
        _row, plan, refusal = services.experiment_plan(
            principal=principal, project=project, said=_checked(said)
        )
        return plan, refusal

    def listed(self, who: Principal, project: Project) -> QuerySet[Experiment]:
        """Without curves: 500 trials have half a million numbers, and only their count is told."""
        rows = selectors.visible_to(who, project).filter(training_search__isnull=False)
        trials = Trial.objects.defer("curve").annotate(
            steps=selectors.Length("curve"), started_at=F("job__started_at")
        )
        return rows.select_related("training_search").prefetch_related(Prefetch("trials", trials))

    def told(self, who: Principal, row: Experiment) -> dict[str, Any]:
        """Return one with its trials, the best first; what is not known yet is left out."""
        kept: TrainingSearch = row.training_search
        trials: list[Any] = list(row.trials.all())  # with what ``listed`` says of each
        done = [one for one in trials if one.state != TrialState.RUNNING]
        begun = [one.started_at for one in trials if one.started_at]
        best_last = sorted(trials, key=lambda one: _worth(row, one))
        told = {
            "jobId": row.name,
            "state": _STATES[State(row.state)],
            "createTime": row.created_at,
            "startTime": min(begun, default=None),
            "endTime": row.ended_at,
            "errorMessage": row.message if row.state == State.FAILED else "",
            "labels": kept.labels,
            "trainingInput": document_for(kept.document, is_owner=row.owner_id == who.user.pk),
            "trainingOutput": {
                "completedTrialCount": str(len(done)),
                "isHyperparameterTuningJob": True,
                "hyperparameterMetricTag": row.metric,
                "trials": [_trial(one) for one in reversed(best_last)],
            },
        }
        return {name: value for name, value in told.items() if value not in (None, "", {})}

    def cancel(self, *, principal: Principal, row: Experiment, said: str) -> None:
        services.experiment_stop(principal=principal, row=row, said=said)


def _checked(said: Mapping[str, Any]) -> dict[str, Any]:
    shape = ExperimentIn(data=dict(said))
    if not shape.is_valid():
        names = {"name": "jobId"}
        faults = {names.get(key, "hyperparameters"): str(v) for key, v in shape.errors.items()}
        raise refusal(faults)
    return dict(shape.validated_data)


def _worth(row: Experiment, trial: Trial) -> tuple[bool, float]:
    """Order trials by what they said; one that said nothing is the worst."""
    if trial.value is None:
        return False, -float(trial.number)
    return True, trial.value if row.maximizes else -trial.value


def _trial(one: Any) -> dict[str, Any]:
    found: dict[str, Any] = {
        "trialId": str(one.number),
        "hyperparameters": {name: str(value) for name, value in one.parameters.items()},
        "state": _TRIALS.get(TrialState(one.state), "FAILED"),
    }
    if one.value is not None:
        found["finalMetric"] = {"trainingStep": str(one.steps), "objectiveValue": one.value}
    if one.state == TrialState.EARLY_STOPPED:
        found["isTrialStoppedEarly"] = True
    if one.started_at is not None:
        found["startTime"] = one.started_at
    if one.ended_at is not None:
        found["endTime"] = one.ended_at
    return found
