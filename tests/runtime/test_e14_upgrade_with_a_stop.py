"""E14: an upgrade that stops: an older version ends, this one goes on with what it made and left.

Its rows move into the table of all work, so that both can't run at once (docs/dev/upgrades.md).

The machine is the fake one, whose world is a file: it counts each start of each workload.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import httpx
import psycopg
import pytest

from tests.support.clustered import ok
from tests.support.migrated import postgres_database
from tests.support.versions import Mixed, older
from tools.provision_tests import Services

pytestmark = [
    pytest.mark.real,
    pytest.mark.postgres,
    pytest.mark.redis,
    pytest.mark.long("an upgrade under load; old messages: runtime/test_e14_old_payloads.py"),
    pytest.mark.timeout(600),
]
MANY = 24
BEFORE = 5
OLD_WEB, OLD_WORKER = ("old", "web"), ("old", "worker")
NEW_WEB, NEW_WORKER = ("new", "web"), ("new", "worker")


@pytest.fixture(scope="module")
def redis(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One of its own: wake-ups are heard by every worker on a server, whose database it is."""
    if not os.environ.get("BERTH_TEST_REDIS"):
        pytest.skip("no Redis: BERTH_TEST_REDIS is not set")
    services = Services(tmp_path_factory.mktemp("services"))
    try:
        yield services.redis(services.folder / "redis")
    finally:
        services.stop()


@pytest.fixture(scope="module")
def mixed(redis: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mixed]:
    """An installation of the older version that works, and whose database was then migrated."""
    old = older(tmp_path_factory.mktemp("old"))
    folder = tmp_path_factory.mktemp("upgrade")
    with postgres_database() as database:
        env = {
            "BERTH_DATABASE_URL": database,
            "BERTH_REDIS_URL": redis,
            "BERTH_LOCAL_CLUSTER": "yes",
            "BERTH_LOCAL_DRIVER": "fake",
            "BERTH_ROUTER": "fake",
            "BERTH_FAKE_WORLD": str(folder / "world"),
        }
        one = Mixed(old, folder, env)
        try:
            yield one
        finally:
            one.close()


@pytest.fixture(scope="module")
def people(mixed: Mixed) -> Iterator[dict[str, httpx.Client]]:
    """The same person at a web process of each version; the older version works already."""
    made = mixed.migrate("old")
    assert made.returncode == 0, made.stderr
    mixed.run_only(OLD_WEB, OLD_WORKER)
    token = mixed.token("old")
    with mixed.api("old", token) as old, mixed.api("new", token) as new:
        yield {"old": old, "new": new}


@dataclass
class Upgraded:
    """What the older version left when it ended."""

    running: list[dict[str, Any]]
    queued: dict[str, Any]  # launched while no worker ran
    stopped: dict[str, Any]  # told so while no worker ran
    removed: dict[str, Any]  # so too


@pytest.fixture(scope="module")
def upgraded(mixed: Mixed, people: dict[str, httpx.Client]) -> Upgraded:
    """The older version worked and ended; this one runs, on its database and its queue."""
    old = people["old"]
    rows = [launch(old, "demo", f"before-{secrets.token_hex(2)}") for _ in range(BEFORE)]
    for row in rows:
        settled(mixed, old, row)
    mixed.run_only(OLD_WEB)
    queued = launch(old, new_project(old, "queued"), "queued")
    *running, stopped, removed = rows
    ok(old.post(f"{at(stopped)}/stop"))
    ok(old.delete(at(removed)))
    mixed.run_only()
    made = mixed.migrate("new")
    assert made.returncode == 0, made.stderr
    mixed.run_only(NEW_WEB, NEW_WORKER)
    return Upgraded(running, queued, stopped, removed)


def launch(person: httpx.Client, project: str, name: str) -> dict[str, Any]:
    """Small, so that many fit on the machine."""
    size = {"preset": "small", "cpu_milli": 100, "memory_mib": 256}
    answer = person.post(f"projects/{project}/workspaces", json={"name": name, **size})
    return dict(ok(answer).json())


