# ruff: noqa: T201 - a program
"""Eight presses of "resume" at once on one workspace that was parked, each with a connection of
its own, as so many web processes have. The word "doors": half of them are "go on without GPUs".
"""

import json
import sys
import threading
from collections import Counter
from typing import Any

from tests.notebooks.race_world import begin  # first: it sets Django up

# isort: split
from django.db import connection, connections

from clusters import registry, services
from clusters.models import Flavor
from events.models import Event
from notebooks.models import Workspace
from queues.models import Guarantee, Queue
from quotas.models import Reservation
from runtime.protocol import Device
from tests.support import driving
from work import kinds
from work import services as work
from work.models import Ticket

THREADS = 8  # and the main thread: a pool of PostgreSQL has twelve connections


def main(*words: str) -> dict[str, Any]:
    who, project, _preset = begin()
    fake: Any = registry.driver_for("local")
    fake.set_devices([Device("GPU-0", 0, "H100", 80_000)])
    cluster = services.ensure_local_cluster()
    services.health_store(key=cluster.key, health=fake.probe())
    queue = Queue.objects.create(project=project, name=project.slug)
    flavor = Flavor.objects.get(name="h100")
    Guarantee.objects.create(queue=queue, cluster=cluster, flavor=flavor, guaranteed=1)
    kind = kinds.kind_of("workspace")
    row = work.workload_create(principal=who, project=project, kind=kind, said={"gpus": 1})
    driving.run_due()
    work.park(row, actor=None)
    driving.run_due()
    results: list[str] = []  # adding to a Counter is not one step
    barrier = threading.Barrier(THREADS)

    def press(number: int) -> None:
        own = Workspace.objects.get(pk=row.pk)  # as each process read it
        plain = words == ("doors",) and number % 2
        barrier.wait()
        try:
            act = work.workload_start_plain if plain else work.workload_start
            act(principal=who, row=own)
            results.append("answered")
        except Exception as error:  # noqa: BLE001 - counted and shown
            results.append(type(error).__name__)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=press, args=(number,)) for number in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    found = Workspace.objects.get(pk=row.pk)
    tickets = Ticket.objects.filter(workload_id=row.pk)
    answer = {
        "results": Counter(results),
        "tickets": tickets.count(),
        "used": tickets.exclude(used_at=None).count(),
        "launch": found.launch,
        "gpus": found.gpus,
        "stands": found.ticket_at is not None,
        "started": Event.objects.filter(verb=f"workspace.{kind.started}").count(),
        "reserved": Reservation.objects.filter(workload_uid=row.uid, resource="gpu").count(),
        "vendor": connection.vendor,
    }
    connections.close_all()
    return answer


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
