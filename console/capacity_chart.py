"""A kind's days as columns of a drawing: held, waited for on top of it, and what there was."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from typing import TYPE_CHECKING

from common.ui.components import BAR, HEIGHT, LINE, STEP, column_left, column_scale, limit_mark

__all__ = ["HEIGHT", "Chart", "Column", "chart"]

if TYPE_CHECKING:
    from usage.capacity import Figures, Kind


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
    mark: int = 2 * LINE  # height of the mark of what there was


def chart(kind: Kind) -> Chart:
    """Draw ``kind`` with its highest day, or what there was, at the upper edge."""
    days = [day.figures for day in kind.days]
    top = max([max(f.supply, f.requested) for f in days], default=0) or 1.0
    unit = column_scale(top)
    columns = []
    for number, day in enumerate(kind.days):
        held = round(day.figures.attached * unit)
        waiting = round(day.figures.waiting * unit)
        columns.append(
            Column(
                day=day.day,
                figures=day.figures,
                x=column_left(number),
                held=HEIGHT - held,
                held_height=held,
                waiting=HEIGHT - held - waiting,
                waiting_height=waiting,
                supply=limit_mark(day.figures.supply, unit),
            )
        )
    return Chart(columns, max(1, len(columns)) * STEP, top)
