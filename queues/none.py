"""Admission where Berth keeps no queue: all are let in, the cluster's own scheduler decides.

A cluster whose pods carry the label of a LocalQueue has Kueue hold them until it is their turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clusters.options import options_of
from queues import kueue
from runtime.ports import AdmissionRequest, Granted

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from clusters.models import Cluster
    from queues.line import Verdict


def admit(request: AdmissionRequest) -> Granted:  # noqa: ARG001 - whatever it asks for
    return Granted()


def reclaim_of(uid: str) -> None:
    """Nobody asks; a cluster's queue tells by what it does to the pods."""


def release(uid: str) -> None:
    """Nothing was kept."""


def position(cluster: Cluster, placed: Mapping[str, Any]) -> int | None:
    """Return its place in the queue that its pods name, where the cluster has one."""
    return kueue.position(cluster, placed) if options_of(cluster.options).queue else None


def line(cluster: Cluster) -> Sequence[Verdict]:  # noqa: ARG001 - nobody waits here
    return ()
