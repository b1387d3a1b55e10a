"""The tree of queues as ``queues.sharing`` reads it, and what work of a project is to it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property
from hashlib import sha256
from typing import TYPE_CHECKING, Any

from projects.models import Project
from queues.choices import Purpose
from queues.effect import Tree
from queues.models import Guarantee, Priority, Queue
from queues.sharing import NO_SHARE, ROOT, Part, Share
from quotas.choices import GPUS
from quotas.models import Limit

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from clusters.models import Cluster

# Work that has no purpose of its own (a load of data) goes as training does.
_OTHERS = Purpose.TRAIN.value


OF_EACH: Mapping[str, Any] = {"each": True, "resource": GPUS}  # the limit that is said here

Where = tuple[str, str]  # the key of a cluster, the name of a kind of GPU


@dataclass(frozen=True)
class Entry:
    """One part of the tree with all that is laid down about it, on every cluster."""

    key: str
    name: str
    slug: str = ""  # of a project; '': an organisation
    parent: str = ROOT
    weight: Decimal = Decimal(1)
    build_exceeds: bool = False
    longest: Mapping[str, int] = field(default_factory=dict)  # purpose → minutes at most
    each_gpus: int | None = None  # that one person may hold in a project; None: no limit
    shares: Mapping[Where, Share] = field(default_factory=dict)

    @property
    def is_project(self) -> bool:
        return bool(self.slug)

    def share(self, where: Where) -> Share:
        return self.shares.get(where, NO_SHARE)


def entries() -> dict[str, Entry]:
    """Return the whole tree by the keys of its parts; four queries.

    Every project is in it, but for those that are archived and have nothing laid down.
    """
    shares: dict[int, dict[Where, Share]] = defaultdict(dict)
    columns = ("queue_id", "cluster__key", "flavor__name", "guaranteed", "most", "lends")
    for pk, key, name, *numbers in Guarantee.objects.order_by("pk").values_list(*columns):
        shares[pk][key, name] = Share(*numbers)
    queues = list(Queue.objects.select_related("project", "parent__project"))
    own = {queue.project_id: queue for queue in queues if queue.project_id}
    each = dict(Limit.objects.filter(**OF_EACH).values_list("project_id", "amount"))
    found = {
        queue.key: Entry(
            key=queue.key,
            name=queue.name,
            parent=queue.parent.key if queue.parent else ROOT,
            weight=queue.weight,
            build_exceeds=queue.build_exceeds,
            longest=queue.longest,
            shares=shares.get(queue.pk, {}),
        )
        for queue in queues
        if not queue.project_id
    }
    for project in Project.objects.filter(deleted_at__isnull=True).order_by("name", "pk"):
        queue = own.get(project.pk)
        if project.archived_at and queue is None:
            continue
        found[str(project.uid)] = Entry(
            key=str(project.uid),
            name=project.name,
            slug=project.slug,
            parent=queue.parent.key if queue and queue.parent else ROOT,
            weight=queue.weight if queue else Decimal(1),
            build_exceeds=queue.build_exceeds if queue else False,
            longest=queue.longest if queue else {},
            each_gpus=each.get(project.pk),
            shares=shares.get(queue.pk, {}) if queue else {},
        )
    return found


def tree_on(cluster_key: str, parts: Iterable[Entry]) -> Tree:
    """Return what of the tree matters on one cluster, as ``queues.effect`` reads it."""
    known = list(parts)
    return Tree(
        parts=tuple(
            Part(
                key=entry.key,
                parent=entry.parent,
                weight=float(entry.weight),
                shares={kind: s for (key, kind), s in entry.shares.items() if key == cluster_key},
            )
            for entry in known
        ),
        building_exceeds=frozenset(entry.key for entry in known if entry.build_exceeds),
    )


def in_order(parts: Mapping[str, Entry]) -> list[tuple[Entry, int]]:
    """Return parts as a tree is read, each with how deep it stands; organisations first."""
    below: dict[str, list[Entry]] = defaultdict(list)
    for entry in parts.values():
        below[entry.parent if entry.parent in parts else ROOT].append(entry)
    found: list[tuple[Entry, int]] = []

    def walk(key: str, depth: int) -> None:
        for entry in sorted(below[key], key=lambda e: (e.is_project, e.name.casefold(), e.key)):
            found.append((entry, depth))
            walk(entry.key, depth + 1)

    walk(ROOT, 0)
    return found


def revision_of(tree: Mapping[str, Entry]) -> str:
    """Return what differs when anything in the tree does."""
    said = [
        (
            *(e.key, e.name, e.parent, str(e.weight), e.build_exceeds, e.each_gpus),
            *(sorted(e.longest.items()), sorted(e.shares.items())),
        )
        for e in sorted(tree.values(), key=lambda one: one.key)
    ]
    return sha256(repr(said).encode()).hexdigest()[:16]


@dataclass(frozen=True)
class Rules:
    """How work is let in: what its purpose, its priority and its project's queue say."""

    priority: int
    exceeds: bool
    reclaimable: bool


def priority_of(
    purpose: str, name: str, known: Iterable[Priority] | None = None
) -> Priority | None:
    """Return the priority of work; one that is gone is the purpose's own."""
    rows = list(Priority.objects.all() if known is None else known)
    by_name = {row.name: row for row in rows}
    by_purpose = {row.purpose: row for row in rows if row.purpose}
    return by_name.get(name) or by_purpose.get(purpose) or by_purpose.get(_OTHERS)


NO_RULES = Rules(priority=0, exceeds=True, reclaimable=True)  # of what asks for no GPU


class Look:
    """Queues, what they have on a cluster, and priorities, as they are now; three queries."""

    def __init__(self, cluster: Cluster) -> None:
        queues = Queue.objects.filter(project__deleted_at__isnull=True)  # or none at all
        self.queues = list(queues.select_related("project", "parent__project"))
        self.shares: dict[int, dict[str, Share]] = {}  # by queue and kind
        for row in Guarantee.objects.filter(cluster=cluster).select_related("flavor"):
            share = Share(row.guaranteed, row.most, row.lends)
            self.shares.setdefault(row.queue_id, {})[row.flavor.name] = share
        self.priorities = list(Priority.objects.all())

    def parts(self) -> list[Part]:
        """Return the tree with what its parts have.

        A project without a row is not among them: ``sharing.Pool`` knows it as a part of weight 1.
        """
        return [
            Part(
                key=queue.key,
                parent=queue.parent.key if queue.parent else ROOT,
                weight=float(queue.weight),
                shares=self.shares.get(queue.pk, {}),
            )
            for queue in self.queues
        ]

    def rules(self, project_uid: str, purpose: str, priority: str) -> Rules:
        """Return the rules of work of a project (A1).

        A priority that is gone is the purpose's own.
        """
        chosen = priority_of(purpose, priority, self.priorities)
        stays = self.stays(project_uid, purpose)
        return Rules(chosen.value if chosen else 0, exceeds=not stays, reclaimable=not stays)

    def stays(self, project_uid: str, purpose: str) -> bool:
        """Whether work stays within what is guaranteed to its project, and is never asked for.

        So does what people sit in front of; where nothing is guaranteed it borrows as all does.
        """
        if purpose != Purpose.BUILD or project_uid not in self._own:
            return False
        queue = self._own[project_uid]
        guaranteed = any(one.guaranteed for one in self.shares.get(queue.pk, {}).values())
        return guaranteed and not queue.build_exceeds

    @cached_property
    def _own(self) -> dict[str, Queue]:
        return {str(queue.project.uid): queue for queue in self.queues if queue.project}
