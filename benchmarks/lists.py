"""A page of the workspace list among 10,000, against hand-written SQL and json in one process."""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from typing import Any

from benchmarks.lib import Result

ROWS, PROJECTS, PAGE = 10_000, 200, 50

_SQL = """
SELECT w.short_id, w.name, u.username, p.slug, w.phase, w.reason, w.message, w.desired,
       w.generation, w.observed_generation, w.cpu_milli, w.memory_mib, w.gpus, w.gpu_flavor,
       w.created_at, w.ends_at
FROM notebooks_workspace w
JOIN accounts_user u ON u.id = w.owner_id
JOIN projects_project p ON p.id = w.project_id
WHERE w.deleted_at IS NULL AND p.slug = %s ORDER BY w.id DESC LIMIT 51
"""


def setup() -> None:
    os.environ["BERTH_VAR"] = tempfile.mkdtemp(prefix="berth-lists-")
    os.environ["DJANGO_SETTINGS_MODULE"] = "portal.settings.test"
    os.environ["BERTH_TEST_DATABASE_URL"] = f"sqlite:///{os.environ['BERTH_VAR']}/lists.sqlite3"
    import django

    django.setup()
    from django.core.management import call_command

    call_command("migrate", verbosity=0)


def fill() -> tuple[Any, str]:
    from accounts.models import User
    from notebooks.models import Workspace
    from projects.models import Membership, Project
    from volumes.models import Volume

    users = User.objects.bulk_create(
        [User(username=f"u{i}", email=f"u{i}@example.org") for i in range(PROJECTS)]
    )
    projects = Project.objects.bulk_create(
        [Project(slug=f"p{i}", name=f"P {i}", phase="running") for i in range(PROJECTS)]
    )
    Membership.objects.bulk_create(
        [Membership(project=p, user=u, role="owner") for p, u in zip(projects, users, strict=True)]
    )
    homes = Volume.objects.bulk_create(
        [
            Volume(project=p, owner=u, name="home", phase="running")
            for p, u in zip(projects, users, strict=True)
        ]
    )
    # half of all rows in one project: the page must not depend on how many there are
    where = [0 if i % 2 else i % PROJECTS for i in range(ROWS)]
    Workspace.objects.bulk_create(
        [
            Workspace(
                project=projects[w],
                owner=users[w],
                home=homes[w],
                name=f"w{i}",
                phase="stopped",
                desired="stopped",
                observed_generation=1,
            )
            for i, w in enumerate(where)
        ]
    )
    return users[0], projects[0].slug


def hand_written(slug: str) -> bytes:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(_SQL, [slug])
        names = [c[0] for c in cursor.description]
        rows = [dict(zip(names, row, strict=True)) for row in cursor.fetchall()]
    return json.dumps({"results": rows[:PAGE]}, default=str).encode()


def run(rounds: int = 7, calls: int = 60) -> list[Result]:
    setup()
    user, slug = fill()
    from django.http import HttpRequest, HttpResponse
    from django.test import Client
    from django.urls import path

    import portal.urls

    def bare(_request: HttpRequest) -> HttpResponse:
        return HttpResponse(hand_written(slug), content_type="application/json")

    bare.login_required = False  # type: ignore[attr-defined]
    portal.urls.urlpatterns.append(path("bench/bare", bare))
    client = Client()
    client.force_login(user, backend="allauth.account.auth_backends.AuthenticationBackend")

    def rate(url: str) -> float:
        begin = time.perf_counter()
        for _ in range(calls):
            assert client.get(url).status_code == 200
        return calls / (time.perf_counter() - begin)

    ours, peer = [], []
    ours_url = f"/api/v1/projects/{slug}/workspaces?page_size={PAGE}"
    rate(ours_url), rate("/bench/bare")
    for number in range(rounds):
        for url in (ours_url, "/bench/bare") if number % 2 else ("/bench/bare", ours_url):
            (ours if url == ours_url else peer).append(rate(url))
    return [
        Result(
            f"list of workspaces among {ROWS}, pages/s",
            "pages/s",
            ours,
            peer,
            "hand-written SQL + json view behind the same middleware",
            0.5,
            0.3,
            "higher",
            note=f"median {1000 / statistics.median(ours):.1f} ms a page of {PAGE}",
        )
    ]
