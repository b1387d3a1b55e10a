# ruff: noqa: T201 - a program
"""Smoke runs that end while their jobs are cancelled: each of both holds what the other one wants."""

import json
import threading
from collections import Counter
from typing import Any

from tests.notebooks.race_world import begin  # first: it sets Django up

# isort: split
from django.db import connection, connections, transaction

from common.clock import now
from jobs import smoke, told
from jobs.kind import JOB
from jobs.models import Job
from work.services import workload_create, workload_stop

ROUNDS = 4


def main() -> dict[str, Any]:
    who, project, _preset = begin()
    results: Counter[str] = Counter()
    for number in range(ROUNDS):
        said = {"name": f"train-{number}", "command": ["true"], "smoke": True}
        row = workload_create(principal=who, project=project, kind=JOB, said=said)
        one = Job.objects.get(smoke_of=row.uid)
        holds, goes_on = threading.Event(), threading.Event()

        def end(one: Job = one, holds: Any = holds, goes_on: Any = goes_on) -> None:
            """As the engine does: the row is locked, and its listeners run in that transaction."""
            with transaction.atomic():
                held = Job.objects.select_for_update(of=("self",)).get(pk=one.pk)
                held.started_at = now()
                held.save(update_fields=["failure", "started_at", "updated_at"])
                holds.set()
                goes_on.wait(0.3)
                smoke.tell(held)
                told.smoke_note(held, now())

        def cancel(row: Job = row, holds: Any = holds) -> None:
            holds.wait(10)
            workload_stop(principal=who, row=row)

        def run(act: Any) -> None:
            try:
                act()
                results[act.__name__] += 1
            except Exception as error:  # noqa: BLE001 - counted and shown
                results[type(error).__name__] += 1
            finally:
                connections.close_all()

        threads = [threading.Thread(target=run, args=(act,)) for act in (end, cancel)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    answer = {**results, "vendor": connection.vendor}
    answer["cancelled"] = Job.objects.filter(smoke_of=None, desired="stopped").count()
    connections.close_all()
    return answer


if __name__ == "__main__":
    print(json.dumps(main()))
