"""What ``hyperparameters`` of a ``trainingInput`` ask for: a search and its parameters. Pure.

A trial gets its values as AI Platform gives them: words ``--name=value`` behind its arguments.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.utils.translation import gettext as _

from jobs.ai_platform.searches import FAILED_USUAL, MAX_PARALLEL, MAX_TRIALS

PATH = "hyperparameters"
NUMBER = "${trial.number}"  # stands for a trial's number in what it is made of
TAG = "training/hptuning/metric"  # where none is said
ALGORITHMS = {
    "ALGORITHM_UNSPECIFIED": "tpe",
    "GRID_SEARCH": "grid",
    "RANDOM_SEARCH": "random",
}
GOALS = {
    "GOAL_TYPE_UNSPECIFIED": "maximize",
    "MAXIMIZE": "maximize",
    "MINIMIZE": "minimize",
}
_TYPES = {"DOUBLE": "double", "INTEGER": "int", "CATEGORICAL": "", "DISCRETE": ""}
_LISTS = {"CATEGORICAL": "categoricalValues", "DISCRETE": "discreteValues"}
_SCALES = {"NONE": False, "UNIT_LINEAR_SCALE": False, "UNIT_LOG_SCALE": True}


@dataclass
class Search:
    """``said``: the fields of a search but its name and its job. ``told``: path → what becomes."""

    said: dict[str, Any] = field(default_factory=dict)
    told: dict[str, tuple[str, str]] = field(default_factory=dict)
    refused: dict[str, str] = field(default_factory=dict)

    @property
    def args(self) -> list[str]:
        """Return the words that a trial gets, with the places of its values."""
        names = (one["name"] for one in self.said["parameters"])
        return [f"--{name}=${{trialParameters.{name}}}" for name in names]


def search_of(asked: Mapping[str, Any]) -> Search:
    """Return the search that they ask for; what can't be kept is refused by its name."""
    found = Search()
    _counts(asked, found)
    algorithm = str(asked.get("algorithm") or "ALGORITHM_UNSPECIFIED").upper()
    goal = str(asked.get("goal") or "GOAL_TYPE_UNSPECIFIED").upper()
    for name, value, known in (("algorithm", algorithm, ALGORITHMS), ("goal", goal, GOALS)):
        if value not in known:
            said = _("There is no such one here. One of: %(names)s")
            found.refused[f"{PATH}.{name}"] = said % {"names": ", ".join(known)}
        elif asked.get(name):
            found.told[f"{PATH}.{name}"] = (known[value], "")
    tag = str(asked.get("hyperparameterMetricTag") or TAG)
    found.told[f"{PATH}.hyperparameterMetricTag"] = (
        tag,
        _("Each trial prints it as a line name=value; its best value counts."),
    )
    if asked.get("resumePreviousJobId"):
        found.refused[f"{PATH}.resumePreviousJobId"] = _(
            "A search begins without the trials of another. Submit it anew with more trials."
        )
    early = bool(asked.get("enableTrialEarlyStopping"))
    if asked.get("enableTrialEarlyStopping") is not None:
        why = _("Trials that are worse than the median of those before end early.") if early else ""
        found.told[f"{PATH}.enableTrialEarlyStopping"] = (str(early).lower(), why)
    found.said |= {
        "algorithm": ALGORITHMS.get(algorithm, "tpe"),
        "objective": GOALS.get(goal, "maximize"),
        "metric": tag,
        "early_stopping": early,
        "parameters": _parameters(asked.get("params") or [], found),
    }
    return found


def _counts(asked: Mapping[str, Any], found: Search) -> None:
    for name, key, usual, most in (
        ("maxTrials", "trials_max", 1, MAX_TRIALS),
        ("maxParallelTrials", "parallel", 1, MAX_PARALLEL),
        ("maxFailedTrials", "failed_max", FAILED_USUAL, MAX_TRIALS),
    ):
        number = asked.get(name) or usual
        if number > most:
            found.refused[f"{PATH}.{name}"] = _("At most %(n)d.") % {"n": most}
        elif asked.get(name) is not None:
            found.told[f"{PATH}.{name}"] = (str(number), "")
        found.said[key] = number


def _parameters(params: list[Mapping[str, Any]], found: Search) -> list[dict[str, Any]]:
    """Return each as a search has it."""
    shown: list[str] = []
    made = []
    for number, one in enumerate(params):
        here, name = f"{PATH}.params[{number}]", str(one.get("parameterName") or "")
        kind = str(one.get("type") or "").upper()
        if not name or kind not in _TYPES:
            part = "type" if name else "parameterName"
            said = _("One of: %(names)s") % {"names": ", ".join(_TYPES)}
            found.refused[f"{here}.{part}"] = said if name else _("It needs a name.")
            continue
        parameter = _values(one, kind, here, found)
        if parameter is not None:
            made.append({"name": name, **parameter})
            shown.append(name)
    if not params:
        found.refused[f"{PATH}.params"] = _("Say at least one parameter.")
    args = " ".join(f"--{name}=…" for name in shown)
    found.told[f"{PATH}.params"] = (
        ", ".join(shown),
        _("Each trial gets %(args)s.") % {"args": args},
    )
    return made


def _values(one: Mapping[str, Any], kind: str, here: str, found: Search) -> dict[str, Any] | None:
    scale = str(one.get("scaleType") or "NONE").upper()
    if kind in _LISTS:
        values = [str(value) for value in one.get(_LISTS[kind]) or []]
        if not values:
            found.refused[f"{here}.{_LISTS[kind]}"] = _("It needs values.")
            return None
        return {"type": "categorical", "values": values}
    if scale not in _SCALES:
        said = _("There is no such scale here. One of: %(names)s")
        found.refused[f"{here}.scaleType"] = said % {"names": ", ".join(_SCALES)}
        return None
    bounds = {}
    for part, key in (("minValue", "min"), ("maxValue", "max")):
        try:
            bounds[key] = float(str(one.get(part, "")))
        except ValueError:
            bounds[key] = math.nan
        if not math.isfinite(bounds[key]):
            found.refused[f"{here}.{part}"] = _("It needs a number.")
            return None
    return {"type": _TYPES[kind], **bounds, **({"log": True} if _SCALES[scale] else {})}
