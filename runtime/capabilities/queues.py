"""How a cluster is shared, where the cluster itself keeps the line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Protocol, runtime_checkable


@dataclass(frozen=True)
class QueueShare:
    """What a part of the tree has of one kind of device."""

    guaranteed: int = 0
    most: int | None = None  # guaranteed and borrowed together; None: no ceiling
    lends: int | None = None  # of what is guaranteed and not used; None: all of it


@dataclass(frozen=True)
class QueuePart:
    """An organisation, or a project: that one has a namespace."""

    key: str
    name: str
    parent: str = ""  # key; "": the root, or one that is not among the parts
    namespace: str = ""
    weight: Decimal = Decimal(1)
    shares: Mapping[str, QueueShare] = field(default_factory=dict)  # by kind of device


@dataclass(frozen=True)
class QueueKind:
    """The devices of one kind on nodes with the same labels, as far as they can be given out.

    A kind on nodes whose labels differ is several of these. ``beside``: what those nodes have
    besides, cpu (milli), memory (MiB) and the rest counted; each device brings its part of it.
    """

    name: str
    resource: str
    labels: Mapping[str, str]
    devices: int
    variant: str = ""  # tells those of one kind apart
    levels: tuple[str, ...] = ()  # labels that say what stands together, the widest first
    open: bool = True  # work without devices may run on some of its nodes too
    beside: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class QueueTree:
    """How one cluster is shared. ``plain``: what nodes without devices have, as ``beside``.

    Where a kind has levels, all of them and the plain nodes have some.
    """

    parts: tuple[QueuePart, ...] = ()
    kinds: tuple[QueueKind, ...] = ()  # the first is tried first
    plain: Mapping[str, int] = field(default_factory=dict)
    plain_levels: tuple[str, ...] = ()
    priorities: Mapping[str, int] = field(default_factory=dict)  # name → value


@runtime_checkable
class SupportsQueues(Protocol):
    """A cluster whose queues Berth writes. Every verb may be repeated.

    Denied where the part of the cluster that lets work in is not there or does not answer.
    """

    def ensure_queues(self, tree: QueueTree) -> tuple[str, ...]:
        """Make them as they should be; return what had to be written or removed (``Kind/name``).

        What shrinks is written before what grows, so that no more is promised on the way.
        """

    def remove_queues(self) -> None:
        """Remove all that ``ensure_queues`` made. NotYet while work still stands in them."""

    def waiting_in(self, namespace: str) -> tuple[str, ...]:
        """Return the names of what waits in the queue of a namespace, in the order of its turns.

        As far as the cluster tells it: who is not among them has an unknown place.
        """


@runtime_checkable
class SupportsStanding(Protocol):
    """Where the cluster itself keeps the line, and what was said first of who stands in it."""

    def stand(self, uid: str, *, priority: str, waits: bool) -> bool:
        """Let a workload stand in its line as is said now; nothing that runs is ended by it.

        ``waits``: it is not let in until told otherwise; what was let in goes on. False: it does
        not stand in the line yet, ask again. Missing is success.
        """
