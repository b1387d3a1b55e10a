"""The highest of each figure in each span: they tell whether something was quiet all the time."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from datetime import datetime, timedelta
from typing import NamedTuple
from uuid import UUID

from django.db.models import Max, Q

from common.clock import now
from metrics.models import Sample
from metrics.rollups import Tier

LATELY = timedelta(minutes=2)
_WORK = Q(device="")  # the work itself, not one of its devices


class Peak(NamedTuple):
    """``gpu`` is that of its busiest device, known when all of them are. None: unknown."""

    uid: UUID
    at: datetime
    gpu: float | None
    cpu: float | None
    memory: float | None
    network: float | None


def peaks(tier: Tier, uids: Collection[UUID], since: datetime, until: datetime) -> Iterator[Peak]:
    """Yield the peaks of each span that begins from ``since`` on and ends until ``until``, by
    workload and time. One query.
    """
    rows = tier.model._default_manager.filter(  # noqa: SLF001 - one of several models
        uid__in=uids, at__gte=since, at__lte=until - tier.step
    )
    figures = {
        "known": Max("gpu_utilisation_count", filter=_WORK),
        "gpu": Max("gpu_utilisation_max"),
        "cpu": Max("cpu_milli_max"),
        "memory": Max("gpu_memory_mib_max", filter=_WORK),
        "rx": Max("rx_rate_max"),
        "tx": Max("tx_rate_max"),
    }
    found = rows.order_by("uid", "at").values_list("uid", "at").annotate(**figures)
    for uid, at, known, gpu, cpu, memory, rx, tx in found.iterator(chunk_size=5000):
        yield Peak(uid, at, gpu if known else None, cpu, memory, _both(rx, tx))


def peak_now(uid: UUID) -> Peak:
    """Return the peaks of the last two minutes, from the samples themselves."""
    figures = {
        "known": Max("gpu_utilisation", filter=_WORK),
        "gpu": Max("gpu_utilisation"),
        "cpu": Max("cpu_milli"),
        "memory": Max("gpu_memory_mib", filter=_WORK),
        "rx": Max("rx_rate"),
        "tx": Max("tx_rate"),
    }
    at = now() - LATELY
    found = Sample.objects.filter(uid=uid, at__gte=at).aggregate(**figures)
    gpu = None if found["known"] is None else found["gpu"]
    network = _both(found["rx"], found["tx"])
    return Peak(uid, at, gpu, found["cpu"], found["memory"], network)


def _both(rx: float | None, tx: float | None) -> float | None:
    return None if rx is None and tx is None else (rx or 0.0) + (tx or 0.0)
