"""Where lines and points lie on the two drawings of a search; pure. The table says the same."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from experiments.models import Experiment, Trial

WIDTH, HEIGHT, PAD = 600, 220, 24


def objective(row: Experiment, trials: Sequence[Trial]) -> dict[str, Any] | None:
    """Return a point per trial, and the line of the best so far."""
    told = [(one.number, one.value) for one in trials if one.value is not None]
    if not told:
        return None
    values = [value for _number, value in told]
    low, high = min(values), max(values)
    last = max(number for number, _value in told)

    def at(number: int, value: float) -> tuple[float, float]:
        return _x((number - 1) / max(1, last - 1)), _y(_share(value, low, high))

    best, line, pick = values[0], [], max if row.maximizes else min
    for number, value in told:
        best = pick(best, value)
        x, y = at(number, best)
        line.append(f"{x:.1f},{y:.1f}")
    points = [at(*one) for one in told]
    return {"points": points, "line": " ".join(line), "low": low, "high": high}


def parallel(row: Experiment, trials: Sequence[Trial], best: Trial | None) -> dict[str, Any] | None:
    """Return an axis per parameter and one of the objective, and a line per trial."""
    told = [one for one in trials if one.value is not None]
    if not told:
        return None
    values = [one.value for one in told if one.value is not None]
    low, high = min(values), max(values)
    count = len(row.parameters)
    axes = [
        {"x": _x(n / count), "name": name}
        for n, name in enumerate([*(one["name"] for one in row.parameters), row.metric])
    ]
    lines = []
    for one in told:
        shares = [_place(p, one.parameters[p["name"]]) for p in row.parameters]
        shares.append(_share(one.value or 0.0, low, high))
        points = " ".join(f"{_x(n / count):.1f},{_y(s):.1f}" for n, s in enumerate(shares))
        lines.append({"points": points, "is_best": best is not None and one.pk == best.pk})
    lines.sort(key=lambda line: bool(line["is_best"]))  # the best is drawn last, on top
    return {"axes": axes, "lines": lines}


def _place(one: Mapping[str, Any], value: Any) -> float:
    if one["type"] == "categorical":
        return _share(one["values"].index(value), 0, len(one["values"]) - 1)
    if one.get("log"):
        return _share(math.log(value), math.log(one["min"]), math.log(one["max"]))
    return _share(value, one["min"], one["max"])


def _share(value: float, low: float, high: float) -> float:
    return 0.5 if high == low else (value - low) / (high - low)


def _x(share: float) -> float:
    return PAD + share * (WIDTH - 2 * PAD)


def _y(share: float) -> float:
    return HEIGHT - PAD - share * (HEIGHT - 2 * PAD)
