"""Projects through the API: making, changing, archiving, deleting, and who may."""

from typing import Any

import pytest
from django.conf import settings

from events.models import Event
from projects import hooks
from projects.models import Membership, Project
from tests.support import driving

pytestmark = pytest.mark.django_db
URL = "/api/v1/projects"


class Shelf:
    """A stand-in for an app that keeps things in projects."""

    def __init__(self) -> None:
        self.count = 2
        self.running = 1
        self.asked: list[str] = []

    def summarize(self, project: Any) -> list[hooks.ContentSummary]:
        return [hooks.ContentSummary("shelf", f"{self.count} books", self.count, self.running)]

    def delete(self, project: Any, who: Any) -> None:
        self.asked.append("delete")

    def stop(self, project: Any, who: Any) -> None:
        self.asked.append("stop")


@pytest.fixture
def shelf(monkeypatch: Any) -> Shelf:
    made = Shelf()
    monkeypatch.setattr(hooks, "_sources", {})
    hooks.register_contents(
        "shelf", made.summarize, request_delete=made.delete, request_stop=made.stop
    )
    return made


def post(client: Any, url: str, body: Any = None) -> Any:
    return client.post(url, body if body is not None else {}, content_type="application/json")


def test_the_creator_owns_the_project_and_the_slug_comes_from_the_name(
    alice: Any, as_user: Any
) -> None:
    response = post(as_user(alice), URL, {"name": "Deep Vision"})
    assert response.status_code == 201
    assert response.json()["slug"] == "deep-vision"
    assert response["Location"] == "/api/v1/projects/deep-vision"
    assert response.json()["role"] == "owner"
    made = Project.objects.get(slug="deep-vision")
    assert Membership.objects.get(project=made).user == alice
    assert Event.objects.filter(verb="project.created", project_uid=made.uid).exists()


def test_a_name_without_letters_still_gives_an_address(alice: Any, as_user: Any) -> None:
    slug = post(as_user(alice), URL, {"name": "画像認識"}).json()["slug"]
    assert slug.startswith("project-")


def test_a_taken_address_is_a_conflict_and_a_taken_name_is_not(
    project: Any, alice: Any, as_user: Any
) -> None:
    client = as_user(alice)
    assert post(client, URL, {"name": "Vision"}).status_code == 201
    assert post(client, URL, {"name": "Other", "slug": "vision"}).status_code == 409


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": ""},
        {"name": "   "},
        {"name": "x" * 121},
        {"name": "a\nb"},
        {"name": "a\u0000b"},
        {"name": "ok", "slug": "Bad Slug"},
        {"name": "ok", "slug": "-x"},
        {"name": "ok", "slug": "new"},
        {"name": "ok", "owner": "charlie"},
        {"name": "ok", "role": "owner", "uid": "1"},
        {"name": ["ok"]},
        ["name"],
    ],
)
def test_wrong_input_is_refused_and_makes_nothing(alice: Any, as_user: Any, body: Any) -> None:
    assert post(as_user(alice), URL, body).status_code == 400
    assert not Project.objects.exists()


def test_only_operators_make_projects_when_the_setting_says_so(
    alice: Any, operator: Any, as_user: Any, settings: Any
) -> None:
    settings.BERTH_PROJECT_CREATION = "operators"
    assert post(as_user(alice), URL, {"name": "A"}).status_code == 403
    assert post(as_user(operator), URL, {"name": "A"}).status_code == 201


def test_everybody_lists_only_what_he_may_see(
    project: Any, bob: Any, charlie: Any, auditor: Any, as_user: Any
) -> None:
    listed = {
        who.username: [p["slug"] for p in as_user(who).get(URL).json()["results"]]
        for who in (bob, charlie, auditor)
    }
    assert listed == {"bob": ["vision"], "charlie": [], "audrey": ["vision"]}
    row = as_user(bob).get(URL).json()["results"][0]
    assert (row["role"], row["members"]) == ("member", 4)


