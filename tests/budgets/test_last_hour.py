"""Many at once for the last hours of a budget: exactly as many win as there are hours."""

from typing import Any

import pytest

from tests.support.races import Races, race_on

RACE = "tests.budgets.race"
HOURS = (1, 7)
WORDS = tuple(map(str, HOURS))


def expected(vendor: str) -> list[dict[str, Any]]:
    return [{"won": n, "refused": 20 - n, "reserved": n, "vendor": vendor} for n in HOURS]


def test_c12_many_at_once_for_the_last_hours_on_sqlite(races: Races) -> None:
    assert races.run(RACE, *WORDS) == expected("sqlite")


@pytest.mark.postgres
def test_c12_many_at_once_for_the_last_hours_on_postgresql(migrated_postgres: str) -> None:
    assert race_on(migrated_postgres, RACE, *WORDS) == expected("postgresql")
