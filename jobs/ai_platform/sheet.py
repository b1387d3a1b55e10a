"""The sheet on which each field of a ``trainingInput`` gets its line, and what is made of all."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from jobs.ai_platform import hyperparameters
from jobs.ai_platform.machines import Tables


@dataclass(frozen=True)
class Here:
    """What is known of this installation: kinds of GPU by name, whether any cluster of the project
    runs images, whether one machine takes its work, and what jobs can be told.
    """

    tables: Tables
    kinds: Mapping[str, str]
    images: bool
    machine: bool
    fields: frozenset[str]


@dataclass(frozen=True)
class Line:
    """One field as it was said, and what becomes of it."""

    field: str
    value: str
    becomes: str
    why: str
    refused: bool = False


@dataclass
class Translation:
    """``said`` is what a job is made of; ``lines`` tell each field of the file.

    ``search``: the job is the template of that search's trials.
    """

    said: dict[str, Any] = field(default_factory=dict)
    search: hyperparameters.Search | None = None
    lines: list[Line] = field(default_factory=list)

    @property
    def refused(self) -> dict[str, str]:
        return {line.field: line.why for line in self.lines if line.refused}


class Sheet:
    """The lines as they come; a field without one at the end is refused."""

    def __init__(self, asked: Mapping[str, Any]) -> None:
        self.asked = dict(asked)
        self.made = Translation()

    def get(self, path: str) -> Any:
        found: Any = self.asked
        for name in path.split("."):
            found = found.get(name) if isinstance(found, Mapping) else None
        return found

    def tell(self, path: str, becomes: str, why: str = "", *, value: str | None = None) -> None:
        shown = _shown(self.get(path)) if value is None else value
        self.made.lines.append(Line(path, shown, becomes, why))

    def refuse(self, path: str, why: str) -> None:
        self.made.lines.append(Line(path, _shown(self.get(path)), "", why, refused=True))

    def refuse_all(self, told: Mapping[str, str]) -> None:
        """Refuse each of these that was said."""
        for path, why in told.items():
            if self.get(path) not in (None, {}, []):
                self.refuse(path, why)


def _shown(value: Any) -> str:
    """Return a value as a table has it."""
    text = " ".join(value) if isinstance(value, list) else "" if value is None else str(value)
    if isinstance(value, bool):
        text = str(value).lower()
    return text if len(text) <= 120 else f"{text[:117]}…"  # noqa: PLR2004 - of a line
