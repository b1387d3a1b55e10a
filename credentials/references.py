"""Where a credential is in use; apps above register a question, and what they do when it goes.

A credential that goes takes its copies along (D13): each holder is marked due, and its
reconciler gives the work secrets without it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from uuid import UUID

from common.hooks import Hook
from runtime.hints import hint_uids

if TYPE_CHECKING:
    from accounts.principal import Principal
    from credentials.models import Credential


@dataclass(frozen=True)
class Holder:
    """``kind`` and ``uid`` as the engine knows them; ``who`` is whose it is."""

    kind: str
    uid: UUID
    name: str
    url: str = ""
    who: str = ""


Question = Callable[["Credential"], list[Holder]]
Removed = Callable[["Credential", "Principal | None"], None]

_questions: Hook[[Credential], list[Holder]] = Hook()
_removed: Hook[[Credential, Principal | None], None] = Hook()


def register(question: Question) -> None:
    """``question`` lists what uses a credential now or would at its next start."""
    _questions.register(question)


def on_removed(callback: Removed) -> None:
    """``callback`` runs in the transaction of the removal, before the row goes."""
    _removed.register(callback)


def of(credential: Credential) -> list[Holder]:
    return [holder for holders in _questions(credential) for holder in holders]


def removing(credential: Credential, who: Principal | None) -> list[Holder]:
    """Tell everybody who holds it that it goes, and return who that was."""
    found = of(credential)
    _removed(credential, who)
    for kind in {holder.kind for holder in found}:
        hint_uids(kind, [holder.uid for holder in found if holder.kind == kind])
    return found
