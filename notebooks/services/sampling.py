"""What running workspaces use, now and then, for the sparkline; two hours are kept."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any, NamedTuple

import structlog

from clusters.registry import driver_for
from clusters.selectors import use_sources
from common.clock import now
from hubapi import activity
from notebooks.models import Sample, Workspace
from runtime.capabilities import SupportsDeviceUse, SupportsMetrics
from runtime.models import ObservedWorkload
from runtime.protocol import Desired, DriverError, Phase
from runtime.use_sources import Holder

if TYPE_CHECKING:
    from collections.abc import Mapping

    Figures = Mapping[str, Mapping[str, float]]

log = structlog.get_logger(__name__)

KEPT = timedelta(hours=2)
CPU_BUSY = 50  # thousandths of a CPU: a server that only waits, with a page open, takes less
GPU_BUSY = 5.0  # percent: less is a display or a stray process


class _Row(NamedTuple):
    pk: int
    gpus: int


def usage_sample() -> int:
    """Ask each cluster once for all its running workspaces; return how many were noted."""
    rows = Workspace.objects.filter(
        phase=Phase.RUNNING, desired=Desired.RUNNING, deleted_at__isnull=True
    ).values_list("pk", "uid", "cluster_key", "gpus")
    by_cluster: dict[str, dict[str, _Row]] = {}
    for pk, uid, cluster_key, gpus in rows:
        by_cluster.setdefault(cluster_key, {})[str(uid)] = _Row(pk, gpus)
    return sum(_sample(key, known) for key, known in by_cluster.items())


def _sample(cluster_key: str, rows: Mapping[str, _Row]) -> int:
    try:
        driver = driver_for(cluster_key)
    except DriverError as error:
        log.info("usage.unknown", cluster=cluster_key, error=str(error))
        return 0
    found = _usage(driver, cluster_key, rows)
    devices = _device_use(driver, cluster_key, rows)
    told = {uid: {**found.get(uid, {}), **devices.get(uid, {})} for uid in rows}
    _note_use(rows, told)
    at = now()
    made = Sample.objects.bulk_create(
        Sample(
            workspace_id=rows[uid].pk,
            at=at,
            cpu_milli=_whole(values, "cpu_milli"),
            memory_mib=_whole(values, "memory_mib"),
            gpu_utilisation=values.get("gpu_utilisation"),
            gpu_memory_mib=_whole(values, "gpu_memory_mib"),
        )
        for uid, values in told.items()
        if values
    )
    return len(made)


def _note_use(rows: Mapping[str, _Row], told: Figures) -> None:
    """What computes is in use though its kernels are quiet; what was not told is not known."""
    wanted = {uid: ("cpu_milli", "gpu_utilisation")[: 2 if rows[uid].gpus else 1] for uid in told}
    known = [uid for uid, values in told.items() if all(name in values for name in wanted[uid])]
    activity.note_measured(known)
    floors = {"cpu_milli": CPU_BUSY, "gpu_utilisation": GPU_BUSY}
    busy = [
        uid
        for uid, values in told.items()
        if any(values.get(name, 0) >= floor for name, floor in floors.items())
    ]
    activity.note_used(busy)


def _usage(driver: Any, cluster_key: str, rows: Mapping[str, _Row]) -> Figures:
    if not isinstance(driver, SupportsMetrics):
        return {}
    try:
        return driver.usage(list(rows))
    except DriverError as error:
        log.info("usage.unknown", cluster=cluster_key, error=str(error))
        return {}


def _device_use(driver: Any, cluster_key: str, rows: Mapping[str, _Row]) -> Figures:
    """What exporters say of the devices that these hold."""
    held = {uid: row.gpus for uid, row in rows.items() if row.gpus}
    if not held or not isinstance(driver, SupportsDeviceUse):
        return {}
    sources = use_sources(cluster_key)
    try:
        return driver.device_use(_holders(cluster_key, held), sources) if sources else {}
    except DriverError as error:
        log.info("usage.devices_unknown", cluster=cluster_key, error=str(error))
        return {}


def _holders(cluster_key: str, held: Mapping[str, int]) -> list[Holder]:
    """Where each is, as the watch saw it last."""
    seen = ObservedWorkload.objects.filter(cluster_key=cluster_key, uid__in=list(held))
    found = []
    for uid, data in seen.values_list("uid", "data"):
        detail = data.get("detail") or {}
        place = (str(detail.get("namespace", "")), str(detail.get("pod", "")))
        found.append(Holder(str(uid), place, str(detail.get("node", "")), held[str(uid)]))
    return found


def _whole(values: Mapping[str, float], name: str) -> int | None:
    value = values.get(name)
    return None if value is None else max(0, round(value))


def samples_prune() -> int:
    """Forget what is older than two hours."""
    return Sample.objects.filter(at__lt=now() - KEPT).delete()[0]
