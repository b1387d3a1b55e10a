"""What apps above show on the page of a piece of work, of whatever kind."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from common.hooks import Hook

if TYPE_CHECKING:
    from accounts.principal import Principal


class Slot(StrEnum):
    """Where it stands."""

    NOTICE = "notice"  # in the card of its state
    CARD = "card"  # a card of its own, below


@dataclass(frozen=True)
class Panel:
    """A template and what it needs; ``row`` and ``project`` it has from the page."""

    template: str
    context: Mapping[str, Any] = field(default_factory=dict)


# None: there is nothing to show there.
panels: Hook[[Principal, Any, Slot], Panel | None] = Hook()  # who, row, where
