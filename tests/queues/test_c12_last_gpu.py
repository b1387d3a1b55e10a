"""C12 at a machine's line: fifty at once for the last GPU, and a ceiling that is lowered meanwhile."""

from typing import Any

import pytest

from tests.support.races import Races, race_on

RACE = "tests.queues.race"


def judged(rounds: list[dict[str, Any]], vendor: str) -> None:
    one, lowered = rounds
    assert one == {"in": 1, "waits": 49, "held": 1, "then": [], "vendor": vendor}
    (then,) = lowered["then"]
    assert lowered["held"] == lowered["in"] == max(then, 3)
    assert lowered["in"] + lowered["waits"] == 50


def test_c12_fifty_at_once_for_the_last_gpu_of_a_machine_on_sqlite(races: Races) -> None:
    judged(races.run(RACE, "1", "8:3"), "sqlite")


@pytest.mark.postgres
def test_c12_fifty_at_once_for_the_last_gpu_of_a_machine_on_postgresql(
    migrated_postgres: str,
) -> None:
    judged(race_on(migrated_postgres, RACE, "1", "8:3"), "postgresql")
