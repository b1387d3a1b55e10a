# ruff: noqa: T201 - a program
"""Jobs that go on with fewer replicas while workers are killed and another job wants the GPUs."""

import json
import random
import threading
from collections import Counter
from datetime import timedelta
from typing import Any

from tests.notebooks.race_world import begin  # first: it sets Django up

# isort: split
from django.db import connection, connections
from django.db.models import Sum

from clusters import registry
from clusters import services as clusters
from clusters.models import Device
from common.clock import now
from jobs import reconciler
from jobs.kind import JOB
from jobs.models import Job, Run
from runtime import engine, workload, workload_ending
from runtime.hints import hint
from runtime.protocol import Device as Seen
from tests.support import driving
from work.models import Workload
from work.services import workload_create, workload_stop

ROUNDS, WORKERS, TURNS = 6, 2, 12
SIZE = {"gpus": 1, "command": ["true"], "cpu_milli": 100, "memory_mib": 256}


class Killed(BaseException):
    """Stands for SIGKILL: nothing catches it, open transactions roll back."""


def main() -> dict[str, Any]:  # noqa: PLR0915 - one story
    who, project, _preset = begin()
    fake: Any = registry.driver_for("local")
    fake.set_devices([Seen(f"GPU-{n}", n, "H100", 80_000) for n in range(4)])
    clusters.health_store(key=clusters.ensure_local_cluster().key, health=fake.probe())
    seen: Counter[str] = Counter()
    local = threading.local()

    def reached(_name: str) -> None:
        if (chance := getattr(local, "chance", None)) and chance.random() < 0.08:
            seen["killed"] += 1
            raise Killed

    for module in (engine, workload, workload_ending, reconciler):
        module.killpoint = reached  # type: ignore[attr-defined]

    def work(seed: int, row: Job) -> None:
        """Turns of a worker that is killed at random; what it held is free a moment later."""
        for turn in range(TURNS):
            local.chance = random.Random(f"{seed}-{turn}")
            try:
                hint(row)
                driving.run_due(rounds=3)
            except Killed:
                past = now() - timedelta(seconds=1)
                mine = Workload.objects.filter(project=project, lease_token__isnull=False)
                mine.update(lease_until=past, next_reconcile_at=past)
        connections.close_all()

    for number in range(ROUNDS):
        Device.objects.update(healthy=True)
        own = {"replicas": 4, "after_loss": "fewer", "min_replicas": 2, "framework": "pytorch"}
        said = {**SIZE, **own, "name": f"fewer-{number}", "checkpoints": "shared"}
        row: Job = workload_create(principal=who, project=project, kind=JOB, said=said)
        driving.run_due()
        Device.objects.filter(index=3).update(healthy=False)
        fake.exit(str(row.uid), code=None, reason="vanished")

        def compete(name: str = f"other-{number}") -> None:
            said = {**SIZE, "name": name}
            workload_create(principal=who, project=project, kind=JOB, said=said)
            connections.close_all()

        threads = [
            threading.Thread(target=work, args=(10 * number + n, row)) for n in range(WORKERS)
        ]
        threads.append(threading.Thread(target=compete))
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for _turn in range(4):
            hint(row)
            driving.run_due()
        row.refresh_from_db()
        running = Job.objects.filter(project=project, phase="running")
        held = sum(job.launched_replicas for job in running)
        places = [place["replicas"] for place in Run.objects.get(job=row).places]
        seen["right"] += (row.phase, row.launch, held) == ("running", 2, 3)
        seen["places"] += places == [4, row.launched_replicas]
        seen["least"] += row.launched_replicas >= 2
        for job in Job.objects.filter(project=project, desired="running"):
            workload_stop(principal=who, row=job)
        driving.run_due()
    total = Job.objects.aggregate(n=Sum("launch"))["n"]
    answer = {**seen, "launches": total, "vendor": connection.vendor}
    connections.close_all()
    return answer


if __name__ == "__main__":
    print(json.dumps(main()))
