"""Who uses a volume now; apps above register a question. A volume in use is not removed."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from volumes.models import Volume

Question = Callable[["Volume"], bool]

_questions: list[Question] = []


def register(question: Question) -> None:
    if question not in _questions:
        _questions.append(question)


def in_use(volume: Volume) -> bool:
    return any(question(volume) for question in _questions)
