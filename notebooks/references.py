"""What workspaces hold beside what is attached to them: their homes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db.models import Count

from notebooks.models import Workspace
from runtime.protocol import Desired, Phase
from volumes import references as volumes
from volumes.choices import VolumeKind
from work import references as work

if TYPE_CHECKING:
    from collections.abc import Collection
    from uuid import UUID

    from django.db.models import QuerySet

    from volumes.models import Volume

_NAMED = 20
_ENDED = (Phase.STOPPED, Phase.FAILED)


def connect() -> None:
    volumes.register(_uses)
    work.counted.register(_homes)


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
