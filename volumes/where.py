"""Where a volume's claim lies on its cluster, for a driver that is asked by uid."""

from __future__ import annotations

from typing import TYPE_CHECKING

from clusters.models import Cluster
from clusters.options import options_of
from clusters.placement import QUEUED_HERE
from runtime.drivers.kubernetes import names
from volumes.models import Volume

if TYPE_CHECKING:
    from collections.abc import Mapping


def lookup(uid: str) -> Mapping[str, str] | None:
    row = Volume.objects.select_related("project").filter(uid=uid).first()
    if row is None:
        return None
    cluster = Cluster.objects.filter(key=row.cluster_key).first()
    if cluster is None or cluster.driver in QUEUED_HERE:
        return None
    prefix = options_of(cluster.options).namespace_prefix
    space = names.namespace(prefix, row.project.slug, str(row.project.uid))
    return {"namespace": space, "name": names.claim(uid)}
