"""E13 with real threads: a form pressed many times at once makes one workspace, and nothing starts
on a volume that is being put back.
"""

import pytest

from tests.support.races import Races, race_on

RACE = "tests.notebooks.race"
RESTORE = "tests.notebooks.race_restore"
ONE = {"answered": 12, "same": 1, "rows": 1, "homes": 1, "shared": 1, "reserved": 1}


def test_e13_twelve_presses_at_once_make_one_workspace_on_sqlite(races: Races) -> None:
    assert races.run(RACE) == {**ONE, "vendor": "sqlite"}


@pytest.mark.postgres
def test_e13_twelve_presses_at_once_make_one_workspace_on_postgresql(
    migrated_postgres: str,
) -> None:
    assert race_on(migrated_postgres, RACE) == {**ONE, "vendor": "postgresql"}


APART = {"answered": 12, "same": 12, "rows": 12, "homes": 1, "shared": 1, "reserved": 12}


def test_twelve_launches_without_a_name_all_find_one_on_sqlite(races: Races) -> None:
    assert races.run(RACE, "apart") == {**APART, "vendor": "sqlite"}


@pytest.mark.postgres
def test_twelve_launches_without_a_name_all_find_one_on_postgresql(
    migrated_postgres: str,
) -> None:
    assert race_on(migrated_postgres, RACE, "apart") == {**APART, "vendor": "postgresql"}


REFUSED = {"launch": "volume-restoring", "rows": 0}


def test_e13_no_launch_slips_past_a_restore_on_sqlite(races: Races) -> None:
    assert races.run(RESTORE) == {**REFUSED, "vendor": "sqlite"}


@pytest.mark.postgres
def test_e13_no_launch_slips_past_a_restore_on_postgresql(migrated_postgres: str) -> None:
    assert race_on(migrated_postgres, RESTORE) == {**REFUSED, "vendor": "postgresql"}
