"""E13: two presses at one endpoint at the same moment, with real threads on PostgreSQL."""

import pytest

from tests.support.races import race_on

# After each of them all is judged: tests/serving/race.py.
SHORT = (
    "canary:promote+archive",
    "canary:promote+back",
    "canary:carried+archive",
    "promoting:duty+stop",
    "asleep:wake+wake+wake+wake",
    "asleep:wake+archive",
    "canary:carried+delete-project",
    "running:canary+version-delete",
    "deploy:",
    "referred:",
    "begun:",
)
REST = (
    "running:canary+canary",
    "running:canary+sleep",
    "running:canary+delete",
    "running:canary+delete-project",
    "running:canary+model-delete",
    "running:new+archive",
    "running:new+delete-project",
    "running:sleep+sleep",
    "running:sleep+wake",
    "running:scale+sleep",
    "canary:promote+promote",
    "canary:promote+split",
    "canary:promote+end",
    "canary:promote+sleep",
    "canary:promote+stop",
    "canary:promote+delete",
    "canary:promote+delete-project",
    "canary:split+delete",
    "promoting:duty+duty",
    "promoting:duty+back",
    "promoting:duty+carried",
    "promoting:duty+delete",
    "served:roll-back+roll-back",
    "served:roll-back+canary",
    "asleep:wake+stop",
    "asleep:wake+delete",
    "asleep:wake+engine",
)
TAKEN, REFUSED = "taken", "refused"


def check(url: str, pairs: tuple[str, ...]) -> None:
    found = race_on(url, "tests.serving.race", *pairs)
    assert found.pop("vendor") == "postgresql"
    assert list(found) == list(pairs)
    for pair, results in found.items():
        odd = {what for what in results if what.split()[-1] not in {TAKEN, REFUSED}}
        assert odd == set(), pair
        assert any(what.endswith(TAKEN) for what in results), pair


@pytest.mark.postgres
def test_e13_two_presses_at_one_endpoint_on_postgresql(migrated_postgres: str) -> None:
    check(migrated_postgres, SHORT)


@pytest.mark.long("27 more pairs of presses; ten that found most: serving/test_races.py")
@pytest.mark.postgres
def test_e13_any_two_presses_at_one_endpoint_on_postgresql(migrated_postgres: str) -> None:
    check(migrated_postgres, REST)
