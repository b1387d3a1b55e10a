"""Searches in the words of AI Platform Training: ``hyperparameters`` in, ``trainingOutput`` out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

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
        shape = ExperimentIn(data=dict(said))
        if not shape.is_valid():
            names = {"name": "jobId"}
            faults = {names.get(key, "hyperparameters"): str(v) for key, v in shape.errors.items()}
            raise refusal(faults)

        def keep(row: Experiment) -> None:
            kept = {"document": dict(document), "labels": dict(labels)}
            TrainingSearch.objects.create(experiment=row, **kept)

        services.experiment_create(
            principal=principal, project=project, said=shape.validated_data, beside=keep
        )

    def listed(self, who: Principal, project: Project) -> QuerySet[Experiment]:
        rows = selectors.visible_to(who, project).filter(training_search__isnull=False)
        return rows.select_related("training_search").prefetch_related("trials__job")

    def told(self, who: Principal, row: Experiment) -> dict[str, Any]:
        """Return one with its trials, the best first; what is not known yet is left out."""
        kept, trials = row.training_search, list(row.trials.all())
        done = [one for one in trials if one.state != TrialState.RUNNING]
        begun = [t.job.started_at for t in trials if t.job is not None and t.job.started_at]
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


def _worth(row: Experiment, trial: Trial) -> tuple[bool, float]:
    """Order trials by what they said; one that said nothing is the worst."""
    if trial.value is None:
        return False, -float(trial.number)
    return True, trial.value if row.maximizes else -trial.value


def _trial(one: Trial) -> dict[str, Any]:
    found: dict[str, Any] = {
        "trialId": str(one.number),
        "hyperparameters": {name: str(value) for name, value in one.parameters.items()},
        "state": _TRIALS.get(TrialState(one.state), "FAILED"),
    }
    if one.value is not None:
        step = str(len(one.curve))
        found["finalMetric"] = {"trainingStep": step, "objectiveValue": one.value}
    if one.state == TrialState.EARLY_STOPPED:
        found["isTrialStoppedEarly"] = True
    if one.job is not None and one.job.started_at is not None:
        found["startTime"] = one.job.started_at
    if one.ended_at is not None:
        found["endTime"] = one.ended_at
    return found
