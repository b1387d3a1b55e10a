"""C12: many at once for the last GPU; exactly as many win as there are, the rest get the limit.

Of a project, and of each of its people.
"""

from typing import Any

import pytest

from tests.support.races import Races, race_on

RACE = "tests.quotas.race"
LIMITS = (1, 7)
EACH = 3  # of five people
WORDS = (*map(str, LIMITS), f"each-{EACH}")


def expected(vendor: str) -> list[dict[str, Any]]:
    rounds = [{"won": n, "refused": 50 - n, "reserved": n, "vendor": vendor} for n in LIMITS]
    n = 5 * EACH
    each = {"won": n, "refused": 50 - n, "reserved": n, "vendor": vendor, "most": EACH}
    return [*rounds, each]


def test_c12_fifty_at_once_for_the_last_gpus_on_sqlite(races: Races) -> None:
    assert races.run(RACE, *WORDS) == expected("sqlite")


@pytest.mark.postgres
def test_c12_fifty_at_once_for_the_last_gpus_on_postgresql(migrated_postgres: str) -> None:
    assert race_on(migrated_postgres, RACE, *WORDS) == expected("postgresql")
