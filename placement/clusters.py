"""The clusters on which work of a project may start, and the one that something is on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.conf import settings
from django.utils.translation import gettext as _

from clusters.models import Cluster
from clusters.services import ensure_local_cluster
from clusters.usable import usable_clusters
from common.errors import Conflict
from runtime.models import ONE_MACHINE

if TYPE_CHECKING:
    from projects.models import Project


def clusters_of(project: Project) -> list[Cluster]:
    """Return the clusters on which a project may start something now, this machine first."""
    hidden = set() if settings.BERTH_LOCAL_CLUSTER else {ONE_MACHINE}
    found = usable_clusters(project.uid)
    if not hidden and all(c.key != ONE_MACHINE for c in found):
        if not Cluster.objects.filter(key=ONE_MACHINE).exists():
            ensure_local_cluster()  # nothing was looked at yet
        found = usable_clusters(project.uid)  # somebody may just have made it
    return sorted(
        (c for c in found if not c.drain and c.key not in hidden), key=lambda c: c.runs_images
    )


def known_cluster(key: str) -> Cluster:
    """Return a cluster that something is on, or raise Conflict."""
    found = Cluster.objects.filter(key=key).first()
    if found is None and key == ONE_MACHINE and settings.BERTH_LOCAL_CLUSTER:
        return ensure_local_cluster()
    return require_cluster(found)


def require_cluster(cluster: Cluster | None) -> Cluster:
    if cluster is None:
        raise Conflict(_("Its cluster takes nothing new, or is gone."), code="no-cluster")
    return cluster
