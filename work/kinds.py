"""The kinds of work that there are: what each says of itself, and nothing that is common to all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from work.fields import Table, Text

if TYPE_CHECKING:
    from projects.access import Permission


@dataclass(frozen=True, kw_only=True)
class Kind:
    """One kind of work, registered in ``AppConfig.ready`` of its app.

    ``word`` stands in addresses of the API, events, labels and topics; ``document`` is the kind
    of its YAML. ``work_class`` is the word by which pools and queues say who may use them, where
    it is not the same for every row.
    """

    word: str
    document: str
    model: type[Any]  # a child of ``work.models.Workload``
    one: Text
    many: Text
    icon: str
    table: Table
    create: Permission
    read: Permission
    manage: Permission
    # What the table can't know: raises Invalid, fills in what was not said.
    settle: Callable[[Any, Mapping[str, Any]], None] | None = None
    work_class: Callable[[Any], str] | None = None
    # Attachments that it takes; each a field of the table.
    attachments: tuple[str, ...] = ("volumes", "credentials", "needs")
    once: bool = False  # it runs to its end; started again it is a new launch of the same row

    def class_of(self, row: Any) -> str:
        return self.work_class(row) if self.work_class else self.word


_kinds: dict[str, Kind] = {}


def register(kind: Kind) -> None:
    _kinds[kind.word] = kind


def kind_of(word: str) -> Kind:
    return _kinds[word]


def kinds() -> Iterator[Kind]:
    """Return every kind, in the order of registration."""
    return iter(tuple(_kinds.values()))


def by_document(document: str) -> Kind | None:
    return next((kind for kind in kinds() if kind.document == document), None)
