"""A kind's days as columns of a drawing: held, waited for on top of it, and what there was."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from usage.capacity import Figures, Kind

HEIGHT = 1000  # the drawing's own units, downwards; whole numbers read alike in every language
STEP, BAR = 100, 78
_LINE = 12  # half of the thickness of the mark of what there was


@dataclass(frozen=True)
class Column:
    day: date
    figures: Figures
    x: int
    held: int  # tops and heights
    held_height: int
    waiting: int
    waiting_height: int
    supply: int


@dataclass(frozen=True)
class Chart:
    columns: list[Column]
    width: int
    top: float  # devices at the upper edge
    height: int = HEIGHT
    bar: int = BAR  # width of a column
    mark: int = 2 * _LINE  # height of the mark of what there was


def chart(kind: Kind) -> Chart:
    """Draw ``kind`` with its highest day, or what there was, at the upper edge."""
    days = [day.figures for day in kind.days]
    top = max([max(f.supply, f.requested) for f in days], default=0) or 1.0
    scale = (HEIGHT - 2 * _LINE) / top
    columns = []
    for number, day in enumerate(kind.days):
        held = round(day.figures.attached * scale)
        waiting = round(day.figures.waiting * scale)
        columns.append(
            Column(
                day=day.day,
                figures=day.figures,
                x=number * STEP + (STEP - BAR) // 2,
                held=HEIGHT - held,
                held_height=held,
                waiting=HEIGHT - held - waiting,
                waiting_height=waiting,
                supply=max(0, HEIGHT - round(day.figures.supply * scale) - _LINE),
            )
        )
    return Chart(columns, max(1, len(columns)) * STEP, top)
