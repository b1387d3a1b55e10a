"""Where a workspace lies on its cluster: namespace, image, and what a pod is called."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.db.models.fields.json import KT

from clusters import where
from clusters.demand import HELD
from clusters.options import ClusterOptions
from images.services import pinned
from notebooks.models import Workspace
from runtime.models import ObservedWorkload

if TYPE_CHECKING:
    from clusters.models import Cluster


def cluster_of(row: Workspace) -> Cluster | None:
    """Return the cluster that runs images, None for one machine."""
    return where.image_cluster(row.cluster_key)


def image_of(row: Workspace, options: ClusterOptions) -> str:
    """Return what is pulled: pinned by its digest where a launch found one."""
    return pinned(row.image, row.image_digest) if row.image else options.default_image


def objects_of(row: Workspace, cluster: Cluster) -> dict[str, str]:
    """Return namespace and name of its objects, and the name that its pod has before it runs."""
    found = where.objects_of(row.short_id, str(row.uid), row.project, cluster)
    return {**found, "pod": where.names_on(cluster).pod(found["name"])}


def kubectl_of(row: Workspace) -> dict[str, Any] | None:
    """Return what a person needs to reach it with kubectl; None on one machine."""
    cluster = cluster_of(row)
    return None if cluster is None else objects_of(row, cluster)


def node_of(row: Workspace) -> str | None:
    """Return the node on which it was last seen; None while it has none, and on one machine."""
    if row.phase not in HELD:
        return None
    seen = ObservedWorkload.objects.filter(cluster_key=row.cluster_key, uid=row.uid)
    return seen.values_list(KT("data__detail__node"), flat=True).first() or None
