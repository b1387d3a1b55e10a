# ruff: noqa: T201 - a program
"""One large file takes longer to pack than a job is held: another worker must not take it over."""

import json
import tempfile
import threading
from pathlib import Path
from typing import Any

from tests.notebooks.race_world import begin  # first: it sets Django up

# isort: split
from django.conf import settings
from django.db import connections

from jobs import fetching
from jobs.kind import JOB
from jobs.models import Job
from tests.support.git_served import git_served
from work.services import workload_create

LARGE = 160 * 2**20


def main() -> dict[str, Any]:
    who, project, _preset = begin()
    fetching._HELD_S, fetching._RENEW_S = 0.6, 0.1  # type: ignore[misc]
    with tempfile.TemporaryDirectory() as folder, git_served(Path(folder)) as served:
        served.settle(settings)
        served.make("trainer", a="a")
        with (served.tree("trainer") / "zeros").open("wb") as file:
            file.truncate(LARGE)
        served.commit("trainer")
        said = {"command": ["true"], "code": served.code("trainer")}
        row = workload_create(principal=who, project=project, kind=JOB, said=said)
        over, taken, looks = threading.Event(), [], 0

        def work() -> None:
            try:
                fetching.code_fetch(row.uid)
            finally:
                over.set()
                connections.close_all()

        worker = threading.Thread(target=work)
        worker.start()
        while "by" not in Job.objects.get(pk=row.pk).fetched and not over.is_set():
            over.wait(0.01)
        while not over.wait(0.1):
            looks += 1
            if fetching._claim(row.uid, "another") is not None:
                taken.append(looks)
        worker.join()
        known = Job.objects.get(pk=row.pk).fetched
        answer = {"looks": looks, "taken": taken, "is_kept": "package" in known}
    connections.close_all()
    return answer


if __name__ == "__main__":
    print(json.dumps(main()))
