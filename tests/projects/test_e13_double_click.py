"""E13: twenty equal requests at once with one key make one thing and get one answer."""

import pytest

from tests.support.races import Races, race_on

RACE = "tests.projects.double"
ONCE = {"answers": {"201": 20}, "bodies": 1, "projects": 1, "members": 1, "keys": 1}


def test_e13_twenty_equal_presses_at_once_make_one_project_on_sqlite(races: Races) -> None:
    assert races.run(RACE) == ONCE


@pytest.mark.postgres
def test_e13_twenty_equal_presses_at_once_make_one_project_on_postgresql(
    migrated_postgres: str,
) -> None:
    assert race_on(migrated_postgres, RACE) == ONCE
