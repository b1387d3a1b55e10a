from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Any
from uuid import uuid4

import pytest

from budgets import services
from budgets.models import Budget
from clusters import services as clusters
from clusters.models import Cluster
from common.clock import now
from jobs.kind import JOB
from queues.models import Priority
from runtime.protocol import Device
from usage.models import Interval
from work.services import workload_create


def _number(text: Any) -> Any:
    try:
        return Decimal(text)
    except ArithmeticError:
        return text


@pytest.fixture
def machine(world: Any) -> Cluster:
    """Two GPUs of one kind."""
    fake = world.driver_for("local")
    fake.set_devices([Device(f"GPU-{n}", n, "H100", 80_000) for n in range(2)])
    cluster = clusters.ensure_local_cluster()
    Priority.objects.get_or_create(
        name="train", defaults={"label": "Training", "value": 100, "purpose": "train"}
    )
    return clusters.health_store(key=cluster.key, health=fake.probe())


@pytest.fixture
def budget(operator: Any, principal: Any, project: Any) -> Callable[..., Budget]:
    def make(hours: str, days: int = 30, mode: str = "hard", **said: Any) -> Budget:
        whose = {"project": project, "user": None, "organisation": None}
        whose |= {name: said.pop(name) for name in list(said) if name in whose}
        values = {"hours": _number(hours), "days": days, "mode": mode, "stops": False, **said}
        return services.budget_make(principal=principal(operator), values=values, **whose)

    return make


@pytest.fixture
def used(project: Any) -> Callable[..., Interval]:
    """So many hours on one GPU, that ended so many hours ago."""

    def make(user: Any, hours: float, ago: float = 1, **columns: Any) -> Interval:
        ended = now() - timedelta(hours=ago)
        values = {
            "uid": uuid4(),
            "launch": 1,
            "kind": "job",
            "name": "train",
            "project_uid": project.uid,
            "project_slug": project.slug,
            "owner_uid": user.uid,
            "owner_name": user.username,
            "cluster_key": "local",
            "gpus": 1,
            "flavor": "h100",
            "started_at": ended - timedelta(hours=hours),
            "ended_at": ended,
        }
        return Interval.objects.create(**{**values, **columns})

    return make


@pytest.fixture
def job(machine: Cluster, project: Any, principal: Any) -> Callable[..., Any]:
    def make(user: Any, **said: Any) -> Any:
        least = {"command": ["python", "train.py"], "gpus": 1, "gpu_flavor": "h100"}
        return workload_create(
            principal=principal(user), project=project, kind=JOB, said={**least, **said}
        )

    return make
