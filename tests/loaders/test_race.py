"""What two do at the same moment on one volume, with real threads."""

import pytest

from tests.support.races import Races, race_on

RACE = "tests.loaders.race"
# A second load that deletes is refused; what would begin on a volume that is put back is too.
ANSWERS = {
    "sync": {"answer": "invalid", "rows": 1},
    "restore": {"answer": "volume-restoring", "rows": 0},
    "files": {"answer": "volume-restoring", "rows": 0},
}
words = pytest.mark.parametrize("word", ANSWERS)


@words
def test_the_second_of_two_at_one_volume_sees_the_first_on_sqlite(races: Races, word: str) -> None:
    assert races.run(RACE, word) == {**ANSWERS[word], "vendor": "sqlite"}


@pytest.mark.postgres
@words
def test_the_second_of_two_at_one_volume_sees_the_first_on_postgresql(
    migrated_postgres: str, word: str
) -> None:
    assert race_on(migrated_postgres, RACE, word) == {**ANSWERS[word], "vendor": "postgresql"}
