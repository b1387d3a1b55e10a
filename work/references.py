"""What work holds of volumes, credentials and devices; what wakes what waits for it."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.db.models import Count, F, Q

from clusters import device_use
from common.clock import now
from common.hooks import Hook
from credentials import references as keys
from hubapi.selectors import idle_states
from metrics import selectors as metrics
from runtime.hints import hint_uids
from runtime.protocol import Desired, Phase
from volumes import references as volumes
from work import kinds, needs
from work.models import Workload, WorkloadVolume

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from uuid import UUID

    from django.db.models import QuerySet

    from credentials.models import Credential
    from volumes.models import Volume

_NAMED = 20
_HOUR = timedelta(hours=1)
_ENDED = (Phase.STOPPED, Phase.FAILED)

# What sees volumes otherwise than by an attachment; (uid, number) of some volumes.
counted: Hook[[Collection[UUID]], QuerySet[Any, tuple[Any, ...]]] = Hook()


def connect() -> None:
    volumes.register(_uses, counts=_counts)
    keys.register(_keeps)
    needs.changed.register(_wake)
    device_use.about.register(_about)


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


def _about(word: str, uids: Collection[UUID]) -> Mapping[UUID, device_use.Told]:
    """Tell operators whose they are and how their GPUs are used; what was not seen is None."""
    kind = next((one for one in kinds.kinds() if one.word == word), None)
    if kind is None:
        return {}
    rows = kind.model.objects.filter(uid__in=uids).select_related("owner", "project")
    latest = metrics.latest(uids)
    means = metrics.means(uids, now() - _HOUR, "gpu_utilisation")
    idle = idle_states(list(uids))
    return {
        row.uid: device_use.Told(
            name=row.name,
            url=row.get_absolute_url(),
            owner=row.owner.label,
            project=row.project.name,
            utilisation=latest[row.uid].gpu_utilisation if row.uid in latest else None,
            utilisation_hour=means.get(row.uid),
            idle_words=idle[row.uid].words if idle[row.uid].known else "",
            idle_since=idle[row.uid].since,
        )
        for row in rows
    }
