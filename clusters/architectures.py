"""Kinds of processor: which a cluster has, and on which of them an image must stay."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Any

from clusters.models import Node

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from clusters.models import Cluster

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
