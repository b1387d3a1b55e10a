"""Admission where Berth keeps no queue: all are let in, the cluster's own scheduler decides.

A cluster whose pods carry the label of a LocalQueue has Kueue hold them until it is their turn.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from clusters.options import options_of
from placement.decision import Reason as Decided
from queues import kueue
from queues.choices import Beyond
from runtime.ports import Granted, Waiting
from runtime.reasons import Reason

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from clusters.models import Cluster
    from queues.line import Verdict
    from runtime.ports import AdmissionRequest


def admit(request: AdmissionRequest) -> Granted | Waiting:
    """Let in whatever it asks for, but what waits for a budget to have room again."""
    if request.over_budget == Beyond.WAITS:
        return Waiting(1, 0, Reason.BUDGET, str(Decided("budget-waits")))
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
