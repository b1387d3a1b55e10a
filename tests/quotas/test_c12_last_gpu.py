"""C12: many at once for the last GPU; exactly as many win as there are, the rest get the limit."""

from typing import Any

import pytest

from tests.support.races import Races, race_on

RACE = "tests.quotas.race"
LIMITS = (1, 7)
WORDS = tuple(map(str, LIMITS))


def expected(vendor: str) -> list[dict[str, Any]]:
    return [{"won": n, "refused": 50 - n, "reserved": n, "vendor": vendor} for n in LIMITS]


def test_c12_fifty_at_once_for_the_last_gpus_on_sqlite(races: Races) -> None:
    assert races.run(RACE, *WORDS) == expected("sqlite")


@pytest.mark.postgres
def test_c12_fifty_at_once_for_the_last_gpus_on_postgresql(migrated_postgres: str) -> None:
    assert race_on(migrated_postgres, RACE, *WORDS) == expected("postgresql")
