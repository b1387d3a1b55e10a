"""Workspaces that hold a GPU, with what was measured of them; policies."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest

from clusters import services as clusters
from clusters.models import Cluster
from common.clock import now
from hubapi.models import Activity
from metrics.models import FIELDS, HourSample, MinuteSample, Sample
from notebooks.models import Workspace
from parking import services
from parking.models import IdlePolicy
from runtime.protocol import Device
from usage.models import Interval


@pytest.fixture
def machine(world: Any) -> Cluster:
    fake = world.driver_for("local")
    fake.set_devices([Device(f"GPU-{n}", n, "H100", 80_000) for n in range(8)])
    cluster = clusters.ensure_local_cluster()
    return clusters.health_store(key=cluster.key, health=fake.probe())


@pytest.fixture
def holder(machine: Cluster, launch: Any, settle: Any) -> Callable[..., Workspace]:
    """A workspace of somebody that has held one GPU since yesterday."""

    def make(user: Any, **said: Any) -> Workspace:
        row = settle(launch(user, gpus=1, **said))
        ready = now() - timedelta(days=1)
        Workspace.objects.filter(pk=row.pk).update(ready_at=ready, idle_stop_minutes=None)
        Interval.objects.filter(uid=row.uid).update(started_at=ready)
        row.refresh_from_db()
        return row

    return make


def rolled(model: Any, row: Any, at: datetime, **figures: float | None) -> Any:
    """A span in which each figure was measured six times and always the same."""
    columns: dict[str, Any] = {}
    for name in FIELDS:
        value = figures.get(name)
        columns[f"{name}_count"] = 0 if value is None else 6
        columns[f"{name}_sum"] = None if value is None else 6 * value
        columns[f"{name}_min"] = columns[f"{name}_max"] = value
    return model(uid=row.uid, device="", at=at, samples=6, shared=0, simulated=0, **columns)


@pytest.fixture
def measured() -> Callable[..., None]:
    """Write what was measured in each of the last minutes up to now, and what its server told."""

    def write(
        row: Any,
        minutes: int,
        gpu: float | None = 0.0,
        cpu: float | None = 10.0,
        *,
        busy: int = 0,
        used_at: datetime | None = None,
    ) -> None:
        at = now()
        this = at.replace(second=0, microsecond=0)
        MinuteSample.objects.filter(uid=row.uid, at__gte=this - timedelta(minutes=minutes)).delete()
        MinuteSample.objects.bulk_create(
            rolled(
                MinuteSample,
                row,
                this - timedelta(minutes=n),
                gpu_utilisation=gpu,
                cpu_milli=cpu,
            )
            for n in range(minutes + 1)
        )
        Sample.objects.create(
            uid=row.uid, at=at, gpu_utilisation=gpu, cpu_milli=None if cpu is None else int(cpu)
        )
        Activity.objects.filter(uid=row.uid).update(
            polled_at=at, busy_kernels=busy, last_activity=used_at, last_busy_at=None
        )

    return write


@pytest.fixture
def hours() -> Callable[..., None]:
    """Write the mean GPU use of the last whole hours, the newest last; None: not measured."""

    def write(row: Any, *percents: float | None) -> None:
        this = now().replace(minute=0, second=0, microsecond=0)
        first = this - timedelta(hours=len(percents) - 1)
        HourSample.objects.bulk_create(
            rolled(HourSample, row, first + timedelta(hours=n), gpu_utilisation=p, cpu_milli=10)
            for n, p in enumerate(percents)
            if p is not None
        )

    return write


@pytest.fixture
def policy(operator: Any, principal: Any) -> Callable[..., IdlePolicy]:
    def make(**said: Any) -> IdlePolicy:
        whose = {name: said.pop(name) for name in ("project", "organisation") if name in said}
        values = {"state": "on", "minutes": 60, "grace": 15, "extension": 120, "extensions": 1}
        return services.policy_make(
            principal=principal(operator), values={**values, **said}, **whose
        )

    return make
