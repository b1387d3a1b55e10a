"""Where work of any kind lies on a cluster: which one, in which namespace, by which names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from clusters.models import Cluster
from clusters.options import options_of
from runtime.capabilities import Names


class Named(Protocol):
    """A project, as far as it is needed here."""

    @property
    def slug(self) -> str: ...
    @property
    def uid(self) -> Any: ...


def image_cluster(cluster_key: str) -> Cluster | None:
    """Return the cluster that runs images, None for one machine."""
    return Cluster.objects.running_images().filter(key=cluster_key).first()


def names_on(cluster: Cluster) -> Names:
    """Return how its driver names things; only for clusters that run images."""
    if (names := cluster.traits.names) is None:
        message = f"The driver {cluster.driver} names nothing on {cluster.key}."
        raise ValueError(message)
    return names


def namespace_of(project: Named, cluster: Cluster) -> str:
    prefix = options_of(cluster.options).namespace_prefix
    return names_on(cluster).namespace(prefix, project.slug, str(project.uid))


def objects_of(name: str, uid: str, project: Named, cluster: Cluster) -> dict[str, str]:
    """Return namespace and name of what the driver makes for a row."""
    return {
        "namespace": namespace_of(project, cluster),
        "name": names_on(cluster).workload(name, uid),
    }


def lookup_of(
    model: Any, name_of: Callable[[Any], str]
) -> Callable[[str], Mapping[str, str] | None]:
    """Return a look-up of the objects of a kind's rows, for a driver that is asked by uid."""

    def lookup(uid: str) -> Mapping[str, str] | None:
        row = model.objects.select_related("project").filter(uid=uid).first()
        cluster = image_cluster(row.cluster_key) if row is not None else None
        if row is None or cluster is None:
            return None
        return objects_of(name_of(row), uid, row.project, cluster)

    return lookup
