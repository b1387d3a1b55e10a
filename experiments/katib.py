"""Katib as the engine of a search: what it is asked, and what it is told (ADR 0015).

It chooses values and nothing else: which trial runs, for how long, and when the search is over is
decided from our rows, as with Optuna.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from django.db.models import Q

from clusters.registry import driver_for
from experiments.choices import LIVE, Algorithm, Engine, TrialState
from experiments.models import Experiment
from runtime.capabilities.experiments import ExperimentSpec, Proposal, SupportsExperiments, TrialEnd
from runtime.protocol import Denied, InvalidSpec
from runtime.training import KATIB

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from clusters.models import Cluster
    from experiments.models import Trial

ALGORITHMS = frozenset((Algorithm.RANDOM, Algorithm.TPE, Algorithm.CMAES, Algorithm.SOBOL))
MOST = 10  # searches of a project at a time: each has a small pod that no limit counts
SEEDED = ALGORITHMS - {Algorithm.SOBOL}
_ENDS = {
    TrialState.SUCCEEDED: "Succeeded",
    TrialState.EARLY_STOPPED: "EarlyStopped",
}  # all else is Failed: its suggestions in Go know no other end


def is_on(cluster: Cluster) -> bool:
    return KATIB in cluster.operators


def has_room(row: Experiment) -> bool:
    """Whether it may choose values of a search, beside those of others in its project.

    Of one that is not begun yet those count too that are about to be there.
    """
    counted = Q(in_katib=True)
    if row.pk is None:
        counted |= Q(state__in=LIVE, engine=Engine.KATIB)
    others = Experiment.objects.filter(counted, project=row.project).exclude(name=row.name)
    return others.count() < MOST


def proposed(row: Experiment) -> tuple[Proposal, ...]:
    """Return what it proposed so far, oldest first; DriverError where it can't be asked."""
    return _driver(row).ensure_experiment(spec_of(row))


def tell(row: Experiment, trial: Trial) -> None:
    """Say how a trial ended: the next values follow from it."""
    # The best of it may lie beyond what is kept of the curve.
    curve = [] if trial.value is None else [trial.value, *trial.curve]
    end = TrialEnd(_ENDS.get(TrialState(trial.state), "Failed"), curve=curve)
    _driver(row).tell_trial(spec_of(row), trial.proposal, end)


def remove(row: Experiment) -> None:
    """Take its objects away; NotYet while some are left."""
    _driver(row).remove_experiment(str(row.uid))


def spec_of(row: Experiment) -> ExperimentSpec:
    left = max(1, row.trials_max - row.begun_before)
    return ExperimentSpec(
        uid=str(row.uid),
        name=row.name,
        generation=row.generation,
        metric=row.metric,
        maximizes=row.maximizes,
        algorithm=row.algorithm,
        settings={"random_state": str(row.seed)} if row.algorithm in SEEDED else {},
        space=[parameter(one) for one in row.parameters],
        trials_max=left,
        parallel=min(row.parallel, left),
    )


def parameter(one: Mapping[str, Any]) -> dict[str, Any]:
    """Return it in Katib's words. Not all that suggest for Katib know a logarithmic scale: what has
    one is asked for as its logarithm.
    """
    if one["type"] == "categorical":
        space: dict[str, Any] = {"list": [str(value) for value in one["values"]]}
        return {"name": one["name"], "parameterType": "categorical", "feasibleSpace": space}
    bounds = {key: one[key] for key in ("min", "max", "step") if one.get(key) is not None}
    kind = one["type"]
    if one.get("log"):
        bounds, kind = {key: math.log(bounds[key]) for key in ("min", "max")}, "double"
    space = {key: repr(number) for key, number in bounds.items()}
    return {"name": one["name"], "parameterType": kind, "feasibleSpace": space}


def values(parameters: Sequence[Mapping[str, Any]], said: Mapping[str, str]) -> dict[str, Any]:
    """Return what it proposed as the values of a trial; InvalidSpec where that is none of them."""
    try:
        return {one["name"]: _value(one, said[one["name"]]) for one in parameters}
    except (ArithmeticError, LookupError, ValueError) as error:
        raise InvalidSpec(f"Katib proposed what can't be read: {dict(said)}"[:300]) from error


def _value(one: Mapping[str, Any], text: str) -> Any:
    if one["type"] == "categorical":
        return {str(value): value for value in one["values"]}[text]
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(text)
    number = math.exp(number) if one.get("log") else number
    number = min(max(number, one["min"]), one["max"])  # what the logarithm rounded
    if step := one.get("step"):  # not all that suggest for Katib count its steps from the least
        most = math.floor((one["max"] - one["min"]) / step + 1e-9)
        number = one["min"] + min(round((number - one["min"]) / step), most) * step
    return round(number) if one["type"] == "int" else number


def _driver(row: Experiment) -> SupportsExperiments:
    driver = driver_for(row.cluster_key)
    if not isinstance(driver, SupportsExperiments):
        raise Denied(f"{row.cluster_key} has no Katib.")
    return driver
