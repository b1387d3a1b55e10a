# ruff: noqa: T201 - a program
"""Eight workers are told at once to fetch the code of one job."""

import json
import tempfile
import threading
from pathlib import Path
from typing import Any

from tests.notebooks.race_world import begin  # first: it sets Django up

# isort: split
from django.conf import settings
from django.db import connection, connections

from jobs import fetching
from jobs.kind import JOB
from jobs.models import Job, Package, Run
from tests.support.git_served import git_served
from work.services import workload_create

THREADS = 8


def main() -> dict[str, Any]:
    who, project, _preset = begin()
    with tempfile.TemporaryDirectory() as folder, git_served(Path(folder)) as served:
        served.settle(settings)
        served.make("trainer", a="a")
        said = {"command": ["true"], "code": served.code("trainer")}
        row = workload_create(principal=who, project=project, kind=JOB, said=said)
        fetching._AT_ONCE = threading.BoundedSemaphore(THREADS)  # type: ignore[misc]
        barrier = threading.Barrier(THREADS)

        def work() -> None:
            barrier.wait()
            try:
                fetching.code_fetch(row.uid)
            finally:
                connections.close_all()

        threads = [threading.Thread(target=work) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        answer = {
            "fetched": served.asked.count("/trainer/info/refs"),
            "packages": Package.objects.count(),
            "known": "package" in Job.objects.get(pk=row.pk).fetched,
            "written": Run.objects.get(job=row).code
            == Job.objects.get(pk=row.pk).fetched["package"],
            "vendor": connection.vendor,
        }
    connections.close_all()
    return answer


if __name__ == "__main__":
    print(json.dumps(main()))
