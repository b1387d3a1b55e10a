"""Where lines and points lie on the drawings of a search, from 0 to 100 each way; pure.

The table says the same. What is drawn is stretched to its place, so words stand beside it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from experiments.choices import TrialState

if TYPE_CHECKING:
    from experiments.models import Experiment, Trial

PAD = 3
GOOD = 0.1  # the best tenth is told apart
STEPS = 80  # points of a curve at most


def shown(value: Any) -> str:
    """Return a value as people compare it: four figures of a number."""
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def objective(row: Experiment, trials: Sequence[Trial]) -> dict[str, Any] | None:
    """Return a point per trial, and the line of the best so far."""
    told = [(one, one.value) for one in trials if one.value is not None]
    if not told:
        return None
    low, high = _ends([value for _one, value in told])
    first, last = told[0][0].number, told[-1][0].number
    pick = max if row.maximizes else min
    so_far: list[float] = []  # the best one, or none
    line, points = [], []
    for one, value in told:
        x = _at(_share(one.number, first, last))
        points.append({"x": x, "y": _down(_share(value, low, high)), "trial": one})
        if one.state in {TrialState.RUNNING, TrialState.SUCCEEDED}:
            so_far = [pick([*so_far, value])]
            line.append(f"{x:.1f},{_down(_share(so_far[0], low, high)):.1f}")
    ends = {"low": shown(low), "high": shown(high), "first": first, "last": last}
    return {"points": points, "line": " ".join(line), **ends}


def curves(trials: Sequence[Trial], best: Trial | None) -> dict[str, Any] | None:
    """Return a line per trial of what it said, step by step; its end where it was stopped early."""
    told = [one for one in trials if len(one.curve) > 1]
    if not told:
        return None
    low, high = _ends([value for one in told for value in one.curve])
    most = max(len(one.curve) for one in told)
    lines = []
    for one in told:
        steps = range(0, len(one.curve), -(-len(one.curve) // STEPS))
        at = [(_at(n / (most - 1)), _down(_share(one.curve[n], low, high))) for n in steps]
        line = {"points": " ".join(f"{x:.1f},{y:.1f}" for x, y in at), "trial": one}
        early = one.state == TrialState.EARLY_STOPPED
        lines.append({**line, "is_best": one == best, "end": at[-1] if early else None})
    lines.sort(key=lambda line: bool(line["is_best"]))
    return {"lines": lines, "low": shown(low), "high": shown(high), "steps": most}


def parallel(row: Experiment, trials: Sequence[Trial], best: Trial | None) -> dict[str, Any] | None:
    """Return an axis per parameter and one of the objective, and a line per trial."""
    told = [one for one in trials if one.value is not None]
    if not told:
        return None
    low, high = _ends([one.value for one in told])
    count = len(row.parameters) + 1
    axes = [{"x": _middle(n, count), **_axis(p)} for n, p in enumerate(row.parameters)]
    value = {"name": row.metric, "low": shown(low), "high": shown(high)}
    axes.append({"x": _middle(count - 1, count), **value})
    ranked = sorted(told, key=lambda one: one.value or 0.0, reverse=row.maximizes)
    good = {one.pk for one in ranked[: max(1, round(len(ranked) * GOOD))]}
    lines = []
    for one in reversed(ranked):  # the best is drawn last, on top
        shares = [_place(p, one.parameters[p["name"]]) for p in row.parameters]
        shares.append(_share(one.value, low, high))
        at = [f"{_middle(n, count):.2f},{_down(share):.1f}" for n, share in enumerate(shares)]
        kind = "best" if one == best else "good" if one.pk in good else "other"
        lines.append({"points": " ".join(at), "kind": kind, "trial": one})
    lines.sort(key=lambda line: line["kind"] == "best")
    return {"axes": axes, "lines": lines}


def _axis(one: Mapping[str, Any]) -> dict[str, Any]:
    values = one.get("values")
    low, high = (values[0], values[-1]) if values else (shown(one["min"]), shown(one["max"]))
    return {"name": one["name"], "low": low, "high": high}


def _place(one: Mapping[str, Any], value: Any) -> float:
    if one["type"] == "categorical":
        return _share(one["values"].index(value), 0, len(one["values"]) - 1)
    if one.get("log"):
        return _share(math.log(value), math.log(one["min"]), math.log(one["max"]))
    return _share(value, one["min"], one["max"])


def _ends(values: Sequence[float | None]) -> tuple[float, float]:
    found = [value for value in values if value is not None]
    return min(found), max(found)


def _share(value: float | None, low: float, high: float) -> float:
    return 0.5 if high == low else ((value or 0.0) - low) / (high - low)


def _middle(number: int, count: int) -> float:
    """Return the middle of one of ``count`` columns of the same width."""
    return (number + 0.5) / count * 100


def _at(share: float) -> float:
    return PAD + share * (100 - 2 * PAD)


def _down(share: float) -> float:
    return 100 - _at(share)
