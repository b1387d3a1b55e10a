"""What workspaces hold beside what is attached to them: their homes, and nodes."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

from django.db.models import Count

from clusters import device_use
from common.clock import now
from hubapi.selectors import idle_states
from metrics import selectors as metrics
from notebooks.models import Workspace
from runtime.protocol import Desired, Phase
from volumes import references as volumes
from volumes.choices import VolumeKind
from work import references as work

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from uuid import UUID

    from django.db.models import QuerySet

    from volumes.models import Volume

_NAMED = 20
_HOUR = timedelta(hours=1)
_ENDED = (Phase.STOPPED, Phase.FAILED)


def connect() -> None:
    volumes.register(_uses)
    work.counted.register(_homes)
    device_use.register(Workspace.KIND, _about)


def _uses(volume: Volume) -> list[volumes.Holder]:
    if volume.kind != VolumeKind.HOME:
        return []
    rows = Workspace.objects.filter(home=volume, deleted_at__isnull=True)
    return [
        volumes.Holder(
            Workspace.KIND,
            str(row.uid),
            row.name,
            row.get_absolute_url(),
            row.owner.label,
            mounted=row.desired == Desired.RUNNING or row.phase not in _ENDED,
        )
        for row in rows.select_related("owner", "project").order_by("name")[:_NAMED]
    ]


def _homes(uids: Collection[UUID]) -> QuerySet[Workspace, tuple[Any, ...]]:
    rows = work.holding(Workspace).filter(home__uid__in=uids).order_by()
    return rows.values_list("home__uid").annotate(number=Count("id"))


def _about(uids: Collection[UUID]) -> Mapping[UUID, device_use.Told]:
    """Tell operators whose they are and how their GPUs are used; what was not seen is None."""
    rows = Workspace.objects.filter(uid__in=uids).select_related("owner", "project")
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
