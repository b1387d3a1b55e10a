"""What a test says, kept without a language: a message of the catalogue and what fills it in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from django.utils.translation import gettext

FACT_MAX = 255
# Facts that are messages of the catalogue themselves; the others fill their places too.
_MESSAGES = frozenset({"why"})


@dataclass(frozen=True)
class Sentence:
    """``text`` is English, as the catalogue knows it; ``str`` says it in the reader's language."""

    text: str
    facts: Mapping[str, str | int] = field(default_factory=dict)

    def __str__(self) -> str:
        said = gettext(self.text) if self.text else ""
        if not self.facts:
            return said
        told = dict(self.facts)
        plain = {name: value for name, value in told.items() if name not in _MESSAGES}
        for name in _MESSAGES & told.keys():
            reason = gettext(str(told[name])) if told[name] else ""
            told[name] = reason % plain if plain else reason
        return said % told

    def kept(self) -> dict[str, Any]:
        facts = {
            name: value if isinstance(value, int) else str(value)[:FACT_MAX]
            for name, value in self.facts.items()
        }
        return {"text": self.text, "facts": facts}


def sentence_of(kept: Mapping[str, Any]) -> Sentence:
    return Sentence(str(kept.get("text", "")), dict(kept.get("facts") or {}))
