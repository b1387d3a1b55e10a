"""Invitations by mail: a link that works once, for seven days, for the one who holds it."""

from datetime import timedelta
from typing import Any

import pytest

from accounts.models import User
from common.clock import now
from notifications.models import Mail
from projects.models import Invitation, Membership
from projects.services.invitations import invitation_link

pytestmark = pytest.mark.django_db
URL = "/api/v1/projects/vision/invitations"


def invite(client: Any, email: str = "new@example.org", role: str = "member") -> Any:
    return client.post(URL, {"email": email, "role": role}, content_type="application/json")


def open_link(row: Invitation) -> str:
    return "/invitations/" + invitation_link(row).rstrip("/").rpartition("/")[2] + "/"


def test_an_invitation_is_queued_as_mail_and_its_secret_is_stored_nowhere(
    project: Any, mona: Any, as_user: Any
) -> None:
    response = invite(as_user(mona))
    assert response.status_code == 201
    row = Invitation.objects.get()
    secret = open_link(row).split("/")[2]
    assert len(secret) >= 40
    mail = Mail.objects.get()
    assert mail.to == "new@example.org"
    stored = f"{row.__dict__} {mail.__dict__} {response.content.decode()}"
    assert secret not in stored


def test_a6_nobody_invites_above_the_own_role_and_members_invite_nobody(
    project: Any, mona: Any, bob: Any, as_user: Any
) -> None:
    assert invite(as_user(mona), role="owner").status_code == 403
    assert invite(as_user(bob)).status_code == 403
    assert not Invitation.objects.exists()


def test_one_open_invitation_for_one_address(project: Any, mona: Any, as_user: Any) -> None:
    assert invite(as_user(mona)).status_code == 201
    assert invite(as_user(mona)).status_code == 409
    uid = Invitation.objects.get().uid
    assert as_user(mona).delete(f"{URL}/{uid}").status_code == 204
    assert invite(as_user(mona)).status_code == 201


def test_accepting_makes_a_member_and_the_address_bar_keeps_no_secret(
    project: Any, mona: Any, charlie: Any, as_user: Any
) -> None:
    invite(as_user(mona), "charlie@example.org", "manager")
    row = Invitation.objects.get()
    client = as_user(charlie)
    opened = client.get(open_link(row))
    assert (opened.status_code, opened["Location"]) == (302, "/invitations/accept")
    page = client.get("/invitations/accept")
    assert page.status_code == 200
    assert "Vision" in page.content.decode()
    done = client.post("/invitations/accept")
    assert done["Location"] == "/projects/vision/"
    assert Membership.objects.get(user=charlie).role == "manager"


def test_a9_a_used_withdrawn_or_old_invitation_opens_nothing(
    project: Any, mona: Any, charlie: Any, make_user: Any, as_user: Any
) -> None:
    for change in (
        {"accepted_at": now()},
        {"revoked_at": now()},
        {"expires_at": now() - timedelta(seconds=1)},
    ):
        Invitation.objects.all().delete()
        invite(as_user(mona))
        row = Invitation.objects.get()
        Invitation.objects.update(**change)
        client = as_user(charlie)
        assert client.get(open_link(row)).status_code == 404
        assert client.post("/invitations/accept").status_code == 404
    assert not Membership.objects.filter(user=charlie).exists()


def test_a9_an_invitation_is_used_once(
    project: Any, mona: Any, charlie: Any, make_user: Any, as_user: Any
) -> None:
    dora = make_user("dora")
    invite(as_user(mona))
    row = Invitation.objects.get()
    first, second = as_user(charlie), as_user(dora)
    first.get(open_link(row))
    second.get(open_link(row))
    assert first.post("/invitations/accept").status_code == 302
    assert second.post("/invitations/accept").status_code == 404
    assert not Membership.objects.filter(user=dora).exists()


def test_an_invitation_never_lowers_a_role(
    project: Any, mona: Any, alice: Any, as_user: Any
) -> None:
    invite(as_user(mona), "elsewhere@example.org", "viewer")
    client = as_user(alice)
    client.get(open_link(Invitation.objects.get()))
    client.post("/invitations/accept")
    assert Membership.objects.get(user=alice).role == "owner"


def test_a_visitor_without_an_account_signs_up_with_the_invitation(
    project: Any, mona: Any, client: Any, as_user: Any, settings: Any
) -> None:
    settings.BERTH_SIGNUP_OPEN = False
    invite(as_user(mona))
    assert client.get("/accounts/signup/").status_code in {200, 403}
    client.get(open_link(Invitation.objects.get()))
    page = client.get("/invitations/accept")
    assert page.status_code == 200
    assert "/accounts/signup/" in page.content.decode()
    done = client.post(
        "/accounts/signup/",
        {
            "username": "newbie",
            "email": "new@example.org",
            "password1": "a long enough passphrase",
            "password2": "a long enough passphrase",
        },
    )
    assert done.status_code == 302, done.content.decode()[-2000:]
    made = User.objects.get(username="newbie")
    assert Membership.objects.get(user=made).project == project
    assert Invitation.objects.get().accepted_at is not None
