"""E13 with real threads: a form pressed many times at once makes one job, names are taken once."""

import pytest

from tests.support.races import Races, race_on

RACE = "tests.jobs.race"
ONE = {"answered": 12, "same": 1, "rows": 1, "names": 1, "shared": 1, "reserved": 1}
APART = {"answered": 12, "same": 12, "rows": 12, "names": 12, "shared": 1, "reserved": 12}
CASES = [((), ONE), (("apart",), APART)]


@pytest.mark.parametrize(("words", "wanted"), CASES)
def test_e13_twelve_presses_at_once_on_sqlite(
    words: tuple[str, ...], wanted: dict[str, int], races: Races
) -> None:
    assert races.run(RACE, *words) == {**wanted, "vendor": "sqlite"}


@pytest.mark.postgres
@pytest.mark.parametrize(("words", "wanted"), CASES)
def test_e13_twelve_presses_at_once_on_postgresql(
    words: tuple[str, ...], wanted: dict[str, int], migrated_postgres: str
) -> None:
    assert race_on(migrated_postgres, RACE, *words) == {**wanted, "vendor": "postgresql"}


@pytest.mark.postgres
def test_a_smoke_run_that_ends_while_its_job_is_cancelled_on_postgresql(
    migrated_postgres: str,
) -> None:
    wanted = {"end": 4, "cancel": 4, "cancelled": 4, "vendor": "postgresql"}
    assert race_on(migrated_postgres, "tests.jobs.race_of_a_smoke_run") == wanted


@pytest.mark.postgres
def test_of_many_workers_one_fetches_the_code_on_postgresql(migrated_postgres: str) -> None:
    once = {"fetched": 1, "packages": 1, "known": True, "written": True, "vendor": "postgresql"}
    assert race_on(migrated_postgres, "tests.jobs.race_of_fetching") == once


def test_a_job_is_held_as_long_as_one_large_file_of_its_code_takes(races: Races) -> None:
    found = races.run("tests.jobs.holding_of_fetching")
    assert found["looks"] >= 10, "it went by faster than it is held"
    assert (found["taken"], found["is_kept"]) == ([], True)


@pytest.mark.postgres
def test_e1_g13_workers_killed_while_a_job_goes_on_with_fewer_on_postgresql(
    migrated_postgres: str,
) -> None:
    """Another job comes meanwhile: all GPUs that are left run, each launch is made once."""
    found = race_on(migrated_postgres, "tests.jobs.race_of_fewer")
    assert found.pop("killed") >= 6, "hardly a worker was killed"
    right = {"right": 6, "places": 6, "least": 6, "launches": 18, "vendor": "postgresql"}
    assert found == right
