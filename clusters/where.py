"""Where work of any kind lies on a cluster: which one, in which namespace, by which names."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Protocol

from clusters.models import Cluster, Node
from clusters.options import options_of

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from runtime.capabilities.clusters import Names


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


# Kinds of processor: which a cluster has, and on which of them an image must stay.


ARCH_LABEL = "kubernetes.io/arch"
USUAL = "amd64"  # of a node that does not say
# An image says what it likes; a label can't have any value.
_WORD = re.compile(r"\A[a-z0-9]{1,32}\Z")


def commonest(labels: Iterable[Mapping[str, Any]]) -> list[str]:
    """Return what nodes with these labels are, the commonest first."""
    count = Counter(str(found.get(ARCH_LABEL) or USUAL) for found in labels)
    return sorted(count, key=lambda name: (-count[name], name))


def architectures_of(cluster: Cluster | None) -> list[str]:
    """Return what kinds of machine the cluster has, the commonest first."""
    if cluster is None:
        return [USUAL]
    known = (cluster.capacity or {}).get("architectures")
    if known is None:  # an earlier version added its nodes up
        known = commonest(Node.objects.filter(cluster=cluster).values_list("labels", flat=True))
    return list(known) or [USUAL]


def kept_to(there: Collection[str], has: Collection[str]) -> tuple[str, ...]:
    """Return the kinds of which a node must be one for an image that ``has`` these.

    Nothing where nodes don't differ, any will do, or nothing is known of the image.
    """
    if len(there) < 2 or set(there) <= set(has):  # noqa: PLR2004 - one differs from none
        return ()
    return tuple(sorted({name for name in has if _WORD.match(name)}))
