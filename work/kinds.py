"""The kinds of work that there are: what each says of itself, and nothing that is common to all."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from runtime.protocol import Desired, Phase
from work.choices import StopReason
from work.fields import Table, Text

if TYPE_CHECKING:
    from django.db.models import TextChoices

    from clusters.models import Cluster
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
    # Raises Invalid where a row can't run on a cluster as it is.
    check_place: Callable[[Cluster, Any], None] | None = None
    work_class: Callable[[Any], str] | None = None
    replicas: Callable[[Any], int] | None = None  # None: one; sizes are those of each
    counts_as: str = ""  # the limit of which each takes one
    # Columns of its own as a new launch finds them.
    of_a_launch: Mapping[str, Any] = field(default_factory=dict)
    # The words of its model's ``stop_reason``, and the one for a stop that its owner asks for.
    stop_reasons: type[TextChoices] = StopReason
    asked: str = StopReason.USER.value
    counted: Callable[[int], str] | None = None  # so many of it, in words
    # Attachments that it takes; each a field of the table.
    attachments: tuple[str, ...] = ("volumes", "credentials", "needs")
    once: bool = False  # it runs to its end; started again it is a new launch of the same row

    def class_of(self, row: Any) -> str:
        return self.work_class(row) if self.work_class else self.word

    def replicas_of(self, row: Any) -> int:
        return self.replicas(row) if self.replicas else 1

    def is_over(self, row: Any) -> bool:
        """Whether it ran to its end: a stop would change nothing that runs."""
        return self.once and row.desired == Desired.RUNNING and not row.is_on_its_way

    def has_succeeded(self, row: Any) -> bool:
        return self.is_over(row) and row.phase == Phase.STOPPED

    @property
    def own(self) -> Table:
        """The fields that are columns of the row: all but what is attached."""
        return self.table.but(*self.attachments)

    def count_words(self, number: int) -> str:
        return self.counted(number) if self.counted else f"{number} {self.many}"


_kinds: dict[str, Kind] = {}


def register(kind: Kind) -> None:
    _kinds[kind.word] = kind


def unregister(word: str) -> None:
    """Forget a kind; for tests that have one of their own."""
    del _kinds[word]


def kind_of(word: str) -> Kind:
    return _kinds[word]


def kinds() -> Iterator[Kind]:
    """Return every kind, in the order of registration."""
    return iter(tuple(_kinds.values()))


def by_document(document: str) -> Kind | None:
    return next((kind for kind in kinds() if kind.document == document), None)
