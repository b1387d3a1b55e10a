"""What work may wait for: other work that, once it is done, stays done. Its kinds register here."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from uuid import UUID

from common.hooks import Hook

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from django.db.models import QuerySet

    from accounts.principal import Principal
    from projects.models import Project
    from work.models import Workload


@dataclass(frozen=True, kw_only=True)
class Needable:
    """``visible`` are the rows that somebody may see in a project; ``get`` returns one of them
    that may be waited for, or raises NotFound; ``missing`` the reason and the sentence of the
    first, of some uids, that is not done.
    """

    visible: Callable[[Principal, Project], QuerySet[Any]]
    get: Callable[[Principal, Project, UUID], Any]
    missing: Callable[[Collection[UUID]], tuple[str, str] | None]


_needables: dict[str, Needable] = {}

# Called with the uids of such work that ended, began or went, inside the transaction of the
# change: a callback marks rows due and nothing else.
changed: Hook[[Collection[UUID]], None] = Hook()


def register(word: str, needable: Needable) -> None:
    _needables[word] = needable


def is_needable(word: str) -> bool:
    return word in _needables


def missing(row: Workload) -> tuple[str, str] | None:
    """Return reason and sentence of the first that it needs and that is not done; None: all is."""
    wanted: dict[str, list[UUID]] = {}
    for word, uid in row.needs.values_list("needed__kind", "needed__uid"):
        wanted.setdefault(word, []).append(uid)
    found = (_needables[word].missing(uids) for word, uids in wanted.items() if word in _needables)
    return next((one for one in found if one is not None), None)


def needables() -> Iterator[Needable]:
    return iter(tuple(_needables.values()))
