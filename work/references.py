"""How many pieces of work see each volume now, of all kinds in one question."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db.models import Count, F, Q

from common.hooks import Hook
from runtime.protocol import Desired, Phase
from volumes import references as volumes
from work import kinds
from work.models import Workload, WorkloadVolume

if TYPE_CHECKING:
    from collections.abc import Collection
    from uuid import UUID

    from django.db.models import QuerySet

_ENDED = (Phase.STOPPED, Phase.FAILED)

# What sees volumes otherwise than by an attachment; (uid, number) of some volumes.
counted: Hook[[Collection[UUID]], QuerySet[Any, tuple[Any, ...]]] = Hook()


def connect() -> None:
    volumes.register(lambda _volume: (), counts=_counts)


def holding(model: type[Workload] = Workload) -> QuerySet[Any]:
    """Return those that may see their volumes now: what was stopped lets go of them.

    So does what runs to its end when it came to it; one that was started again and is not looked
    at yet has the phase of the launch before.
    """
    once = [kind.word for kind in kinds.kinds() if kind.once]
    over = Q(kind__in=once, observed_generation__gte=F("generation"))
    ended = Q(phase__in=_ENDED) & (~Q(desired=Desired.RUNNING) | over)
    return model.objects.filter(deleted_at__isnull=True).exclude(ended)


def _counts(uids: Collection[UUID]) -> dict[UUID, int]:
    rows = WorkloadVolume.objects.filter(volume__uid__in=uids, workload__in=holding())
    attached = rows.order_by().values_list("volume__uid").annotate(number=Count("id"))
    found: dict[UUID, int] = {}
    # one question for all: lists of volumes ask it for every page
    for uid, number in attached.union(*counted(uids), all=True):
        found[uid] = found.get(uid, 0) + number
    return found
