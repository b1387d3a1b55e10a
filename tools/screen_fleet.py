"""What the GPUs of the pictures do: readings of every device, and an hour of the past."""

from __future__ import annotations

from datetime import timedelta
from random import Random

from django.db import transaction
from django.urls import reverse

from clusters.models import Cluster
from common.clock import now
from metrics import devices, rollups
from metrics.models import DeviceReading, Sample

ACTS: dict[str, tuple[tuple[str, ...], ...]] = {
    "fleet-by-project": (("choose", "#fleet-colour", "owner"),),
}


def make() -> None:
    random, at = Random(5), now()
    for cluster in Cluster.objects.filter(enabled=True):
        is_machine = cluster.devices.exists()
        with transaction.atomic():
            devices.store(cluster, [], at, is_machine=is_machine)
    rows = list(DeviceReading.objects.order_by("id"))
    for row in rows:
        if random.random() < 0.06:  # noqa: PLR2004 - of these nobody tells
            continue
        row.at, row.simulated = at, False
        busy = row.uid is not None
        row.utilisation = random.choice([0.0, 12.0, 47.0, 88.0, 97.0]) if busy else 0.0
        row.memory_used_mib = random.randrange(row.memory_mib + 1) if busy else 0
        if busy:
            row.since = at - timedelta(minutes=random.randrange(10_000))
    DeviceReading.objects.bulk_update(
        rows, ["at", "utilisation", "memory_used_mib", "since"], batch_size=500
    )
    keys = dict(Cluster.objects.values_list("key", "uid"))
    Sample.objects.bulk_create(
        Sample(
            uid=row.uid or keys[row.cluster_key],
            device=row.device,
            at=at - timedelta(minutes=minutes),
            gpu_utilisation=random.choice([0.0, 40.0, 95.0]) if row.uid else 0.0,
        )
        for row in rows
        for minutes in (5, 60)
    )
    rollups.roll_up(rollups.MINUTE)


def pages() -> list[tuple[str, str, str]]:
    url = reverse("fleet:page")
    return [
        ("alice", "fleet", url),
        ("olga", "fleet-by-project", url),
        ("olga", "fleet-table", f"{url}?view=table"),
        ("alice", "fleet-none", f"{url}?kind=nothing"),
    ]
