"""What work holds of volumes and credentials; what wakes work that waits for other work."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db.models import Count, F, Q

from common.hooks import Hook
from credentials import references as keys
from runtime.hints import hint_uids
from runtime.protocol import Desired, Phase
from volumes import references as volumes
from work import kinds, needs
from work.models import Workload, WorkloadVolume

if TYPE_CHECKING:
    from collections.abc import Collection
    from uuid import UUID

    from django.db.models import QuerySet

    from credentials.models import Credential
    from volumes.models import Volume

_NAMED = 20
_ENDED = (Phase.STOPPED, Phase.FAILED)

# What sees volumes otherwise than by an attachment; (uid, number) of some volumes.
counted: Hook[[Collection[UUID]], QuerySet[Any, tuple[Any, ...]]] = Hook()


def connect() -> None:
    volumes.register(_uses, counts=_counts)
    keys.register(_keeps)
    needs.changed.register(_wake)


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


def _uses(volume: Volume) -> list[volumes.Holder]:
    """Return who sees it now, of the kinds that are told of by their registration."""
    return [
        volumes.Holder(kind.word, str(row.uid), row.name, row.get_absolute_url(), row.owner.label)
        for kind in kinds.kinds()
        for row in holding(kind.model)
        .filter(mounts__volume=volume)
        .select_related("owner", "project")
        .order_by("name")[:_NAMED]
    ]


def _keeps(credential: Credential) -> list[keys.Holder]:
    """Return all that have it: each is woken when the credential goes."""
    return [
        keys.Holder(kind.word, row.uid, row.name, row.get_absolute_url(), row.owner.label)
        for kind in kinds.kinds()
        for row in kind.model.objects.filter(keys__credential=credential, deleted_at__isnull=True)
        .select_related("owner", "project")
        .order_by("name")
    ]


def _wake(uids: Collection[UUID]) -> None:
    """Look again at what waits for work that ended, one way or the other."""
    rows = Workload.objects.filter(needs__needed__uid__in=uids, desired=Desired.RUNNING)
    found = list(rows.values_list("kind", "uid").distinct())
    for word in {word for word, _uid in found}:
        hint_uids(word, [uid for kind, uid in found if kind == word])
