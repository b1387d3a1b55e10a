"""Who is let in, by the queue of the cluster that is asked for. Implements ``runtime.ports``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from clusters import registry
from clusters.options import options_of
from queues import kueue, local, none

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from clusters.models import Cluster
    from queues.line import Verdict
    from runtime.ports import AdmissionRequest, Granted, Reclaim, Waiting


class Admitter(Protocol):
    """One way to decide who starts. A module may be one."""

    def admit(self, request: AdmissionRequest) -> Granted | Waiting:
        """Ask for a place, or ask again how it stands. Idempotent by ``uid``."""

    def reclaim_of(self, uid: str) -> Reclaim | None:
        """Return what is asked back of a workload."""

    def release(self, uid: str) -> None:
        """Give back the place of a workload. Missing is success."""

    def position(self, cluster: Cluster, placed: Mapping[str, Any]) -> int | None:
        """Return the place in line of what was handed to the cluster; None: not known."""

    def line(self, cluster: Cluster) -> Sequence[Verdict]:
        """Return who waits there, in order, and for what."""


ADMITTERS: tuple[Admitter, ...] = (local, kueue, none)


def admitter_of(cluster: Cluster) -> Admitter:
    """Return who decides there: on a cluster with nodes its own scheduler, or Kueue."""
    if not cluster.runs_images:
        return local
    return kueue if options_of(cluster.options).manages_queues else none


def admit(request: AdmissionRequest) -> Granted | Waiting:
    return admitter_of(registry.row_for(request.cluster_key)).admit(request)


def reclaim_of(uid: str) -> Reclaim | None:
    return next((found for one in ADMITTERS if (found := one.reclaim_of(uid))), None)


def release(uid: str) -> None:
    for admitter in ADMITTERS:
        admitter.release(uid)


def position(cluster: Cluster, placed: Mapping[str, Any]) -> int | None:
    return admitter_of(cluster).position(cluster, placed)


def line(cluster: Cluster) -> Sequence[Verdict]:
    return admitter_of(cluster).line(cluster)
