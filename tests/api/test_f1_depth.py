"""JSON that is deeper than anything that is said here."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.django_db

AT = "/api/v1/projects/vision/models"


@pytest.mark.parametrize("levels", [101, 900, 5_000, 500_000])
@pytest.mark.parametrize(("opens", "closes"), [("[", "]"), ('{"a":', "}")])
def test_f1_json_of_any_depth_is_refused_by_a_sentence(
    as_user, project, alice, levels, opens, closes
) -> None:
    body = opens * levels + "0" + closes * levels
    answer = as_user(alice).post(AT, body, content_type="application/json")
    assert answer.status_code in {400, 413}, answer.content
    if len(body) < 2**20:
        assert (answer.status_code, answer.json()["code"]) == (400, "parse-error")
        assert "100 levels" in answer.json()["detail"]


def test_f1_what_people_say_is_far_from_that(api, project, alice) -> None:
    deep: object = 1
    for _level in range(60):
        deep = [deep]
    answer = api(alice, "POST", AT, {"name": "digits", "description": deep})
    assert answer.json()["fields"] == {"description": ["Not a valid string."]}
