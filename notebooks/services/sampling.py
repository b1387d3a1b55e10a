"""What running workspaces use, now and then, for the sparkline; two hours are kept."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import structlog

from clusters.registry import driver_for
from common.clock import now
from notebooks.models import Sample, Workspace
from runtime.capabilities import SupportsMetrics
from runtime.protocol import Desired, DriverError, Phase

if TYPE_CHECKING:
    from collections.abc import Mapping

log = structlog.get_logger(__name__)

KEPT = timedelta(hours=2)


def usage_sample() -> int:
    """Ask each cluster once for all its running workspaces; return how many were noted."""
    rows = Workspace.objects.filter(
        phase=Phase.RUNNING, desired=Desired.RUNNING, deleted_at__isnull=True
    ).values_list("pk", "uid", "cluster_key")
    by_cluster: dict[str, dict[str, int]] = {}
    for pk, uid, cluster_key in rows:
        by_cluster.setdefault(cluster_key, {})[str(uid)] = pk
    return sum(_sample(key, pks) for key, pks in by_cluster.items())


def _sample(cluster_key: str, pks: Mapping[str, int]) -> int:
    try:
        driver = driver_for(cluster_key)
        if not isinstance(driver, SupportsMetrics):
            return 0
        found = driver.usage(list(pks))
    except DriverError as error:
        log.info("usage.unknown", cluster=cluster_key, error=str(error))
        return 0
    at = now()
    made = Sample.objects.bulk_create(
        Sample(
            workspace_id=pks[uid],
            at=at,
            cpu_milli=_whole(values, "cpu_milli"),
            memory_mib=_whole(values, "memory_mib"),
            gpu_utilisation=values.get("gpu_utilisation"),
            gpu_memory_mib=_whole(values, "gpu_memory_mib"),
        )
        for uid, values in found.items()
        if uid in pks and values
    )
    return len(made)


def _whole(values: Mapping[str, float], name: str) -> int | None:
    value = values.get(name)
    return None if value is None else max(0, round(value))


def samples_prune() -> int:
    """Forget what is older than two hours."""
    return Sample.objects.filter(at__lt=now() - KEPT).delete()[0]
