"""The replicas of endpoints, as they were last seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from jobs.replicas import moment
from runtime.models import ObservedWorkload
from runtime.protocol import observation_read

if TYPE_CHECKING:
    from serving.models import Endpoint


def replicas_of(row: Endpoint) -> list[dict[str, Any]]:
    """Return each replica of its latest launch as it was last seen."""
    seen = ObservedWorkload.objects.filter(uid=row.uid, cluster_key=row.cluster_key).first()
    if seen is None or seen.launch != row.launch:
        return []
    told = observation_read(seen.data).replicas
    return [
        {
            "index": one.index,
            "state": one.seen,
            "address": one.address,
            "node": one.node,
            "reason": one.reason,
            "restarts": one.restarts,
            "started_at": moment(one.started_at),
        }
        for one in told
    ]
