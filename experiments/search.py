"""Choosing the next values from the trials so far; pure, so that a killed worker loses nothing."""

from __future__ import annotations

import itertools
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from optuna.distributions import BaseDistribution

EARLY_FROM = 4  # values that a trial has said before it is compared
EARLY_AMONG = 3  # trials that have ended well before


@dataclass(frozen=True)
class Tried:
    """A trial as the search sees it; ``value`` None: it runs, or it failed."""

    parameters: Mapping[str, Any]
    value: float | None
    runs: bool = False


def any_value(one: Mapping[str, Any]) -> Any:
    """Return a value that a trial may get: to see what a job with it would be."""
    return one["values"][0] if one["type"] == "categorical" else one["min"]


def grid(parameters: Sequence[Mapping[str, Any]]) -> itertools.product[Any]:
    """Every combination, in a steady order."""
    return itertools.product(*(_points(one) for one in parameters))


def grid_size(parameters: Sequence[Mapping[str, Any]]) -> int:
    size = 1
    for one in parameters:
        size *= _count(one)
    return size


def ask(
    *,
    parameters: Sequence[Mapping[str, Any]],
    algorithm: str,
    maximizes: bool,
    seed: int,
    tried: Sequence[Tried],
) -> dict[str, Any] | None:
    """Return the next values by name, or None where every combination was tried."""
    number = len(tried)
    names = [one["name"] for one in parameters]
    if algorithm == "grid":
        found = next(itertools.islice(grid(parameters), number, None), None)
        return None if found is None else dict(zip(names, found, strict=True))
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    at = (seed * 1_000_003 + number) % 2**32  # searches with near seeds share no values
    samplers: Mapping[str, Any] = {
        "random": lambda: optuna.samplers.RandomSampler(seed=at),
        "tpe": lambda: optuna.samplers.TPESampler(seed=at, constant_liar=True, n_startup_trials=5),
    }
    study = optuna.create_study(
        sampler=samplers[algorithm](), direction="maximize" if maximizes else "minimize"
    )
    space = {one["name"]: _distribution(one) for one in parameters}
    states = optuna.trial.TrialState
    for one in tried:
        state = states.RUNNING if one.runs else states.FAIL
        state = state if one.value is None or one.runs else states.COMPLETE
        study.add_trial(
            optuna.trial.create_trial(
                state=state,
                value=one.value if state == states.COMPLETE else None,
                params={k: _inner(space[k], v) for k, v in one.parameters.items()},
                distributions=space,
            )
        )
    asked = study.ask(fixed_distributions=space).params
    return {one["name"]: _outer(one, asked[one["name"]]) for one in parameters}


def lags(curve: Sequence[float], others: Sequence[Sequence[float]], *, maximizes: bool) -> bool:
    """Whether the best so far is worse than the median of the others' averages up to here."""
    step, told = len(curve), [one for one in others if one]
    if step < EARLY_FROM or len(told) < EARLY_AMONG:
        return False
    middle = median(fmean(one[:step]) for one in told)
    return max(curve) < middle if maximizes else min(curve) > middle


def _distribution(one: Mapping[str, Any]) -> BaseDistribution:
    from optuna import distributions

    if one["type"] == "categorical":
        return distributions.CategoricalDistribution([json.dumps(v) for v in one["values"]])
    log, step = bool(one.get("log")), one.get("step")
    if one["type"] == "int":
        return distributions.IntDistribution(one["min"], one["max"], log=log, step=step or 1)
    return distributions.FloatDistribution(one["min"], one["max"], log=log, step=step)


def _inner(space: BaseDistribution, value: Any) -> Any:
    return json.dumps(value) if type(space).__name__ == "CategoricalDistribution" else value


def _outer(one: Mapping[str, Any], value: Any) -> Any:
    return json.loads(value) if one["type"] == "categorical" else value


def _count(one: Mapping[str, Any]) -> int:
    if one["type"] == "categorical":
        return len(one["values"])
    step = one.get("step") or 1
    return int((one["max"] - one["min"]) / step + 1e-9) + 1


def _points(one: Mapping[str, Any]) -> list[Any]:
    if one["type"] == "categorical":
        return list(one["values"])
    step = one.get("step") or 1
    return [round(one["min"] + n * step, 12) for n in range(_count(one))]
