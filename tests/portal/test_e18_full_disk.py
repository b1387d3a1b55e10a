"""E18: no room on the portal's disk: it reads, stops and deletes, begins nothing, and comes back."""

from typing import Any

import pytest
from django.db import OperationalError
from django.test import Client

from notebooks.models import Workspace
from tests.support import driving

EVERYTHING = 2**40  # MiB: more than any disk has
BASE = "/api/v1/projects/vision/workspaces"


@pytest.fixture(autouse=True)
def world(db: None) -> Any:
    from clusters import registry

    registry.reset()
    yield registry
    registry.reset()


@pytest.fixture
def presets() -> None:
    from notebooks.services import ensure_default_presets

    ensure_default_presets()


@pytest.fixture
def full(settings: Any) -> Any:
    def fill(*, is_full: bool) -> None:
        settings.BERTH_DISK_FLOOR_MIB = EVERYTHING if is_full else 1

    return fill


def post(client: Client, path: str, body: Any = None) -> Any:
    return client.post(path, body or {}, content_type="application/json")


@pytest.fixture
def running(presets: Any, project: Any, alice: Any, as_user: Any) -> Any:
    made = post(as_user(alice), BASE, {"name": "before"})
    assert made.status_code == 202, made.content
    driving.run_due()
    return Workspace.objects.get()


def test_nothing_new_begins_with_one_sentence_and_it_comes_back_by_itself(
    full: Any, running: Any, alice: Any, as_user: Any
) -> None:
    client = as_user(alice)
    full(is_full=True)
    refused = post(client, BASE, {"name": "new"})
    assert (refused.status_code, refused.json()["code"]) == (507, "disk-full")
    assert "disk is full" in refused.json()["detail"]
    page = client.post("/projects/vision/workspaces/launch/", {"name": "new"})
    assert page.status_code == 507
    assert "disk is full" in page.content.decode()
    assert Workspace.objects.count() == 1
    full(is_full=False)
    assert post(client, BASE, {"name": "new"}).status_code == 202


def test_reading_goes_on_with_a_banner_and_what_runs_stays(
    full: Any, running: Any, alice: Any, as_user: Any, operator: Any
) -> None:
    full(is_full=True)
    driving.run_due()
    running.refresh_from_db()
    assert running.phase == "running"
    assert as_user(alice).get(BASE).json()
    page = as_user(alice).get("/projects/vision/workspaces/").content.decode()
    assert "portal&#x27;s disk is full" in page
    ready = Client().get("/readyz").json()
    assert (ready["status"], ready["checks"]["disk"]) == ("degraded", "down")
    full(is_full=False)
    page = as_user(alice).get("/projects/vision/workspaces/").content.decode()
    assert "disk is full" not in page


def test_what_makes_room_works(full: Any, running: Any, alice: Any, as_user: Any) -> None:
    full(is_full=True)
    path = f"{BASE}/{running.short_id}"
    assert post(as_user(alice), f"{path}/stop").status_code == 202
    driving.run_due()
    running.refresh_from_db()
    assert running.phase == "stopped"
    assert post(as_user(alice), f"{path}/start").status_code == 507
    assert as_user(alice).delete(path).status_code == 202


def test_nothing_begins_by_itself_either(
    full: Any, project: Any, alice: Any, principal: Any
) -> None:
    from django.db import transaction

    from common.disk import DiskFull
    from common.ids import new_uid
    from quotas.services import reserve

    full(is_full=True)
    with pytest.raises(DiskFull), transaction.atomic():
        reserve(
            principal=principal(alice),
            project=project,
            owner=alice,
            uid=new_uid(),
            amounts={"cpu_milli": 1},
        )


@pytest.mark.parametrize("words", ["database or disk is full", "could not extend file x: No space"])
def test_a_database_that_ran_out_says_the_same(
    words: str,
    presets: Any,
    project: Any,
    alice: Any,
    as_user: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def out_of_room(*_words: Any, **_more: Any) -> None:
        raise OperationalError(words)

    monkeypatch.setattr("work.services.launch._create", out_of_room)
    refused = post(as_user(alice), BASE, {"name": "new"})
    assert (refused.status_code, refused.json()["code"]) == (507, "disk-full")
    assert not Workspace.objects.exists()


def test_sqlite_undoes_what_it_had_no_room_for(tmp_path: Any) -> None:
    """The real engine on a file that may not grow: the words it uses, and no half of a change."""
    import sqlite3

    from common.disk import is_disk_full

    with sqlite3.connect(tmp_path / "small.sqlite3") as database:
        database.execute("CREATE TABLE kept (text)")
        database.execute("INSERT INTO kept VALUES ('before')")
        database.commit()
        pages = database.execute("PRAGMA page_count").fetchone()[0]
        database.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(sqlite3.OperationalError) as error:
            database.executemany("INSERT INTO kept VALUES (?)", [("x" * 4096,)] * 10)
        database.rollback()
        assert is_disk_full(OperationalError(str(error.value)))
        assert database.execute("SELECT text FROM kept").fetchall() == [("before",)]
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)


def test_other_errors_of_a_database_are_not_a_full_disk() -> None:
    from common.disk import is_disk_full

    assert not is_disk_full(OperationalError("database is locked"))
    assert not is_disk_full(ValueError("database or disk is full"))
