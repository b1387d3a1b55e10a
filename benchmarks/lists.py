"""A page of the workspace list among 10,000, against hand-written SQL and json in one process."""

from __future__ import annotations

import json
import os
import statistics
import tempfile
import time
from typing import Any

from benchmarks.lib import Result, sized

ROWS, PROJECTS, PAGE = sized(10_000, 400), 200, 50

_STATUS = ("phase", "reason", "message", "observed_generation", "since", "position", "url", "ports")
_SPEC = (
    *("cpu_milli", "environment", "gpu_flavor", "gpus", "image", "image_digest", "kind"),
    "image_pinned_at",
    *("memory_mib", "network", "pool", "shm_mib", "time_limit_minutes", "cluster"),
)
# The same facts as our answer holds, whoever asks (it is the owner of them all).
_SQL = """
SELECT w.short_id AS id, w.uid, w.name, p.slug AS project, u.username AS owner, r.slug AS preset,
       'owner' AS access, w.generation, w.desired, w.phase, w.reason, w.message,
       w.observed_generation, w.phase_since AS since,
       json_extract(w.external_ref, '$.queue.position') AS position, NULL AS url, d.ports,
       w.cpu_milli, d.environment, w.gpu_flavor, w.gpus, d.image, d.image_digest,
       d.image_pinned_at, d.variant AS kind,
       w.memory_mib, w.network, w.pool, w.shm_mib, w.time_limit_minutes, w.cluster_key AS cluster,
       w.launch, h.uid AS home, w.created_at, w.asked_at, w.started_at, w.ready_at, w.ends_at,
       w.stopped_at, w.stop_reason, d.idle_stop_minutes
FROM notebooks_workspace d
JOIN work_workload w ON w.id = d.workload_ptr_id
JOIN accounts_user u ON u.id = w.owner_id
JOIN projects_project p ON p.id = w.project_id
JOIN volumes_volume h ON h.id = d.home_id
LEFT JOIN notebooks_preset r ON r.id = d.preset_id
WHERE w.deleted_at IS NULL AND p.slug = %s ORDER BY w.id DESC LIMIT 51
"""
# In no list; their names are in every answer.
_PRIVATE = ("args", "command", "env", "volumes", "credentials", "needs")
# Of work that waits, and of GPUs: none of these rows, and one look-up of a cluster for all.
_OF_GPUS = {"wait": None, "gpus_simulated": False}
# Of work that runs or is about to: none of these rows.
_OF_WHAT_RUNS = {"advice": "", "pull": None, "node": None, "state": "stopped"}


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
    from tests.support.workloads import insert
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
    insert(
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
        rows = [_shaped(dict(zip(names, row, strict=True))) for row in cursor.fetchall()]
    return json.dumps({"results": rows[:PAGE], "next": None}, default=str).encode()


def _shaped(row: dict[str, Any]) -> dict[str, Any]:
    """Give a row the shape of our answer."""
    spec = {name: row.pop(name) for name in _SPEC}
    ports = json.loads(row.pop("ports"))
    row["spec"] = {**spec, **dict.fromkeys(_PRIVATE), "ports": ports}
    row["status"] = {name: row.pop(name) for name in _STATUS if name != "ports"}
    row["status"] |= {"ports": [], **_OF_WHAT_RUNS}
    return {**row, **_OF_GPUS}


def same_facts(ours: bytes, peer: bytes) -> None:
    """Refuse to compare answers that do not say the same."""
    left, right = json.loads(ours)["results"], json.loads(peer)["results"]
    assert [row["id"] for row in left] == [row["id"] for row in right]
    for part in (lambda r: r, lambda r: r["spec"], lambda r: r["status"]):
        assert part(left[0]).keys() == part(right[0]).keys(), (
            part(left[0]).keys() ^ part(right[0]).keys()
        )


def run(rounds: int = sized(7, 1), calls: int = sized(60, 5)) -> list[Result]:
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
    same_facts(client.get(ours_url).content, client.get("/bench/bare").content)
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
