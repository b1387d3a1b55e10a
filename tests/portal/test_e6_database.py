"""E6: a database that is away, restarting or too busy is said as such, and nothing is half done."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from django.db import DatabaseError, InterfaceError, OperationalError
from django.db.utils import ConnectionHandler

from common.database import is_database_away
from common.disk import is_disk_full
from notebooks.models import Workspace
from portal.settings.deploy import from_url
from tests.support.migrated import postgres_database

BASE = "/api/v1/projects/vision/workspaces"
LAUNCH = "work.services.launch._create"
LOCKED = "database is locked"


@pytest.fixture
def presets(db: None) -> None:
    from notebooks.services import ensure_default_presets

    ensure_default_presets()


@pytest.fixture
def locked(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_turn(*_words: Any, **_more: Any) -> None:
        raise OperationalError(LOCKED)

    monkeypatch.setattr(LAUNCH, no_turn)


@pytest.mark.usefixtures("presets", "locked")
def test_e6_the_api_says_so_and_when_to_try_again(project: Any, alice: Any, as_user: Any) -> None:
    refused = as_user(alice).post(BASE, {"name": "new"}, content_type="application/json")
    assert (refused.status_code, refused.json()["code"]) == (503, "database-away")
    assert refused["Content-Type"] == "application/problem+json"
    assert int(refused["Retry-After"]) > 0
    assert "Try again" in refused.json()["detail"]
    assert not Workspace.objects.exists()


@pytest.mark.usefixtures("presets", "locked")
def test_e6_so_does_a_page(project: Any, alice: Any, as_user: Any) -> None:
    client = as_user(alice)
    client.raise_request_exception = False
    page = client.post("/projects/vision/workspaces/launch/", {"name": "new"})
    assert page.status_code == 503
    assert int(page["Retry-After"]) > 0
    assert "The database did not answer in time" in page.content.decode()
    assert "fault of Berth" not in page.content.decode()


@pytest.mark.parametrize("path", ["/", BASE])
def test_e6_so_does_a_request_that_never_came_to_its_view(
    path: str, alice: Any, as_user: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = as_user(alice)
    client.raise_request_exception = False

    def broken(*_words: Any, **_more: Any) -> None:
        raise InterfaceError("connection already closed")

    monkeypatch.setattr(
        "django.contrib.sessions.backends.db.SessionStore._get_session_from_db", broken
    )
    answer = client.get(path)
    assert answer.status_code == 503
    assert "The database did not answer in time" in answer.content.decode()


@pytest.mark.parametrize("words", ["no such column: x", "database or disk is full"])
def test_what_trying_again_does_not_help_is_not_that(words: str) -> None:
    assert not is_database_away(OperationalError(words))
    assert not is_database_away(DatabaseError(LOCKED))


# --- As PostgreSQL itself says it -----------------------------------------------------------------------


@pytest.fixture
def postgres() -> Iterator[str]:
    with postgres_database() as url:
        with psycopg.connect(url) as database:
            database.execute("CREATE TABLE thing (id int PRIMARY KEY)")
            database.execute("INSERT INTO thing VALUES (1), (2)")
        yield url


@pytest.fixture
def connect(postgres: str, django_db_blocker: Any) -> Iterator[Any]:
    """Open a connection of the portal's own settings; ``options`` go over them."""
    opened = []

    def make(url: str = postgres, **options: Any) -> Any:
        made = from_url(url, None)  # type: ignore[arg-type]  # a folder is for SQLite
        made["OPTIONS"] |= options
        handler = ConnectionHandler({"default": made})
        opened.append(handler["default"])
        return handler

    with django_db_blocker.unblock():
        yield make
        for one in opened:
            one.close()
            one.close_pool()


def said(connection: Any, statement: str) -> DatabaseError:
    def ask() -> None:
        with connection.cursor() as cursor:
            cursor.execute(statement)

    with pytest.raises(DatabaseError) as error:
        ask()
    return error.value


