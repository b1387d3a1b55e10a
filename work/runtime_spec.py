"""What is run for any kind of work: whose it is, what it sees, where it may go."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from django.conf import settings

from clusters.where import namespace_of
from credentials.embedding import Embedded, embed
from credentials.selectors import credentials_for_launch
from images.services import architectures_for
from placement.decision import Request
from placement.fleet import engine_decision
from queues.kueue import labels_of
from runtime.pods import with_secrets
from runtime.spec import Mount
from volumes.backing import mount_of
from volumes.topology import labels_near
from work import kinds

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clusters.models import Cluster
    from work.models import Workload


def keys_of(row: Workload) -> Embedded:
    """Return what still exists and its owner may still use; decided anew at each start."""
    uids = [uid for _pk, uid in row.keys_read]
    return embed(credentials_for_launch(row.owner, row.project, uids))


def mounts_of(row: Workload) -> tuple[Mount, ...]:
    """Return the volumes that are attached to it."""
    seen = row.mounts.select_related("volume__owner")
    return tuple(mount_of(mount.volume, read_only=mount.read_only) for mount in seen)


def common_fields(row: Any, keys: Embedded) -> dict[str, Any]:
    """Return the fields of its ``WorkloadSpec`` that no kind says otherwise."""
    return {
        "uid": str(row.uid),
        "kind": row.KIND,
        "name": row.short_id,
        "launch": row.launch,
        "generation": row.generation,
        "project": str(row.project.uid),
        "owner": str(row.owner.uid),
        "environment": row.environment,
        "resources": row.resources,
        "mounts": mounts_of(row),
        "secret_files": keys.secret_files,
        "placed_files": keys.placed_files,
        "asked_back_s": float(settings.BERTH_RECLAIM_GRACE_SECONDS),
        "labels": {"project": row.project.slug, "owner": row.owner.username},
    }


def pod_keys(keys: Embedded) -> Embedded:
    """Return the same for a pod, whose folder of secret files is known.

    Only here is it known which words are a person's: ``${port}`` of a shell is one of theirs.
    """
    return replace(keys, env={name: with_secrets(text) for name, text in keys.env.items()})


def pod_fields(
    row: Any, cluster: Cluster, *, work_class: str, image: str, purpose: str
) -> dict[str, Any]:
    """Return the fields that pods add. ``image`` "": it has none of its own but the cluster's."""
    request = Request.of_size(
        work_class,
        row.resources,
        pool=row.pool,
        network=row.network,
        together=kinds.kind_of(row.KIND).together_of(row),
    )
    decision = engine_decision(row.cluster_key, request, row.project.uid)
    digest = row.image_digest if image else ""
    return {
        **labels_of(cluster, purpose, row.priority, row.queue, over_budget=row.over_budget),
        "verbatim": True,
        "namespace": namespace_of(row.project, cluster),
        "shm_mib": row.shm_mib,
        "placement": replace(
            decision.nodes,
            near=near_its_data(row, work_class),
            architectures=architectures_for(cluster, digest),
        ),
        "network": decision.network,
    }


def near_its_data(row: Workload, work_class: str) -> tuple[Mapping[str, str], ...]:
    """Return the labels of the pools that its volumes stand near, of those that it may use.

    A home doesn't count: it would draw everything of a person to one place. Nor does anything
    where a pool was chosen.
    """
    if row.pool:
        return ()
    seen = [mount.volume for mount in row.mounts.select_related("volume")]
    return labels_near(seen, work_class, row.project)
