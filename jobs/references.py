"""What jobs hold of volumes, credentials and nodes; what wakes those that wait for data."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from clusters import device_use
from common.clock import now
from credentials import references as keys
from jobs.models import Job
from loaders import waiting
from metrics import selectors as metrics
from runtime.hints import hint_uids
from runtime.protocol import Desired
from volumes import references as volumes
from work import references as work

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping
    from uuid import UUID

    from credentials.models import Credential
    from volumes.models import Volume

_NAMED = 20
_HOUR = timedelta(hours=1)


def connect() -> None:
    volumes.register(_uses)
    keys.register(_keeps)
    waiting.loads_changed.register(_wake)
    device_use.register(Job.KIND, _about)


def _uses(volume: Volume) -> list[volumes.Holder]:
    rows = work.holding(Job).filter(mounts__volume=volume).select_related("owner", "project")
    return [
        volumes.Holder(Job.KIND, str(row.uid), row.name, row.get_absolute_url(), row.owner.label)
        for row in rows.order_by("name")[:_NAMED]
    ]


def _keeps(credential: Credential) -> list[keys.Holder]:
    """Return all that have it: each is woken when the credential goes."""
    rows = Job.objects.filter(keys__credential=credential, deleted_at__isnull=True)
    return [
        keys.Holder(Job.KIND, row.uid, row.name, row.get_absolute_url(), row.owner.label)
        for row in rows.select_related("owner", "project").order_by("name")
    ]


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


def _wake(loads: Collection[UUID]) -> None:
    """Look again at what waits for loads that ended, one way or the other."""
    rows = Job.objects.filter(needs__needed__uid__in=loads, desired=Desired.RUNNING)
    hint_uids(Job.KIND, list(rows.values_list("uid", flat=True)))
