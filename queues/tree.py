"""The tree of queues as ``queues.sharing`` reads it, and what work of a project is to it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from queues.choices import Purpose
from queues.models import Guarantee, Priority, Queue
from queues.sharing import ROOT, Part, Share

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clusters.models import Cluster

# Work that has no purpose of its own (a load of data) goes as training does.
_OTHERS = Purpose.TRAIN.value


def parts_of(cluster: Cluster) -> list[Part]:
    """Return the tree with what its parts have on a cluster; two queries.

    A project without a row is not among them: ``sharing.Pool`` knows it as a part of weight 1.
    """
    shares: dict[int, dict[str, Share]] = defaultdict(dict)
    for row in Guarantee.objects.filter(cluster=cluster).select_related("flavor"):
        shares[row.queue_id][row.flavor.name] = Share(row.guaranteed, row.most, row.lends)
    queues = Queue.objects.select_related("project", "parent__project")
    return [
        Part(
            key=queue.key,
            parent=queue.parent.key if queue.parent else ROOT,
            weight=float(queue.weight),
            shares=shares.get(queue.pk, {}),
        )
        for queue in queues
    ]


@dataclass(frozen=True)
class Rules:
    """How work is let in: what its purpose, its priority and its project's queue say."""

    priority: int
    exceeds: bool
    reclaimable: bool


def priority_of(purpose: str, name: str) -> Priority | None:
    """Return the priority of work; one that is gone is the purpose's own."""
    known: Mapping[str, Priority] = {row.name: row for row in Priority.objects.all()}
    by_purpose = {row.purpose: row for row in known.values() if row.purpose}
    return known.get(name) or by_purpose.get(purpose) or by_purpose.get(_OTHERS)


def rules_of(project_uid: str, purpose: str, priority: str) -> Rules:
    """Return the rules of work of a project (A1); a priority that is gone is the purpose's own.

    What people sit in front of stays within what is guaranteed to their project, and is never
    asked for; where nothing is guaranteed it borrows as everything does.
    """
    chosen = priority_of(purpose, priority)
    queue = Queue.objects.filter(project__uid=project_uid).first()
    promised = Guarantee.objects.filter(queue=queue, guaranteed__gt=0) if queue else None
    stays = purpose == Purpose.BUILD and bool(
        queue and not queue.build_exceeds and promised is not None and promised.exists()
    )
    return Rules(priority=chosen.value if chosen else 0, exceeds=not stays, reclaimable=not stays)
