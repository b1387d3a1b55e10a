"""E14: an upgrade that rolls: processes of an older version and of this one share the work.

The machine is the fake one, whose world is a file: it counts each start of each workload.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Iterator
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
BEFORE = 6  # of three tests that each may be tried twice
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


@pytest.fixture(scope="module")
def before(mixed: Mixed, people: dict[str, httpx.Client]) -> list[dict[str, Any]]:
    """Workspaces of the time before; the database is of the new version from now on."""
    old = people["old"]
    rows = [launch(old, "demo", f"before-{secrets.token_hex(2)}") for _ in range(BEFORE)]
    for row in rows:
        settled(mixed, old, row)
    made = mixed.migrate("new")
    assert made.returncode == 0, made.stderr
    return rows


@pytest.fixture
def aged(before: list[dict[str, Any]]) -> dict[str, Any]:
    """One of them, that no other test has, nor an earlier try of this one."""
    return before.pop()


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


def test_e14_an_older_version_goes_on_while_the_database_is_ahead_of_it(
    mixed: Mixed, people: dict[str, httpx.Client], aged: dict[str, Any]
) -> None:
    mixed.run_only(OLD_WEB, OLD_WORKER)
    old = people["old"]
    assert old.get(at(aged)).json()["status"]["phase"] == "running"
    row = launch(old, new_project(old, "meanwhile"), "meanwhile")
    settled(mixed, old, row)
    assert starts(mixed)[row["uid"]] == [1]
    again = mixed.migrate("old")  # as after a rollback: it changes nothing, and says why
    assert again.returncode != 0
    assert "made by a newer Berth" in again.stderr


def test_e14_what_an_older_web_accepted_waits_in_the_queue_and_a_new_worker_does_it(
    mixed: Mixed, people: dict[str, httpx.Client], aged: dict[str, Any]
) -> None:
    mixed.run_only(OLD_WEB)
    old = people["old"]
    row = launch(old, new_project(old, "queued"), "queued")
    ok(old.post(f"{at(aged)}/stop"))
    mixed.run_only(OLD_WEB, NEW_WORKER)
    settled(mixed, old, row)
    settled(mixed, old, aged, "stopped")
    ok(old.post(f"{at(aged)}/start"))
    settled(mixed, old, aged)
    assert starts(mixed)[row["uid"]] == [1]
    assert starts(mixed)[aged["uid"]] == [1, 2]


def test_e14_what_a_new_web_accepted_is_done_by_an_older_worker_that_started_later(
    mixed: Mixed, people: dict[str, httpx.Client], aged: dict[str, Any]
) -> None:
    mixed.run_only(NEW_WEB)
    new = people["new"]
    row = launch(new, new_project(new, "back"), "back")
    ok(new.delete(at(aged)))
    mixed.run_only(NEW_WEB, OLD_WORKER)  # its pod was moved: the database is ahead when it begins
    settled(mixed, new, row)
    gone(mixed, new, aged)
    ok(new.post(f"{at(row)}/stop"))
    settled(mixed, new, row, "stopped")
    assert starts(mixed)[row["uid"]] == [1]
    ok(new.delete(at(row)))  # with what the new version attached to it
    gone(mixed, new, row)


@pytest.mark.usefixtures("before")
def test_e14_workers_of_both_versions_do_many_launches_once_each_and_end_them(
    mixed: Mixed, people: dict[str, httpx.Client]
) -> None:
    mixed.run_only(OLD_WEB, OLD_WORKER, NEW_WEB, NEW_WORKER)
    project = new_project(people["new"], "many")
    both = [people["old"], people["new"]]
    rows = [launch(both[n % 2], project, f"one-{n}") for n in range(MANY)]
    for n, row in enumerate(rows):
        settled(mixed, both[n % 2], row)
    assert [starts(mixed)[row["uid"]] for row in rows] == [[1]] * MANY
    for n, row in enumerate(rows):
        ok(both[(n + 1) % 2].post(f"{at(row)}/stop"))
    for n, row in enumerate(rows):
        settled(mixed, both[n % 2], row, "stopped")
        words = [one["word"] for one in timeline(both[n % 2], row)]
        assert len(words) == len(set(words)), words
    mixed.run_only(NEW_WEB, NEW_WORKER)  # the last of the older ones end: the rest is the new one's
    for row in rows:
        ok(people["new"].delete(at(row)))
    for row in rows:
        gone(mixed, people["new"], row)
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
