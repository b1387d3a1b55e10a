"""The base classes: who gets in, what is refused, ETag and Idempotency-Key."""

from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from projects.models import Project

pytestmark = [pytest.mark.django_db, pytest.mark.urls("tests.projects.base_urls")]
API = "/api/v1/projects/vision/probe"


def send(client: Any, body: dict[str, Any], key: str = "") -> Any:
    headers = {"Idempotency-Key": key} if key else {}
    return client.post(API, body, content_type="application/json", headers=headers)


def test_a_member_gets_in_and_a_stranger_sees_the_same_as_for_an_unknown_project(
    project: Any, bob: Any, charlie: Any, as_user: Any
) -> None:
    assert as_user(bob).get(API).status_code == 200
    foreign = as_user(charlie).get(API)
    unknown = as_user(charlie).get("/api/v1/projects/unknown/probe")
    assert foreign.status_code == unknown.status_code == 404
    assert foreign.json() == unknown.json()


def test_a10_a_foreign_project_and_an_unknown_one_do_the_same_work(
    project: Any, charlie: Any, as_user: Any
) -> None:
    client = as_user(charlie)

    def work(slug: str) -> list[str]:
        with CaptureQueriesContext(connection) as captured:
            client.get(f"/api/v1/projects/{slug}/probe")
        return [q["sql"].split(" WHERE ")[0].split(" VALUES ")[0] for q in captured]

    work("vision")
    assert work("vision") == work("unknown")


def test_a_member_without_the_right_gets_403_with_the_reason(
    project: Any, vera: Any, as_user: Any
) -> None:
    response = send(as_user(vera), {})
    assert response.status_code == 403
    assert "Start own workspaces" in response.json()["detail"]


def test_an_undeclared_verb_is_refused_even_when_a_handler_exists(
    project: Any, alice: Any, as_user: Any
) -> None:
    assert as_user(alice).delete(API).status_code == 405
    assert as_user(alice).options(API).status_code == 405
    assert as_user(alice).post("/p/vision/").status_code == 405


def test_a_page_knows_its_project_and_what_the_visitor_may(
    project: Any, mona: Any, bob: Any, charlie: Any, as_user: Any
) -> None:
    assert as_user(mona).get("/p/vision/").content == b"Vision True"
    assert as_user(bob).get("/p/vision/").content == b"Vision False"


def test_platform_views_demand_the_platform_role_per_verb(
    operator: Any, auditor: Any, bob: Any, as_user: Any
) -> None:
    codes = {
        who.username: (
            as_user(who).get("/api/v1/probe").status_code,
            as_user(who).post("/api/v1/probe", {}, content_type="application/json").status_code,
        )
        for who in (operator, auditor, bob)
    }
    assert codes == {"olga": (200, 200), "audrey": (200, 403), "bob": (403, 403)}


def test_e13_a_repeated_key_gives_the_same_answer_and_one_object(
    project: Any, alice: Any, as_user: Any
) -> None:
    client = as_user(alice)
    first, second = send(client, {"a": 1}, "key-1"), send(client, {"a": 1}, "key-1")
    assert first.status_code == second.status_code == 201
    assert first.json() == second.json()
    assert second["Idempotency-Replayed"] == "true"
    assert Project.objects.filter(name="made").count() == 1


def test_e13_the_same_key_with_another_body_is_a_conflict(
    project: Any, alice: Any, as_user: Any
) -> None:
    client = as_user(alice)
    send(client, {"a": 1}, "key-1")
    response = send(client, {"a": 2}, "key-1")
    assert response.status_code == 409
    assert response.json()["code"] == "idempotency-key-reused"
    assert Project.objects.filter(name="made").count() == 1


def test_a_refused_request_does_not_burn_its_key(project: Any, alice: Any, as_user: Any) -> None:
    client = as_user(alice)
    assert send(client, {"refuse": True}, "key-1").status_code == 409
    assert send(client, {}, "key-1").status_code == 201


def test_one_persons_key_means_nothing_for_another(
    project: Any, alice: Any, bob: Any, as_user: Any
) -> None:
    send(as_user(alice), {}, "key-1")
    assert "Idempotency-Replayed" not in send(as_user(bob), {}, "key-1")
    assert Project.objects.filter(name="made").count() == 2


def test_a_strange_key_is_refused(project: Any, alice: Any, as_user: Any) -> None:
    assert send(as_user(alice), {}, "with space").status_code == 400
    assert send(as_user(alice), {}, "x" * 129).status_code == 400


def test_if_match_refuses_a_change_of_an_older_version(
    project: Any, alice: Any, as_user: Any
) -> None:
    client = as_user(alice)
    tag = client.get(API)["ETag"]

    def change(match: str) -> int:
        return int(
            client.patch(
                API, {}, content_type="application/json", headers={"If-Match": match}
            ).status_code
        )

    assert change(tag) == 200
    Project.objects.filter(slug="vision").update(generation=7)
    assert change(tag) == 412
    assert change("*") == 200
