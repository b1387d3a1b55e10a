"""Which part of a cluster a volume's storage stands near, as operators said of its class.

Asked anew each time: an operator who says where storage stands says it of the volumes on it too.
A volume that lies on something else than its class does now stands near nothing known.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from clusters.models import Pool
from placement.decision import Request
from placement.fleet import engine_decision
from volumes.models import ClassPlace

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from uuid import UUID

    from projects.models import Project
    from runtime.spec import Placement
    from volumes.models import Volume

SEPARATOR = "/"


def pools_near(volumes: Collection[Volume]) -> Mapping[UUID, list[Pool]]:
    """Return uid → the pools that it stands near; nothing for the others. At most two queries."""
    classes = {row.volume_class_id for row in volumes} - {None}
    if not classes:
        return {}
    rows = ClassPlace.objects.filter(volume_class__in=classes, near__isnull=False).distinct()
    places: dict[tuple[int | None, str], ClassPlace] = {
        (place.volume_class_id, place.cluster.key): place
        for place in rows.select_related("volume_class", "cluster").prefetch_related("near")
    }
    return {
        row.uid: list(place.near.all())
        for row in volumes
        if (place := places.get((row.volume_class_id, row.cluster_key))) is not None
        and (row.backing_kind, row.backing_options)
        == (place.volume_class.backing_kind, place.volume_class.options)
    }


def usable_near(
    volumes: Collection[Volume], kind: str, project: Project
) -> Mapping[UUID, list[Pool]]:
    """Return the pools that such work may use; one that is reserved for others is none to it."""
    near = pools_near(volumes)
    return {
        volume.uid: [p for p in near.get(volume.uid, ()) if p.admits(kind, project.uid)]
        for volume in volumes
    }


def labels_near(
    volumes: Collection[Volume], kind: str, project: Project
) -> tuple[Mapping[str, str], ...]:
    """Return what draws work to its data: the labels of each pool once, in a lasting order."""
    near = usable_near(volumes, kind, project)
    pools = {pool.pk: pool for found in near.values() for pool in found}
    return tuple(dict(pools[pk].node_labels) for pk in sorted(pools))


def placement_beside(cluster_key: str, volume: Volume, kind: str, project: Project) -> Placement:
    """Return where work on one volume may run that needs no GPU, drawn to where that stands."""
    found = engine_decision(cluster_key, Request(kind), project.uid)
    return replace(found.nodes, near=labels_near([volume], kind, project))


def names_near(volume: Volume) -> list[str]:
    """Return the pools that a volume stands near, as its project may know them."""
    uid = str(volume.project.uid)
    pools = pools_near([volume]).get(volume.uid, ())
    # a pool of other projects is the same as none (L3)
    return [pool.name for pool in pools if not pool.project_uids or uid in pool.project_uids]


def said_of(places: Iterable[ClassPlace]) -> list[str]:
    """Return the pools of a class as ``cluster/pool``; both were prefetched."""
    found = [(place.cluster.key, pool.name) for place in places for pool in place.near.all()]
    return [f"{key}{SEPARATOR}{name}" for key, name in sorted(found)]


def choices() -> list[tuple[str, str]]:
    """Return what a form offers: every part of every cluster."""
    rows = Pool.objects.select_related("cluster").order_by("cluster__name", "position", "name")
    return [
        (f"{row.cluster.key}{SEPARATOR}{row.name}", f"{row.cluster.label} · {row.name}")
        for row in rows
    ]
