"""Tabs of an object's page that other apps bring."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

Who = TypeVar("Who")
Row = TypeVar("Row")


@dataclass(frozen=True)
class Tab:
    """``route`` is the full name of a URL; its arguments are the project and the object."""

    key: str
    route: str
    label: str


class Tabs(Generic[Who, Row]):
    """What apps above have registered for the pages of one kind of row."""

    def __init__(self) -> None:
        self._more: list[Callable[[Who, Row], Sequence[Tab]]] = []

    def register(self, more: Callable[[Who, Row], Sequence[Tab]]) -> None:
        """Called once by an app above; ``more`` says what it brings for one person and row."""
        if more not in self._more:
            self._more.append(more)

    def of(self, who: Who, row: Row) -> list[Tab]:
        return [tab for more in self._more for tab in more(who, row)]
