"""What jobs hold beside what is attached to them: the home that some run in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db.models import Count

from jobs.models import Job
from volumes import references as volumes
from volumes.choices import VolumeKind
from work import references as work

if TYPE_CHECKING:
    from collections.abc import Collection
    from uuid import UUID

    from django.db.models import QuerySet

    from volumes.models import Volume

_NAMED = 20


def connect() -> None:
    volumes.register(_uses)
    work.counted.register(_homes)


def _uses(volume: Volume) -> list[volumes.Holder]:
    if volume.kind != VolumeKind.HOME:
        return []
    rows = work.holding(Job).filter(home=volume, smoke_of=None)
    return [
        volumes.Holder(Job.KIND, str(row.uid), row.name, row.get_absolute_url(), row.owner.label)
        for row in rows.select_related("owner", "project").order_by("name")[:_NAMED]
    ]


def _homes(uids: Collection[UUID]) -> QuerySet[Job, tuple[Any, ...]]:
    rows = work.holding(Job).filter(home__uid__in=uids).order_by()
    return rows.values_list("home__uid").annotate(number=Count("id"))
