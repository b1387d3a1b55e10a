"""A made-up cluster: units of racks of nodes, jobs that hold their GPUs, and what these do."""

from __future__ import annotations

from datetime import datetime, timedelta
from random import Random
from typing import Any

from clusters.models import Cluster, Flavor, Node, Pool
from common.clock import now
from jobs.models import Job
from metrics.devices import COLUMNS, Cell
from metrics.models import DeviceReading
from tests.support.workloads import insert

UNIT, RACK = "berth.dev/su", "berth.dev/rack"
OPTIONS = {"manages_queues": True, "unit_label": UNIT, "rack_label": RACK}
KIND, MEMORY_MIB, GPUS = "h100-80", 81920, 8


def a_cluster(key: str = "east", name: str = "East") -> Cluster:
    Flavor.objects.get_or_create(
        name=KIND, defaults={"label": "H100 80 GB", "memory_mib": MEMORY_MIB}
    )
    made, _new = Cluster.objects.get_or_create(
        key=key,
        defaults={"name": name, "driver": "kubernetes", "options": OPTIONS, "reachable": True},
    )
    return made


def nodes(cluster: Cluster, number: int, *, in_rack: int = 16, in_unit: int = 4) -> list[str]:
    """Add nodes of eight GPUs each; a rack holds so many of them, a unit so many racks."""
    rows = [
        Node(
            cluster=cluster,
            name=f"{cluster.key}-{index:05d}",
            ready=index % 97 != 13,
            schedulable=index % 53 != 7,
            offers={KIND: GPUS},
            accelerators={"nvidia.com/gpu": GPUS},
            labels={
                UNIT: f"su-{index // in_rack // in_unit:02d}",
                RACK: f"rack-{index // in_rack:03d}",
                "pool": "kept" if index % 20 == 0 else "open",
            },
            seen_at=now(),
        )
        for index in range(number)
    ]
    Node.objects.bulk_create(rows, batch_size=500)
    return [row.name for row in rows]


def kept_pool(cluster: Cluster, project_uid: Any) -> Pool:
    return Pool.objects.create(
        cluster=cluster, name="kept", node_labels={"pool": "kept"}, project_uids=[str(project_uid)]
    )


def held(
    cluster: Cluster,
    names: list[str],
    owners: list[tuple[Any, Any]],
    jobs: int,
    at: datetime | None = None,
    seed: int = 7,
) -> list[Job]:
    """Let so many jobs of (project, owner) hold GPUs; some GPUs stay free, some are unknown."""
    random, moment = Random(seed), at or now()
    work = insert(
        [
            Job(
                project=owners[n % len(owners)][0],
                owner=owners[n % len(owners)][1],
                name=f"train-{cluster.key}-{n}",
                cluster_key=cluster.key,
                phase="running",
                gpus=1,
                gpu_flavor=KIND,
                observed_generation=1,
            )
            for n in range(jobs)
        ]
    )
    slots = [(node, index) for node in names for index in range(GPUS)]
    random.shuffle(slots)
    of = dict(zip(slots, work, strict=False))
    cells = []
    for node in names:
        for index in range(GPUS):
            job, told = of.get((node, index)), random.random() > 0.05
            cell = Cell(cluster.key, node, f"{node}/GPU-{index}", KIND, moment)
            cell.memory_mib = MEMORY_MIB
            if job is not None:
                cell.uid, cell.since = job.uid, moment - timedelta(minutes=random.randrange(9000))
            if told:
                busy = random.choice([0, 3, random.randrange(20, 70), 95]) if job else 0
                cell.utilisation, cell.at = float(busy), moment
                cell.memory_used_mib = random.randrange(MEMORY_MIB) if job else 0
            cells.append(cell)
    values = [DeviceReading(**{name: getattr(c, name) for name in COLUMNS}) for c in cells]
    DeviceReading.objects.bulk_create(values, batch_size=1000)
    return work
