"""Endpoints go through every door that work has, with what is their own."""

from __future__ import annotations

from typing import Any

import pytest

from tests.serving.conftest import ENDPOINTS, LEAST

pytestmark = [pytest.mark.django_db, pytest.mark.usefixtures("project")]


def test_one_is_made_and_told(api, serve, alice, vera) -> None:
    row = serve()
    told = api(vera, "GET", f"{ENDPOINTS}/{row.short_id}").json()
    assert (told["name"], told["status"]["state"], told["replicas"]) == ("digits", "ready", 1)
    assert told["spec"]["command"] is None  # its owner's alone


@pytest.mark.parametrize("name", ["Digits", "di gits", "-digits", "a/b", "x" * 51])
def test_its_name_is_fit_for_an_address(api, alice, name) -> None:
    answer = api(alice, "POST", ENDPOINTS, {**LEAST, "name": name})
    assert (answer.status_code, list(answer.json()["fields"])) == (400, ["name"])


def test_it_serves_the_newest_version_of_a_model_where_none_is_named(
    api, serve, version, alice
) -> None:
    version("v1")
    newest = version("v2")
    row = serve(model="digits", command=[])
    assert (row.model, row.version) == ("digits/v2", newest)


@pytest.mark.parametrize(
    ("said", "field"),
    [
        ({"model": "letters"}, "model"),
        ({"model": "digits/v9"}, "model"),
        ({"model": "digits/v1", "runtime": "pytorch"}, "runtime"),
        ({"model": "digits/v1", "min_replicas": 3, "max_replicas": 2}, "max_replicas"),
        ({"command": []}, "model"),
    ],
)
def test_what_cannot_be_served_is_refused_by_its_field(
    api, alice, version, said: dict[str, Any], field: str
) -> None:
    version("v1")
    answer = api(alice, "POST", ENDPOINTS, {**LEAST, **said})
    assert (answer.status_code, list(answer.json()["fields"])) == (400, [field]), answer.content
    if field == "runtime":
        assert "Berth's model server" in answer.json()["fields"]["runtime"][0]


def test_a_model_of_another_project_is_none(api, alice, version) -> None:
    from projects.models import Project

    found = version("v1")
    found.model.project = Project.objects.create(slug="speech", name="Speech", phase="running")
    found.model.save()
    answer = api(alice, "POST", ENDPOINTS, {**LEAST, "model": "digits/v1"})
    assert list(answer.json()["fields"]) == ["model"]


def test_one_that_nobody_named_has_a_name_that_can_be_an_address(
    api, alice, version, serve
) -> None:
    version("v1")
    serve(model="digits/v1", command=[], name="digits")
    said = {"model": "digits/v1"}
    made = [api(alice, "POST", ENDPOINTS, said).json()["name"] for _twice in range(2)]
    assert made == ["digits-2", "digits-3"]
