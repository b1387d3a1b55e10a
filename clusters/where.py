"""Where work of an app lies on a cluster: the same three questions for every kind of row."""

from __future__ import annotations

from typing import Any, Protocol

from clusters.models import Cluster
from clusters.options import ClusterOptions, options_of
from clusters.usable import QUEUED_HERE
from runtime.drivers.kubernetes import names


class Named(Protocol):
    """A project, as far as it is needed here."""

    @property
    def slug(self) -> str: ...
    @property
    def uid(self) -> Any: ...


def image_cluster(cluster_key: str) -> Cluster | None:
    """Return the cluster that runs images, None for one machine."""
    cluster = Cluster.objects.filter(key=cluster_key).first()
    return None if cluster is None or cluster.driver in QUEUED_HERE else cluster


def namespace_of(project: Named, options: ClusterOptions) -> str:
    return names.namespace(options.namespace_prefix, project.slug, str(project.uid))


def objects_of(name: str, uid: str, project: Named, cluster: Cluster) -> dict[str, str]:
    """Return namespace and name of what the driver makes for a row."""
    space = namespace_of(project, options_of(cluster.options))
    return {"namespace": space, "name": names.workload(name, uid)}