def new_project(person: httpx.Client, word: str) -> str:
    """Whoever launches first in a project gets a home there: one more row of an older table."""
    slug = f"{word}-{secrets.token_hex(2)}"
    ok(person.post("projects", json={"name": slug, "slug": slug}))
    return slug


def at(row: dict[str, Any]) -> str:
    return f"projects/{row['project']}/workspaces/{row['id']}"


def settled(
    mixed: Mixed, person: httpx.Client, row: dict[str, Any], phase: str = "running"
) -> dict[str, Any]:
    def look() -> Any:
        now = ok(person.get(at(row))).json()
        there = now["status"]["phase"] == phase
        return now if there and now["status"]["observed_generation"] == now["generation"] else None

    return dict(mixed.until(look, f"{row['name']} {phase}"))


def gone(mixed: Mixed, person: httpx.Client, row: dict[str, Any]) -> None:
    mixed.until(lambda: person.get(at(row)).status_code == 404, f"{row['name']} gone")


def starts(mixed: Mixed) -> dict[str, list[int]]:
    """For each workload the launches that the machine really started."""
    return dict(json.loads((mixed.folder / "world.driver.json").read_text())["starts"])


def test_e14_what_an_older_version_runs_goes_on_and_its_queue_is_done(
    mixed: Mixed, people: dict[str, httpx.Client], upgraded: Upgraded
) -> None:
    new = people["new"]
    for row in upgraded.running:
        now = settled(mixed, new, row)
        assert now["launch"] == 1
    settled(mixed, new, upgraded.queued)
    settled(mixed, new, upgraded.stopped, "stopped")
    gone(mixed, new, upgraded.removed)
    known = starts(mixed)
    rows = [*upgraded.running, upgraded.queued, upgraded.stopped, upgraded.removed]
    assert [known[row["uid"]] for row in rows] == [[1]] * len(rows)


def test_e14_what_an_older_version_made_is_stopped_started_and_removed_by_this_one(
    mixed: Mixed, people: dict[str, httpx.Client], upgraded: Upgraded
) -> None:
    new, row = people["new"], upgraded.running.pop()
    settled(mixed, new, row)
    before = timeline(new, row)
    ok(new.post(f"{at(row)}/stop"))
    settled(mixed, new, row, "stopped")
    ok(new.post(f"{at(row)}/start"))
    settled(mixed, new, row)
    assert starts(mixed)[row["uid"]] == [1, 2]
    words = [one["word"] for one in timeline(new, row) if one not in before]
    assert len(words) == len(set(words)), words
    ok(new.delete(at(row)))
    gone(mixed, new, row)
    assert claims(mixed, [row]) == 0


def test_e14_an_older_version_that_comes_back_is_told_why_it_can_not(
    mixed: Mixed, upgraded: Upgraded
) -> None:
    assert upgraded
    again = mixed.migrate("old")
    assert again.returncode != 0
    assert "made by a newer Berth" in again.stderr


@pytest.mark.usefixtures("upgraded")
def test_e14_this_version_does_many_launches_once_each_after_it(
    mixed: Mixed, people: dict[str, httpx.Client]
) -> None:
    new = people["new"]
    project = new_project(new, "many")
    rows = [launch(new, project, f"one-{n}") for n in range(MANY)]
    for row in rows:
        settled(mixed, new, row)
    for row in rows:
        ok(new.delete(at(row)))
    for row in rows:
        gone(mixed, new, row)
    assert [starts(mixed)[row["uid"]] for row in rows] == [[1]] * MANY
    assert claims(mixed, rows) == 0


def timeline(person: httpx.Client, row: dict[str, Any]) -> list[dict[str, Any]]:
    return list(ok(person.get(f"{at(row)}/events", headers={"Accept": "application/json"})).json())


def claims(mixed: Mixed, rows: list[dict[str, Any]]) -> int:
    with psycopg.connect(mixed.env["BERTH_DATABASE_URL"]) as database:
        found = database.execute(
            "SELECT count(*) FROM clusters_claim WHERE workload_uid = ANY(%s::uuid[])",
            ([row["uid"] for row in rows],),
        ).fetchone()
    return int(found[0]) if found else -1
