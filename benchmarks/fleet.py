"""The fleet page of 1,500 nodes with eight GPUs each, 10,000 of which work holds.

Server time of what the page draws, of the words above it, of its table and of the API's answer.
"""

from __future__ import annotations

import gc
import os
import statistics
import tempfile
import time
from typing import Any

from benchmarks.lib import Result, sized

NODES, JOBS, PROJECTS = sized(1500, 20), sized(10_000, 60), sized(200, 5)
GOAL_MS, FLOOR_MS = 300, 600


def setup() -> None:
    os.environ["BERTH_VAR"] = tempfile.mkdtemp(prefix="berth-fleet-")
    os.environ["DJANGO_SETTINGS_MODULE"] = "portal.settings.test"
    url = os.environ.get("BENCH_DATABASE_URL", "")
    url = url or f"sqlite:///{os.environ['BERTH_VAR']}/fleet.sqlite3"
    os.environ["BERTH_TEST_DATABASE_URL"] = url
    import django

    django.setup()
    from django.core.management import call_command

    call_command("migrate", run_syncdb=True, verbosity=0)  # and tables of tests
    call_command("createcachetable", verbosity=0)


def fill() -> tuple[Any, Any]:
    from accounts.models import User
    from projects.models import Membership, Project
    from tests.support.devices import a_cluster, held, kept_pool, nodes

    users = User.objects.bulk_create(
        [User(username=f"u{i}", email=f"u{i}@example.org") for i in range(PROJECTS)]
    )
    operator = User.objects.create(username="op", email="op@example.org", platform_role="operator")
    projects = Project.objects.bulk_create(
        [Project(slug=f"p{i}", name=f"P {i}", phase="running") for i in range(PROJECTS)]
    )
    Membership.objects.bulk_create(
        [Membership(project=p, user=u, role="owner") for p, u in zip(projects, users, strict=True)]
    )
    cluster = a_cluster()
    kept_pool(cluster, projects[0].uid)
    held(cluster, nodes(cluster, NODES), list(zip(projects, users, strict=True)), JOBS)
    return users[0], operator


def run(rounds: int = sized(7, 1)) -> list[Result]:
    setup()
    member, operator = fill()
    gc.collect()
    gc.freeze()  # what the filling left is no part of a portal's memory
    from django.test import Client

    def client(user: Any) -> Client:
        made = Client()
        made.force_login(user, backend="allauth.account.auth_backends.AuthenticationBackend")
        return made

    asked = {
        "cells": (client(operator), "/fleet/data", {}),
        "cells, as a member sees them": (client(member), "/fleet/data", {}),
        "words above them": (client(operator), "/fleet/", {"HX-Request": "true"}),
        "page": (client(operator), "/fleet/", {}),
        "table": (client(operator), "/fleet/?view=table", {}),
        "API": (client(operator), "/api/v1/fleet", {}),
    }
    results = []
    for name, (who, url, headers) in asked.items():
        times, cores = [], []
        size = 0
        for _ in range(rounds + 1):
            _fresh()
            begin, cpu = time.perf_counter(), time.process_time()
            answer = who.get(url, headers=headers)
            cores.append((time.process_time() - cpu) * 1000)
            times.append((time.perf_counter() - begin) * 1000)
            assert answer.status_code == 200, (url, answer.status_code)
            size = len(answer.content)
        results.append(
            Result(
                f"fleet of {NODES * 8} GPUs: {name}",
                "ms",
                times[1:],
                goal=GOAL_MS,
                floor=FLOOR_MS,
                note=f"{size / 1024:.0f} KiB, {statistics.median(cores):.0f} ms of a core",
            )
        )
    return results


def _fresh() -> None:
    """What was measured stays new, however long the benchmark takes."""
    from common.clock import now
    from metrics.models import DeviceReading

    DeviceReading.objects.filter(at__isnull=False).update(at=now())