def test_renaming_keeps_the_address(project: Any, mona: Any, bob: Any, as_user: Any) -> None:
    def change(who: Any) -> Any:
        return as_user(who).patch(
            f"{URL}/vision", {"name": "Sight"}, content_type="application/json"
        )

    assert change(bob).status_code == 403
    response = change(mona)
    assert response.status_code == 200
    assert (response.json()["name"], response.json()["slug"]) == ("Sight", "vision")


def test_a5_fields_that_are_not_yours_are_refused(project: Any, alice: Any, as_user: Any) -> None:
    for field in ("role", "slug", "owner", "quota", "created_by", "archived_at", "desired"):
        response = as_user(alice).patch(
            f"{URL}/vision", {field: "owner"}, content_type="application/json"
        )
        assert response.status_code == 400, field
        assert field in response.json()["fields"]


def test_a_change_of_an_outdated_version_is_refused(
    project: Any, mona: Any, alice: Any, as_user: Any
) -> None:
    tag = as_user(alice).get(f"{URL}/vision")["ETag"]
    as_user(mona).patch(f"{URL}/vision", {"name": "First"}, content_type="application/json")
    late = as_user(alice).patch(
        f"{URL}/vision",
        {"name": "Second"},
        content_type="application/json",
        headers={"If-Match": tag},
    )
    assert late.status_code == 412
    project.refresh_from_db()
    assert project.name == "First"


def test_archiving_stops_what_runs_only_after_it_was_confirmed(
    project: Any, alice: Any, mona: Any, as_user: Any, shelf: Shelf
) -> None:
    client = as_user(alice)
    assert post(as_user(mona), f"{URL}/vision/archive").status_code == 403
    refused = post(client, f"{URL}/vision/archive")
    assert (refused.status_code, refused.json()["code"]) == (409, "confirm-stop")
    assert "2 books" in refused.json()["detail"]
    assert shelf.asked == []
    done = post(client, f"{URL}/vision/archive", {"confirm_stop": True})
    assert done.status_code == 200
    assert done.json()["archived_at"]
    assert shelf.asked == ["stop"]
    assert post(client, f"{URL}/vision/unarchive").json()["archived_at"] is None


def test_deleting_needs_the_typed_name(
    project: Any, alice: Any, mona: Any, as_user: Any, shelf: Shelf
) -> None:
    client = as_user(alice)
    assert client.delete(f"{URL}/vision").status_code == 400
    assert client.delete(f"{URL}/vision?confirm=visio").status_code == 400
    assert as_user(mona).delete(f"{URL}/vision?confirm=vision").status_code == 403
    assert shelf.asked == []


def test_a_deleted_project_waits_for_its_contents_and_goes_last(
    project: Any, alice: Any, bob: Any, as_user: Any, shelf: Shelf
) -> None:
    client = as_user(alice)
    response = client.delete(f"{URL}/vision?confirm=vision")
    assert (response.status_code, response.json()["status"]["phase"]) == (202, "deleting")
    driving.run_due(rounds=2)
    project.refresh_from_db()
    assert project.deleted_at is None
    assert "2 books" in project.message
    assert client.get(f"{URL}/vision").status_code == 200

    shelf.count = 0
    driving.run_due()
    project.refresh_from_db()
    assert project.deleted_at is not None
    assert not Membership.objects.filter(project=project).exists()
    assert client.get(f"{URL}/vision").status_code == 404


def test_nothing_changes_in_a_project_that_is_being_deleted(
    project: Any, alice: Any, charlie: Any, as_user: Any, shelf: Shelf
) -> None:
    client = as_user(alice)
    client.delete(f"{URL}/vision?confirm=vision")
    assert post(client, f"{URL}/vision/members", {"username": "charlie"}).status_code == 409
    assert post(client, f"{URL}/vision/unarchive").status_code == 409


def test_the_settings_of_creation_are_known() -> None:
    assert settings.BERTH_PROJECT_CREATION in {"anyone", "operators"}
