"""Lines of figures over time, from 0 to 100 in both directions, to be stretched to their place."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime

Values = Sequence[float | None]
_STEPS = (1, 2, 5, 10)


@dataclass(frozen=True)
class Chart:
    """``lines``: paths of SVG, one for each series; ``top``: what the upper edge stands for."""

    lines: list[str]
    top: float

    @property
    def is_empty(self) -> bool:
        return not any(self.lines)


def chart(*several: Values, least: float = 0.0) -> Chart:
    """Return a line for each series, from nothing below; None breaks a line."""
    known = [value for values in several for value in values if value is not None]
    top = _round_up(max([least, *known]))
    return Chart([_path(values, top) for values in several], top)


def marks(moments: Iterable[datetime], begins: Sequence[datetime]) -> list[str]:
    """Return an upright line for each moment in the time of a chart whose points ``begins`` say."""
    whole = begins[-1] - begins[0]
    shares = ((at - begins[0]) / whole for at in moments if at >= begins[0])
    return [f"M{min(share, 1) * 100:.2f} 0V100" for share in shares]


def _path(values: Values, top: float) -> str:
    last = max(1, len(values) - 1)
    parts: list[str] = []
    is_open = False
    for number, value in enumerate(values):
        if value is None:
            is_open = False
            continue
        at = f"{number / last * 100:.2f} {100 - value / top * 100:.2f}"
        # a point alone is a line without length, which has round ends
        parts.append(f"L{at}" if is_open else f"M{at}h.001")
        is_open = True
    return "".join(parts)


def _round_up(value: float) -> float:
    """Return 1, 2 or 5 times a power of ten that is not less."""
    if value <= 0:
        return 1.0
    size = 1.0
    while size > value:
        size /= 10
    while size * 10 < value:
        size *= 10
    return next(step * size for step in _STEPS if step * size >= value * (1 - 1e-9))
