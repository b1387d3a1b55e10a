"""Who uses a volume now. Apps above register a question; a volume in use is not removed."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from common.hooks import Hook

if TYPE_CHECKING:
    from volumes.models import Volume


@dataclass(frozen=True)
class Holder:
    """Something that keeps the volume: ``who`` is a person's name, ``url`` its page.

    ``mounted`` False: it does not see the files now, but needs them again (a home of a stopped
    workspace). Such a volume is not removed, but may be renamed or restored meanwhile.
    """

    kind: str
    uid: str
    name: str
    url: str = ""
    who: str = ""
    mounted: bool = True


Question = Callable[["Volume"], Sequence[Holder]]
Counts = Callable[[Collection[UUID]], Mapping[UUID, int]]  # of volumes' uids; for lists

_questions: Hook[[Volume], Sequence[Holder]] = Hook()
_yielding: Hook[[Volume], Sequence[Holder]] = Hook()
_counts: Hook[[Collection[UUID]], Mapping[UUID, int]] = Hook()


def register(question: Question, *, counts: Counts | None = None, yields: bool = False) -> None:
    """``question`` names the holders of one volume, ``counts`` numbers those of many at once.

    ``yields``: they end by themselves when the volume is to go, so they stand in nobody's way;
    only the engine waits until they are gone.
    """
    (_yielding if yields else _questions).register(question)
    if counts is not None:
        _counts.register(counts)


def holders_of(volume: Volume) -> list[Holder]:
    """Return what has it mounted now."""
    return [holder for found in _questions(volume) for holder in found if holder.mounted]


def in_use(volume: Volume) -> bool:
    """Whether anything keeps it, mounted now or not."""
    return any(_questions(volume)) or any(_yielding(volume))


def counts_of(uids: Collection[UUID]) -> dict[UUID, int]:
    """Return how many hold each of ``uids``: one question per app, whatever their number."""
    found: dict[UUID, int] = {}
    for counts in _counts(uids):
        for uid, number in counts.items():
            found[uid] = found.get(uid, 0) + number
    return found
