"""What is told of jobs on a node."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from clusters import device_use
from common.clock import now
from jobs.models import Job
from metrics import selectors as metrics

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from uuid import UUID


_NAMED = 20
_HOUR = timedelta(hours=1)


def connect() -> None:
    device_use.register(Job.KIND, _about)


def _about(uids: Collection[UUID]) -> Mapping[UUID, device_use.Told]:
    rows = Job.objects.filter(uid__in=uids).select_related("owner", "project")
    latest = metrics.latest(uids)
    means = metrics.means(uids, now() - _HOUR, "gpu_utilisation")
    return {
        row.uid: device_use.Told(
            name=row.name,
            url=row.get_absolute_url(),
            owner=row.owner.label,
            project=row.project.name,
            utilisation=latest[row.uid].gpu_utilisation if row.uid in latest else None,
            utilisation_hour=means.get(row.uid),
        )
        for row in rows
    }
