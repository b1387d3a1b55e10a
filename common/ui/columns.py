"""The places of columns in a drawing that the server makes: one beside the other, from below."""

from __future__ import annotations

HEIGHT = 1000  # the drawing's own units, downwards; whole numbers read alike in every language
STEP, BAR = 100, 78
LINE = 12  # half of the thickness of the mark of a limit


def left(number: int) -> int:
    """Return where the column of this number begins."""
    return number * STEP + (STEP - BAR) // 2


def scale(top: float) -> float:
    """Return the units of one of what ``top`` is the most of, with room for a mark at the top."""
    return (HEIGHT - 2 * LINE) / (top or 1.0)


def mark(value: float, unit: float) -> int:
    """Return the upper edge of the mark of a limit."""
    return max(0, HEIGHT - round(value * unit) - LINE)
