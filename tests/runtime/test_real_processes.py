"""Workers as processes: they race, they are killed, and nothing is lost or done twice."""

import pytest


def check_kill(result):
    assert result["wrong"] == []
    died = result["deaths"]
    assert {p.partition("#")[0] for p in died["running"]} >= {
        "claimed",
        "admitted",
        "volumes-ensured",
        "ensured",
        "route-wanted",
        "routed",
        "stepped",
        "applied",
        "committed",
    }
    for desired in ("stopped", "absent"):
        assert {p.partition("#")[0] for p in died[desired]} >= {
            "tokens-revoked",
            "route-dropped",
            "released",
            "stepped",
            "applied",
        }


def check_race(result):
    assert result == {
        "running": 60,
        "twice": 0,
        "started": 60,
        "routes": 60,
        "doubled_notes": 0,
        "holds": 0,
        "claims": 60,
        "codes": [0, 0, 0, 0],
    }


@pytest.mark.long("a sweep of kill points; the same on PostgreSQL beside it")
@pytest.mark.real
def test_e1_a_worker_killed_at_any_step_loses_and_doubles_nothing_on_sqlite(portal):
    portal.migrate()
    check_kill(portal.scenario("kill"))


@pytest.mark.postgres
def test_e1_a_worker_killed_at_any_step_loses_and_doubles_nothing_on_postgresql(postgres_portal):
    postgres_portal.migrate()
    check_kill(postgres_portal.scenario("kill"))


@pytest.mark.long("the same race on PostgreSQL beside it")
@pytest.mark.real
def test_four_workers_race_and_each_thing_is_started_once_on_sqlite(portal):
    portal.migrate()
    check_race(portal.scenario("race"))


@pytest.mark.postgres
def test_four_workers_race_and_each_thing_is_started_once_on_postgresql(postgres_portal):
    postgres_portal.migrate()
    check_race(postgres_portal.scenario("race"))
