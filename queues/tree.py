"""The tree of queues as ``queues.sharing`` reads it, and what work of a project is to it."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

from queues.choices import Purpose
from queues.models import Guarantee, Priority, Queue
from queues.sharing import ROOT, Part, Share

if TYPE_CHECKING:
    from collections.abc import Iterable

    from clusters.models import Cluster

# Work that has no purpose of its own (a load of data) goes as training does.
_OTHERS = Purpose.TRAIN.value


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
        queues = Queue.objects.filter(project__deleted_at__isnull=True)
        self._queues = list(queues.select_related("project", "parent__project"))
        self._shares: dict[int, dict[str, Share]] = defaultdict(dict)
        for row in Guarantee.objects.filter(cluster=cluster).select_related("flavor"):
            share = Share(row.guaranteed, row.most, row.lends)
            self._shares[row.queue_id][row.flavor.name] = share
        self._priorities = list(Priority.objects.all())

    def parts(self) -> list[Part]:
        """Return the tree with what its parts have.

        A project without a row is not among them: ``sharing.Pool`` knows it as a part of weight 1.
        """
        return [
            Part(
                key=queue.key,
                parent=queue.parent.key if queue.parent else ROOT,
                weight=float(queue.weight),
                shares=self._shares.get(queue.pk, {}),
            )
            for queue in self._queues
        ]

    def rules(self, project_uid: str, purpose: str, priority: str) -> Rules:
        """Return the rules of work of a project (A1); a priority that is gone is the purpose's own.

        What people sit in front of stays within what is guaranteed to their project, and is never
        asked for; where nothing is guaranteed it borrows as everything does.
        """
        chosen = priority_of(purpose, priority, self._priorities)
        own = (q for q in self._queues if q.project and str(q.project.uid) == project_uid)
        queue = next(own, None)
        stays = purpose == Purpose.BUILD and queue is not None and not queue.build_exceeds
        if stays and queue is not None:
            stays = any(share.guaranteed for share in self._shares.get(queue.pk, {}).values())
        return Rules(
            priority=chosen.value if chosen else 0, exceeds=not stays, reclaimable=not stays
        )
