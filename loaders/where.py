"""On which cluster a load runs (its volume's), with which image, and what it is called there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusters.where import image_cluster, objects_of
from loaders.models import Load

if TYPE_CHECKING:
    from collections.abc import Mapping

    from clusters.options import ClusterOptions


def image_of(options: ClusterOptions) -> str:
    """Return the image with the copying program that the operator chose; "": none yet."""
    return options.data_image


def name_of(row: Load) -> str:
    """Return the short word in names of processes and objects: nothing that a person wrote."""
    return f"load-{str(row.uid)[:8]}"


def lookup(uid: str) -> Mapping[str, str] | None:
    """Return namespace and name of a load's objects, for a driver that is asked by uid."""
    row = Load.objects.select_related("project").filter(uid=uid).first()
    cluster = image_cluster(row.cluster_key) if row is not None else None
    if row is None or cluster is None:
        return None
    return objects_of(name_of(row), str(row.uid), row.project, cluster)
