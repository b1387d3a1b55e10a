"""Which pods are whose: told to ``projects``, for the rights of kubeconfigs.

A StatefulSet's pod is known by name before it runs, so a right may name it from the start.
Only the owner's: a visitor of a shared workspace uses the browser.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING
from uuid import UUID

from clusters.where import image_cluster, names_on
from notebooks.models import Workspace
from runtime.protocol import Desired

if TYPE_CHECKING:
    from projects.models import Project


def own_pods(
    project: Project, cluster_key: str, users: Collection[UUID]
) -> Mapping[UUID, Collection[str]]:
    cluster = image_cluster(cluster_key)
    if cluster is None:
        return {}
    names = names_on(cluster)
    rows = Workspace.objects.filter(
        project=project,
        cluster_key=cluster_key,
        owner__uid__in=list(users),
        deleted_at__isnull=True,
    ).exclude(desired=Desired.ABSENT)
    found: dict[UUID, list[str]] = defaultdict(list)
    for owner, short_id, uid in rows.values_list("owner__uid", "short_id", "uid"):
        found[owner].append(names.pod(names.workload(short_id, str(uid))))
    return found