@pytest.mark.postgres
def test_e6_a_pool_without_a_free_connection(connect: Any) -> None:
    handler = connect(pool={"min_size": 1, "max_size": 1, "timeout": 60})
    handler["default"].ensure_connection()
    handler["default"].pool.timeout = 0.2  # the first one may take longer to come
    found: list[DatabaseError] = []
    one = threading.Thread(target=lambda: found.append(said(handler["default"], "SELECT 1")))
    one.start()
    one.join()
    assert is_database_away(found[0])


@pytest.mark.postgres
def test_e6_a_connection_that_the_server_ended(connect: Any, postgres: str) -> None:
    connection = connect()["default"]
    connection.ensure_connection()
    with psycopg.connect(postgres, autocommit=True) as admin:
        admin.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid()"
        )
    assert is_database_away(said(connection, "SELECT 1"))


@pytest.mark.postgres
def test_e6_nobody_listens(connect: Any) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"postgres://someone:pass@127.0.0.1:{free.getsockname()[1]}/x"
        connection = connect(url, pool={"min_size": 1, "max_size": 1, "timeout": 0.2})["default"]
        assert is_database_away(said(connection, "SELECT 1"))


@pytest.mark.postgres
def test_e6_locks_that_are_not_given_in_time(connect: Any, postgres: str) -> None:
    connection = connect(options="-c lock_timeout=100")["default"]
    with psycopg.connect(postgres) as other:
        other.execute("UPDATE thing SET id = id WHERE id = 1")
        assert is_database_away(said(connection, "UPDATE thing SET id = id WHERE id = 1"))


def until_it_waits(url: str, pid: int) -> None:
    """Return when this server process waits for a lock."""
    asked = "SELECT wait_event_type FROM pg_stat_activity WHERE pid = %s"
    with psycopg.connect(url, autocommit=True) as admin:
        deadline = time.monotonic() + 60
        while admin.execute(asked, [pid]).fetchone() != ("Lock",):
            assert time.monotonic() < deadline
            time.sleep(0.01)


@pytest.mark.postgres
def test_e6_a_deadlock(connect: Any, postgres: str) -> None:
    connection = connect(options="-c deadlock_timeout=100")["default"]
    with psycopg.connect(postgres) as other:
        other.execute("SET deadlock_timeout = '1h'")  # the other one is the victim
        other.execute("UPDATE thing SET id = id WHERE id = 2")
        connection.set_autocommit(False)
        with connection.cursor() as cursor:
            cursor.execute("UPDATE thing SET id = id WHERE id = 1")
        waits = threading.Thread(
            target=lambda: other.execute("UPDATE thing SET id = id WHERE id = 1")
        )
        waits.start()
        until_it_waits(postgres, other.info.backend_pid)  # it is looked for once only
        assert is_database_away(said(connection, "UPDATE thing SET id = id WHERE id = 2"))
        connection.rollback()
        waits.join()


@pytest.mark.postgres
@pytest.mark.parametrize("in_transaction", [False, True])
def test_e14_what_was_prepared_before_a_column_was_widened_is_planned_anew(
    connect: Any, postgres: str, in_transaction: bool
) -> None:
    """The next version's migration does so while this one goes on."""
    connection = connect()["default"]

    def read() -> list[Any]:
        with connection.cursor() as cursor:
            cursor.execute("SELECT name FROM thing WHERE id = %s", [1])
            return list(cursor.fetchall())

    def widen(column: str) -> None:
        with psycopg.connect(postgres, autocommit=True) as admin:
            admin.execute(f"ALTER TABLE thing {column}")

    widen("ADD COLUMN name varchar(8) DEFAULT 'a'")
    for _ in range(6):
        assert read() == [("a",)]
    widen("ALTER COLUMN name TYPE varchar(16)")
    if in_transaction:  # the next try succeeds
        connection.set_autocommit(False)
        connection.in_atomic_block = True
        with pytest.raises(DatabaseError) as error:
            read()
        assert is_database_away(error.value)
        connection.in_atomic_block = False
        connection.rollback()
    for _ in range(6):
        assert read() == [("a",)]


@pytest.mark.postgres
def test_a_fault_of_ours_stays_one(connect: Any) -> None:
    error = said(connect()["default"], "SELECT missing FROM thing")
    assert not is_database_away(error)
    assert not is_disk_full(error)
