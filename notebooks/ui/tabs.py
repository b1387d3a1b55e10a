"""Tabs of a workspace's page that other apps bring."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from accounts.principal import Principal
    from notebooks.models import Workspace


@dataclass(frozen=True)
class Tab:
    """``route`` is the full name of a URL with the arguments project and workspace."""

    key: str
    route: str
    label: str


More = Callable[["Principal", "Workspace"], Sequence[Tab]]
_more: list[More] = []


def register(more: More) -> None:
    """Called once by an app above; ``more`` says what it brings for one person and workspace."""
    if more not in _more:
        _more.append(more)


def more_of(who: Principal, row: Workspace) -> list[Tab]:
    return [tab for more in _more for tab in more(who, row)]
