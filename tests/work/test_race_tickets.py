"""A ticket pressed many times at once is used once, on real threads and databases."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.races import Races, race_on

RACE = "tests.work.race_tickets"


def check(found: dict[str, Any]) -> None:
    assert found["results"] == {"answered": 8}
    assert (found["tickets"], found["used"], found["launch"]) == (1, 1, 2)
    assert (found["stands"], found["started"]) == (True, 1)


def test_j1b_eight_presses_at_once_use_a_ticket_once_on_sqlite(races: Races) -> None:
    check(races.run(RACE))


@pytest.mark.postgres
def test_j1b_eight_presses_at_once_use_a_ticket_once_on_postgresql(
    migrated_postgres: str,
) -> None:
    check(race_on(migrated_postgres, RACE))


@pytest.mark.postgres
def test_j1b_resume_and_go_on_without_gpus_at_once_agree_on_one_of_them(
    migrated_postgres: str,
) -> None:
    """Whoever comes later is told, or finds it as asked; a ticket is never lost or used twice."""
    found = race_on(migrated_postgres, RACE, "doors")
    assert set(found["results"]) <= {"answered", "Conflict"}
    assert found["tickets"] == 1
    assert found["used"] == int(found["gpus"] == 1)
    assert found["stands"] == (found["gpus"] == 1)
