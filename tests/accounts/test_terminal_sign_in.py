"""``berth login``: a terminal shows a code, a person approves it in the browser."""

from datetime import timedelta

import pytest
import time_machine
from django.test import Client

from accounts.models import ApiToken, DeviceLogin
from common.clock import now
from events.models import Event

pytestmark = pytest.mark.django_db
JSON = "application/json"


@pytest.fixture
def terminal():
    client = Client()
    started = client.post("/api/v1/auth/device", {"client": "berth on laptop"}, content_type=JSON)
    assert started.status_code == 200

    class Terminal:
        codes = started.json()

        def poll(self):
            body = {"device_code": self.codes["device_code"]}
            return client.post("/api/v1/auth/device/token", body, content_type=JSON)

    return Terminal()


def approve(client, code, **extra):
    data = {"code": code, "days": 7, "answer": "approve", **extra}
    return client.post("/settings/device/answer", data)


def test_a_terminal_gets_a_token_after_approval_and_only_once(alice, as_user, terminal, api):
    waiting = terminal.poll()
    assert waiting.status_code == 428
    assert waiting.json()["code"] == "authorization_pending"
    browser = as_user(alice)
    page = browser.get(terminal.codes["verification_uri_complete"].split("8000")[1])
    assert b"berth on laptop" in page.content
    assert terminal.codes["user_code"].encode() in page.content
    assert approve(browser, terminal.codes["user_code"]).status_code == 200
    got = terminal.poll()
    assert got.status_code == 200
    assert api(got.json()["token"]).get("/api/v1/me").json()["username"] == "alice"
    assert terminal.poll().status_code == 410
    assert ApiToken.objects.count() == 1
    assert Event.objects.filter(verb="device.approved", actor_uid=alice.uid).exists()


def test_codes_are_kept_as_hashes_only(terminal):
    row = str(DeviceLogin.objects.values().get())
    assert terminal.codes["device_code"] not in row
    assert terminal.codes["user_code"] not in row


def test_a_refused_terminal_gets_nothing(alice, as_user, terminal):
    approve(as_user(alice), terminal.codes["user_code"], answer="deny")
    assert terminal.poll().status_code == 410
    assert not ApiToken.objects.exists()


def test_an_expired_code_is_approved_by_nobody(alice, as_user, terminal):
    with time_machine.travel(now() + timedelta(minutes=11), tick=False):
        assert approve(as_user(alice), terminal.codes["user_code"]).status_code == 404
        assert terminal.poll().status_code == 410


def test_approval_needs_a_signed_in_person_and_the_csrf_token(alice, visitor, terminal):
    assert approve(Client(), terminal.codes["user_code"]).status_code == 302
    visitor.force_login(alice, backend="allauth.account.auth_backends.AuthenticationBackend")
    assert approve(visitor, terminal.codes["user_code"]).status_code == 403
    assert terminal.poll().status_code == 428


def test_a_code_is_not_approved_by_opening_the_link(alice, as_user, terminal):
    as_user(alice).get(f"/settings/device?code={terminal.codes['user_code']}")
    assert terminal.poll().status_code == 428


def test_a_code_is_found_however_it_is_typed(alice, as_user, terminal):
    typed = terminal.codes["user_code"].replace("-", " ").lower()
    page = as_user(alice).get("/settings/device", {"code": typed})
    assert b"berth on laptop" in page.content
    assert as_user(alice).get("/settings/device?code=WRONG-ONE").status_code == 404


def test_a_terminal_that_asks_too_often_is_told_so(terminal):
    assert terminal.poll().status_code == 428
    hasty = terminal.poll()
    assert hasty.status_code == 429
    assert hasty.json()["code"] == "slow_down"


def test_a_person_who_was_disabled_after_approving_gives_no_token(alice, as_user, terminal):
    from accounts.services.people import user_disable

    approve(as_user(alice), terminal.codes["user_code"])
    user_disable(who=None, user=alice)
    assert terminal.poll().status_code == 410
    assert not ApiToken.objects.exists()


def test_one_address_can_not_fill_the_waiting_room(db):
    client = Client()
    codes = [
        client.post("/api/v1/auth/device", {}, content_type=JSON).status_code for _n in range(22)
    ]
    assert codes == [200] * 20 + [503] * 2


def test_a_made_up_device_code_is_gone(db):
    answer = Client().post(
        "/api/v1/auth/device/token", {"device_code": "x" * 43}, content_type=JSON
    )
    assert answer.status_code == 410


def test_the_token_may_be_limited_while_approving(alice, as_user, terminal):
    approve(as_user(alice), terminal.codes["user_code"], read_only="on")
    terminal.poll()
    token = ApiToken.objects.get()
    assert token.read_only
    assert token.expires_at <= now() + timedelta(days=7)
