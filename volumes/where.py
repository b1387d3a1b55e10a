"""Where a volume lies: its claim, for a driver that is asked by uid, or the portal's own disk."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.conf import settings

from clusters.models import Cluster
from clusters.where import image_cluster, names_on, namespace_of
from common import disk
from volumes.models import Volume

if TYPE_CHECKING:
    from collections.abc import Mapping


def lies_here(uid: str) -> bool:
    """Whether what is written into the volume takes room on the portal's own disk."""
    keys = Volume.objects.filter(uid=uid).values("cluster_key")
    elsewhere = Cluster.objects.running_images().filter(key__in=keys)
    return not elsewhere.exists() and disk.holds(settings.BERTH_VOLUMES_DIR)


def largest_here(count: int = 5) -> list[Volume]:
    """Return what holds most of the portal's own disk, as last measured; the largest first."""
    if not disk.holds(settings.BERTH_VOLUMES_DIR):
        return []
    here = Cluster.objects.one_machine().values("key")
    rows = Volume.objects.filter(deleted_at__isnull=True, cluster_key__in=here, used_bytes__gt=0)
    return list(rows.select_related("project", "owner").order_by("-used_bytes")[:count])


def lookup(uid: str) -> Mapping[str, str] | None:
    row = Volume.objects.select_related("project").filter(uid=uid).first()
    if row is None:
        return None
    cluster = image_cluster(row.cluster_key)
    if cluster is None:
        return None
    return {"namespace": namespace_of(row.project, cluster), "name": names_on(cluster).claim(uid)}
