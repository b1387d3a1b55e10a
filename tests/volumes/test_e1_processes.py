"""E1, C12: real workers killed at every named step of a volume, and real threads in a race."""

import json

import pytest

from tests.runtime.conftest import portal  # noqa: F401 - a fixture
from tests.support.migrated import postgres_database

ENGINE = {"claimed", "stepped", "applied", "committed"}


def run(portal, name):  # noqa: F811 - the fixture
    portal.migrate()
    return json.loads(portal.run("-m", "tests.volumes.processes", name).splitlines()[-1])


@pytest.mark.long("a sweep of kill points; the engine's own: runtime/test_real_processes.py")
@pytest.mark.real
def test_e1_a_worker_killed_at_any_step_is_followed_by_one_that_finishes(portal):  # noqa: F811
    found = run(portal, "kill")
    assert found["wrong"] == []
    died = {point for points in found["deaths"].values() for point in points}
    assert died == {*found["named"], *ENGINE}  # each named step was really reached
    assert all(set(points) >= ENGINE for points in found["deaths"].values())


RACED = {
    "same": {"done": 1, "name-taken": 7},
    "rows": 1,
    "grown": {"done": 2, "limit-exceeded": 4},
    "over": False,
    "sizes_are_reserved": True,
    "desired": "absent",
}


def check(found):
    assert set(found.pop("ended")) <= {"done", "volume-deleting"}
    assert found == RACED


@pytest.mark.long("the same race on PostgreSQL beside it")
@pytest.mark.real
def test_c12_people_who_press_at_once_stay_within_names_and_limits_on_sqlite(portal):  # noqa: F811
    check(run(portal, "race"))


@pytest.mark.postgres
def test_c12_people_who_press_at_once_stay_within_names_and_limits_on_postgresql(portal):  # noqa: F811
    with postgres_database(portal.env["DJANGO_SETTINGS_MODULE"]) as url:
        portal.env["BERTH_DATABASE_URL"] = url
        check(run(portal, "race"))
