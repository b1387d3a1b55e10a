"""Sign-up through an invitation, with a gate as the projects app has one."""

import pytest
from allauth.account.models import EmailAddress

from accounts import hooks
from accounts.models import User
from common.errors import Conflict

pytestmark = pytest.mark.django_db


class Gate:
    def __init__(self):
        self.used_by = []

    def permit(self, request):
        if request.GET.get("code") == "good" or request.session.get("code") == "good":
            request.session["code"] = "good"
            return hooks.Permit(email="guest@example.org")
        return None

    def accept(self, request, user):
        if self.used_by:
            raise Conflict("used")
        self.used_by.append(user.username)


@pytest.fixture
def gate(monkeypatch):
    made = Gate()
    monkeypatch.setattr(hooks, "_gates", [made])
    return made


def form(username, email="guest@example.org"):
    return {
        "username": username,
        "email": email,
        "password1": "a long enough secret",
        "password2": "a long enough secret",
    }


def test_an_invited_person_signs_up_and_the_address_counts_as_verified(client, gate):
    assert b"guest@example.org" in client.get("/accounts/signup/?code=good").content
    assert client.post("/accounts/signup/", form("guest")).status_code == 302
    assert gate.used_by == ["guest"]
    assert EmailAddress.objects.get(user__username="guest").verified


def test_a9_an_invitation_is_for_its_own_address_only(client, gate):
    client.get("/accounts/signup/?code=good")
    answer = client.post("/accounts/signup/", form("guest", "other@example.org"))
    assert answer.status_code == 200
    assert not User.objects.filter(username="guest").exists()


def test_a9_a_used_invitation_makes_no_second_account(client, gate):
    gate.used_by.append("somebody")
    client.get("/accounts/signup/?code=good")
    assert client.post("/accounts/signup/", form("second")).status_code == 409
    assert not User.objects.filter(username="second").exists()


def test_a9_without_an_invitation_sign_up_stays_closed(client, gate):
    client.post("/accounts/signup/", form("guest"))
    assert not User.objects.exists()
