# ruff: noqa: T201 - a program
"""How long launches take beside another project's loads, all of which are due, and without them.

The parts of a worker over the fake machine: its ear, its pool, its sweep and its watch, as real
threads. Each launch is from the request to "running"; before each one all loads are due again.
"""

import json
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tests.notebooks.race_world import begin  # first: it sets Django up

# isort: split
from django.conf import settings
from django.db import connections

from accounts.models import User
from clusters.installed import ensure_local_cluster
from common.clock import now
from loaders.models import Load
from notebooks.models import Workspace
from projects.models import Project
from runtime import due_scheduler, observe
from runtime.bus import EngineEar
from tests.support.workloads import insert
from tests.support.workspaces import workspace_delete, workspace_launch
from volumes.services.create import project_volume_ensure

LAUNCHES = 7
PATIENCE_S = 60.0


@contextmanager
def a_worker(folder: str) -> Iterator[due_scheduler.Sweeper]:
    """What of ``portal.server.duties`` has a part in a launch, wired as there."""
    settings.BERTH_BUS, settings.BERTH_BUS_DIR = "unix", folder
    pool = due_scheduler.Pool()
    sweeper = due_scheduler.Sweeper(pool.offer)
    pool.on_full = sweeper.wake
    ear, watcher = EngineEar(pool.submit), observe.Watcher("local", pool.submit)
    pool.gives_way = lambda: watcher.is_filling
    for part in (ear, sweeper, watcher):
        part.start()
    try:
        until(lambda: observe.is_watched("local"))
        yield sweeper
    finally:
        ear.stop()
        sweeper.stop()
        watcher.stop()
        pool.drain()
        sweeper.join(PATIENCE_S)
        watcher.join(PATIENCE_S)


def until(look: Any) -> None:
    end = time.monotonic() + PATIENCE_S
    while not look():
        if time.monotonic() > end:
            message = "it did not happen in time"
            raise TimeoutError(message)
        time.sleep(0.005)


def a_launch(who: Any, project: Any, preset: Any) -> float:
    """Launch, wait until it runs, and remove it again; return how long it took to run."""
    started = time.perf_counter()
    row = workspace_launch(principal=who, project=project, preset=preset)
    mine = Workspace.objects.filter(pk=row.pk)
    until(lambda: mine.filter(phase="running").exists())
    took = time.perf_counter() - started
    workspace_delete(principal=who, workspace=mine.get())
    until(lambda: not mine.filter(deleted_at__isnull=True).exists())
    return took


def queue(count: int) -> Any:
    """Write so many loads of another project, and return them."""
    greta = User.objects.create(username="greta", password="!")
    crowd = Project.objects.create(slug="crowd", name="Crowd", phase="running")
    volume = project_volume_ensure(principal=None, project=crowd)
    same = {
        "project": crowd,
        "owner": greta,
        "volume": volume,
        "store_kind": "s3",
        "bucket": "bucket",
    }
    insert(
        Load(
            **same,
            name=f"load-{n}",
            anonymous=True,
            fingerprint=str(n),
            launch=1,
            asked_at=now(),
            next_reconcile_at=now(),
            cpu_milli=100,
            memory_mib=64,
        )
        for n in range(count)
    )
    return Load.objects.filter(project=crowd)


def due_of(loads: Any) -> int:
    return int(loads.filter(next_reconcile_at__lte=now()).count())


def main(loads: str) -> dict[str, Any]:
    who, project, preset = begin()
    ensure_local_cluster()
    beside: list[float] = []
    left: list[int] = []
    with tempfile.TemporaryDirectory() as folder, a_worker(folder) as sweeper:
        a_launch(who, project, preset)  # whatever was cold
        without = [a_launch(who, project, preset) for _ in range(LAUNCHES)]
        theirs = queue(int(loads))
        for _ in range(LAUNCHES):
            theirs.update(next_reconcile_at=now())
            sweeper.wake()
            until(lambda: due_of(theirs) < int(loads) - 8)  # all threads are at it
            beside.append(a_launch(who, project, preset))
            left.append(due_of(theirs))
    connections.close_all()
    return {"without": without, "beside": beside, "left": left}


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
