# ruff: noqa: T201 - a program
"""Many starts of jobs at once.

With the word "apart" each is one of its own without a name, else all are presses of one form.
"""

import json
import sys
import threading
from collections import Counter
from typing import Any

from tests.notebooks.race_world import begin  # first: it sets Django up

# isort: split
from django.db import connection, connections

from jobs.kind import JOB
from jobs.models import Job
from quotas.models import Reservation
from work.services import workload_create

THREADS = 12


def main(*words: str) -> dict[str, Any]:
    who, project, _preset = begin()
    results: list[str] = []  # adding to a Counter is not one step
    made: set[int] = set()
    barrier = threading.Barrier(THREADS)
    nonce = "" if words == ("apart",) else "one-form"

    def press() -> None:
        barrier.wait()
        try:
            row = workload_create(
                principal=who, project=project, kind=JOB, said={"command": ["true"]}, nonce=nonce
            )
            made.add(row.pk)
            results.append("answered")
        except Exception as error:  # noqa: BLE001 - counted and shown
            results.append(type(error).__name__)
        finally:
            connections.close_all()

    threads = [threading.Thread(target=press) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    answer = {
        **Counter(results),
        "same": len(made),
        "rows": Job.objects.count(),
        "names": Job.objects.values("name").distinct().count(),
        "shared": project.volumes.filter(kind="project").count(),
        "reserved": Reservation.objects.filter(resource="cpu_milli").count(),
        "vendor": connection.vendor,
    }
    connections.close_all()
    return answer


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
