"""What bars of the tree show: parts of a width of 100, drawn as SVG."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from queues.selectors import Column, Use

WIDTH = 100.0


@dataclass(frozen=True)
class Piece:
    """One colour of a bar, from the left."""

    css: str
    x: float
    width: float


@dataclass(frozen=True)
class Bar:
    """``edge``: where what there is ends; ``promised``: how far the promises reach, 0: no line."""

    pieces: tuple[Piece, ...]
    edge: float
    promised: float = 0.0
    is_over: bool = False


def of_column(column: Column) -> Bar:
    """Return the bar of one kind: used, waited for, and promised, which may go over the edge."""
    use, exists = column.whole, column.exists
    full = max(exists, column.promise.promised, use.held + use.waiting, 1)
    return Bar(
        pieces=_pieces(use, full),
        edge=_part(exists, full),
        promised=_part(column.promise.promised, full),
        is_over=column.promise.is_over,
    )


def of_part(use: Use, exists: int) -> Bar:
    """Return the bar of one part, as wide as the whole kind is."""
    guaranteed = use.share.guaranteed
    full = max(exists, guaranteed, use.held + use.waiting, 1)
    return Bar(
        pieces=_pieces(use, full),
        edge=_part(exists, full),
        promised=_part(guaranteed, full),
        is_over=guaranteed > exists,
    )


def _pieces(use: Use, full: int) -> tuple[Piece, ...]:
    found: list[Piece] = []
    x = 0.0
    for css, number in (
        ("within", use.within),
        ("borrowed", use.borrowed),
        ("waiting", use.waiting),
    ):
        if number > 0:
            width = _part(number, full)
            found.append(Piece(f"share-{css}", x, width))
            x += width
    return tuple(found)


def _part(number: int, full: int) -> float:
    return round(min(number, full) * WIDTH / full, 2)
