"""Samples are counted once though several workers measure and roll up at once."""

from typing import Any

import pytest

from tests.metrics.race import MEASURING, TURNS, WORK
from tests.support.races import Races, race_on

RACE = "tests.metrics.race"
MADE = MEASURING * TURNS * WORK


def expected(vendor: str) -> dict[str, Any]:
    counted = [MADE, MADE * 10.0]
    return {
        "made": MADE,
        "errors": [],
        "vendor": vendor,
        "MinuteSample": counted,
        "HourSample": counted,
    }


def test_e13_many_that_measure_and_roll_up_count_each_sample_once_on_sqlite(races: Races) -> None:
    assert races.run(RACE) == expected("sqlite")


@pytest.mark.postgres
def test_e13_many_that_measure_and_roll_up_count_each_sample_once_on_postgresql(
    migrated_postgres: str,
) -> None:
    assert race_on(migrated_postgres, RACE) == expected("postgresql")
