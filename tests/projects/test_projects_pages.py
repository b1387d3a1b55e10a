"""The pages of a project, as people see and use them without scripts."""

from typing import Any

import pytest

from accounts.models import User
from projects.models import Invitation, Membership, Project
from quotas.models import Limit, Reservation

pytestmark = pytest.mark.django_db
PAGES = ("", "members", "activity", "settings")


@pytest.mark.parametrize("page", PAGES)
def test_every_page_opens_for_members_and_for_nobody_else(
    project: Any, alice: Any, charlie: Any, operator: Any, as_user: Any, client: Any, page: str
) -> None:
    url = f"/projects/vision/{page}"
    for who in (alice, operator):
        response = as_user(who).get(url)
        assert response.status_code == 200
        assert "Vision" in response.content.decode()
    assert as_user(charlie).get(url).status_code == 404
    assert client.get(url).status_code == 302


def test_the_list_offers_to_make_a_project_when_there_is_none(charlie: Any, as_user: Any) -> None:
    html = as_user(charlie).get("/projects/").content.decode()
    assert "/projects/new" in html


def test_making_a_project_with_a_form(alice: Any, as_user: Any) -> None:
    client = as_user(alice)
    assert client.get("/projects/new").status_code == 200
    done = client.post("/projects/new", {"name": "Speech"})
    assert done["Location"] == "/projects/speech/"
    wrong = client.post("/projects/new", {"name": "Other", "slug": "speech"})
    assert wrong.status_code == 422
    assert "already a project" in wrong.content.decode()


def test_a_known_person_is_added_and_an_unknown_address_invited(
    project: Any, mona: Any, charlie: Any, as_user: Any
) -> None:
    client = as_user(mona)
    client.post("/projects/vision/members", {"person": "charlie", "role": "viewer"})
    assert Membership.objects.get(user=charlie).role == "viewer"
    client.post("/projects/vision/members", {"person": "x@example.org", "role": "member"})
    assert Invitation.objects.get().email == "x@example.org"
    html = client.get("/projects/vision/members").content.decode()
    assert "x@example.org" in html
    assert "/invitations/" in html
    wrong = client.post("/projects/vision/members", {"person": "nobody", "role": "member"})
    assert wrong.status_code == 422


def test_invitation_links_are_shown_to_managers_only(
    project: Any, mona: Any, bob: Any, as_user: Any
) -> None:
    as_user(mona).post("/projects/vision/members", {"person": "x@example.org", "role": "member"})
    html = as_user(bob).get("/projects/vision/members").content.decode()
    assert "x@example.org" not in html
    assert "This needs the right" in html


def test_changing_and_removing_a_member_with_forms(
    project: Any, alice: Any, bob: Any, as_user: Any
) -> None:
    client = as_user(alice)
    client.post("/projects/vision/members/bob/role", {"role": "manager"})
    assert Membership.objects.get(user=bob).role == "manager"
    assert client.post("/projects/vision/members/bob/remove").status_code == 422
    client.post("/projects/vision/members/bob/remove", {"confirm": "bob"})
    assert not Membership.objects.filter(user=bob).exists()


def test_settings_say_why_something_is_not_allowed(project: Any, bob: Any, as_user: Any) -> None:
    html = as_user(bob).get("/projects/vision/settings").content.decode()
    assert "Rename the project" in html
    assert "<form" in html
    assert 'name="confirm"' not in html


def test_renaming_archiving_and_deleting_with_forms(project: Any, alice: Any, as_user: Any) -> None:
    client = as_user(alice)
    client.post("/projects/vision/settings", {"name": "Sight", "description": "All eyes."})
    client.post("/projects/vision/archive")
    row = Project.objects.get()
    assert (row.name, row.archived_at is None) == ("Sight", False)
    client.post("/projects/vision/unarchive")
    refused = client.post("/projects/vision/delete", {"confirm": "wrong"})
    assert refused.status_code == 422
    client.post("/projects/vision/delete", {"confirm": "vision"})
    assert Project.objects.get().desired == "absent"


def test_the_overview_shows_what_is_used_and_left(
    project: Any, alice: Any, bob: Any, as_user: Any
) -> None:
    from common.clock import now

    Limit.objects.create(project=project, resource="gpus", amount=4)
    Reservation.objects.create(
        workload_uid=project.uid,
        project=project,
        owner=alice,
        resource="gpus",
        amount=3,
        reserved_at=now(),
    )
    html = as_user(bob).get("/projects/vision/").content.decode()
    assert "3 GPU of 4 GPU, 1 GPU left" in html


def test_b3_markup_in_names_is_shown_as_text(alice: Any, as_user: Any) -> None:
    client = as_user(alice)
    bad = "<script>alert(1)</script>\u202e"
    assert client.post("/projects/new", {"name": bad}).status_code == 422
    client.post("/projects/new", {"name": "<img src=x onerror=alert(1)>", "slug": "odd"})
    html = client.get("/projects/odd/").content.decode()
    assert "<img src=x" not in html
    assert "&lt;img src=x" in html


def test_the_permission_page_prints_the_table(bob: Any, as_user: Any) -> None:
    html = as_user(bob).get("/projects/permissions").content.decode()
    assert "workspace:create" in html


def test_leaving_needs_the_typed_name(project: Any, bob: Any, as_user: Any) -> None:
    client = as_user(bob)
    assert client.post("/projects/vision/leave").status_code == 422
    assert client.post("/projects/vision/leave", {"confirm": "vision"}).status_code == 302
    assert not Membership.objects.filter(user=bob).exists()


def test_many_members_come_in_pages_owners_first_and_can_be_searched(
    as_user: Any, project: Any, alice: Any
) -> None:
    for number in range(60):
        person = User.objects.create(
            username=f"person{number:02d}",
            display_name=f"Zoe {number:02d}",
            email=f"{number}@x.org",
        )
        Membership.objects.create(project=project, user=person, role="viewer")
    client = as_user(alice)
    first = client.get("/projects/vision/members").content.decode()
    assert first.index(alice.username) < first.index("person00")
    assert first.count("<tr>") - 1 == 50
    assert "person59" not in first
    assert "person59" in client.get("/projects/vision/members?page=2").content.decode()
    found = client.get("/projects/vision/members?q=zoe 59").content.decode()
    assert found.count("<tr>") - 1 == 1
    assert "Nobody matches" in client.get("/projects/vision/members?q=nobody").content.decode()


def test_an_invitation_says_whether_mail_leaves_the_portal(
    project: Any, mona: Any, as_user: Any, settings: Any
) -> None:
    client = as_user(mona)

    def said(person: str) -> str:
        added = {"person": person, "role": "member"}
        return str(client.post("/projects/vision/members", added, follow=True).content.decode())

    assert "a@example.org is invited by mail." in said("a@example.org")
    settings.EMAIL_BACKEND = "django.core.mail.backends.console.EmailBackend"
    page = said("b@example.org")
    assert "b@example.org is invited, but mail is not set up here" in page
    assert page.count("Copy the link") >= 2
