"""A program of ``dataplane`` beside a volume: a process of this machine, or a cluster's image."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clusters.options import options_of
from clusters.where import image_cluster, namespace_of
from queues.kueue import labels_of
from runtime.protocol import InvalidSpec
from runtime.spec import WorkloadSpec
from volumes.topology import placement_beside

if TYPE_CHECKING:
    from collections.abc import Mapping

    from accounts.models import User
    from queues.choices import Purpose

ENVIRONMENT = "dataplane"


def data_program_spec(
    row: Any,
    *,
    owner: User,
    name: str,
    purpose: Purpose,
    lacking: str,
    priority: str = "",
    on_cluster: Mapping[str, Any] | None = None,
    **own: Any,
) -> WorkloadSpec:
    """Return what is run for ``row``, which has a volume, a project and a cluster.

    ``lacking``: what is said where the cluster has no image for it. ``on_cluster``: what a process
    of this machine has not.
    """
    common: dict[str, Any] = {
        "uid": str(row.uid),
        "kind": row.KIND,
        "name": name,
        "launch": row.launch,
        "generation": row.generation,
        "project": str(row.project.uid),
        "owner": str(owner.uid),
        "environment": ENVIRONMENT,
        "labels": {"project": row.project.slug, "owner": owner.username},
        **own,
    }
    cluster = image_cluster(row.cluster_key)
    if cluster is None:
        return WorkloadSpec(**common)
    image = options_of(cluster.options).data_image
    if not image:
        raise InvalidSpec(lacking)
    return WorkloadSpec(
        **common,
        namespace=namespace_of(row.project, cluster),
        image=image,
        **labels_of(cluster, purpose, priority),
        placement=placement_beside(row.cluster_key, row.volume, row.KIND, row.project),
        **(on_cluster or {}),
    )
