"""Local sign-in, sign-out, sign-up, throttling."""

import json
import logging

import pytest
from django.core import mail
from django.test import Client

from accounts.models import User
from accounts.services import sessions
from common.clock import now
from events.models import Event

pytestmark = pytest.mark.django_db


def test_one_signs_in_by_username(alice, sign_in):
    client = Client()
    answer = sign_in(client, "alice")
    assert answer.status_code == 302
    assert client.get("/settings/profile").status_code == 200
    assert Event.objects.filter(verb="user.signed-in", actor_uid=alice.uid).exists()


def test_one_signs_in_by_email_whatever_its_case(alice, sign_in):
    client = Client()
    assert sign_in(client, "Alice@Example.org").status_code == 302
    assert "_auth_user_id" in client.session


def test_the_sign_in_page_has_no_inline_script_or_style_and_a_strict_policy(client, db):
    answer = client.get("/accounts/login/")
    page = answer.content.decode()
    assert "default-src 'self'" in answer["Content-Security-Policy"]
    assert "style=" not in page
    assert "onclick" not in page
    for tag in page.split("<script")[1:]:
        assert "src=" in tag.split(">")[0] or 'type="application/json"' in tag.split(">")[0]


def test_a_get_does_not_sign_out(alice, as_user):
    client = as_user(alice)
    assert client.get("/accounts/logout/").status_code == 200
    assert client.get("/settings/profile").status_code == 200
    assert client.post("/accounts/logout/").status_code == 302
    assert client.get("/settings/profile").status_code == 302
    assert Event.objects.filter(verb="user.signed-out", actor_uid=alice.uid).exists()


def test_a_disabled_person_is_told_so_only_with_the_right_password(make_user, sign_in):
    make_user("gone", is_active=False)
    wrong = sign_in(Client(), "gone", "not this one")
    nobody = sign_in(Client(), "nobody-here", "not this one")
    assert wrong.status_code == nobody.status_code == 200
    right = Client()
    assert sign_in(right, "gone").url == "/accounts/inactive/"
    assert "_auth_user_id" not in right.session


def test_a9_sign_up_is_closed_and_refused_by_the_server(client, db):
    assert b"invitation" in client.get("/accounts/signup/").content
    client.post(
        "/accounts/signup/",
        {
            "username": "intruder",
            "email": "i@example.org",
            "password1": "a long enough secret",
            "password2": "a long enough secret",
        },
    )
    assert not User.objects.filter(username="intruder").exists()


def test_open_sign_up_makes_an_account_without_any_role(client, db, settings):
    settings.BERTH_SIGNUP_OPEN = True
    answer = client.post(
        "/accounts/signup/",
        {
            "username": "newcomer",
            "email": "new@example.org",
            "password1": "a long enough secret",
            "password2": "a long enough secret",
            "platform_role": "operator",
            "is_staff": "1",
        },
    )
    assert answer.status_code == 302
    made = User.objects.get(username="newcomer")
    assert made.platform_role == ""
    assert not made.is_staff
    assert not made.is_superuser
    assert Event.objects.filter(verb="user.signed-up", actor_uid=made.uid).exists()


def test_a9_a_password_reset_link_works_once(alice, client):
    client.post("/accounts/password/reset/", {"email": alice.email})
    link = next(w for w in mail.outbox[-1].body.split() if "/password/reset/key/" in w)
    path = link.split("://", 1)[1].split("/", 1)[1]
    first = Client()
    form = first.get(f"/{path}", follow=True)
    where = form.redirect_chain[-1][0]
    new = {"password1": "another good secret", "password2": "another good secret"}
    assert first.post(where, new).status_code == 302
    alice.refresh_from_db()
    assert alice.check_password("another good secret")
    again = Client().get(f"/{path}", follow=True).content.decode()
    assert "password1" not in again
    assert Event.objects.filter(verb="user.password-changed", actor_uid=alice.uid).exists()


def test_mail_links_lead_to_the_portals_own_address_whatever_host_was_asked(
    alice, client, settings
):
    settings.BERTH_PUBLIC_URL = "https://berth.example.org"
    client.post("/accounts/password/reset/", {"email": alice.email}, headers={"Host": "evil.test"})
    assert "https://berth.example.org/accounts/password/reset/key/" in mail.outbox[-1].body
    assert "evil.test" not in mail.outbox[-1].body


def test_a10_unknown_and_known_names_get_the_same_answer(alice, client):
    def answer(login):
        got = Client().post("/accounts/login/", {"login": login, "password": "wrong one"})
        body = got.content.decode().replace(login, "")
        return got.status_code, _without_tokens(body)

    assert answer("alice") == answer("nobody-here")
    assert answer("alice@example.org") == answer("nobody@example.org")

    def reset(email):
        got = Client().post("/accounts/password/reset/", {"email": email})
        return got.status_code, got.url

    assert reset("alice@example.org") == reset("nobody@example.org")


def test_a11_guessing_is_stopped_for_the_name_and_other_headers_do_not_help(alice, sign_in):
    for n in range(5):
        sign_in(Client(), "alice", "wrong", headers={"X-Forwarded-For": f"203.0.113.{n}"})
    client = Client()
    late = sign_in(client, "alice", headers={"X-Forwarded-For": "198.51.100.7"})
    assert "_auth_user_id" not in client.session
    assert b"Too many failed" in late.content


def test_a11_guessing_many_names_from_one_address_is_stopped(alice, sign_in):
    for n in range(20):
        sign_in(Client(), f"user{n}", "wrong", headers={"X-Forwarded-For": f"203.0.113.{n}"})
    client = Client()
    sign_in(client, "alice")
    assert "_auth_user_id" not in client.session


def test_a11_a_newline_or_nul_in_the_name_is_a_400_and_forges_no_log_line(db, sign_in, caplog):
    caplog.set_level(logging.INFO)
    for name in ("bob\nINFO admin signed in", "bob\x00", "a" * 100_000):
        answer = sign_in(Client(), name, "wrong")
        assert answer.status_code == 400
        assert len(answer.content) < 20_000
    for record in caplog.records:
        assert len(record.getMessage()) <= 1024
        assert "\nINFO admin" not in record.getMessage()
    assert not Event.objects.filter(target_name__contains="\n").exists()


def test_a11_ten_megabytes_of_name_are_refused_unread(db, caplog):
    answer = Client().post("/accounts/login/", {"login": "a" * 10_000_000, "password": "x"})
    assert answer.status_code == 413
    assert all(len(record.getMessage()) <= 1024 for record in caplog.records)


def test_a11_refused_sign_ins_are_events_but_do_not_flood_the_log(db, sign_in, monkeypatch):
    this_minute = now()  # the next may begin meanwhile, and others were refused in this one
    monkeypatch.setattr(sessions, "now", lambda: this_minute)
    monkeypatch.setattr(sessions, "_minute", sessions._Minute())
    for n in range(15):
        sign_in(Client(), f"user{n}", "wrong")
    denied = Event.objects.filter(verb="user.sign-in-denied")
    assert 1 <= denied.count() <= 10
    first = denied.order_by("id").first()
    assert (first.outcome, first.target_name, first.ip) == ("denied", "user0", "127.0.0.1")


def test_a13_forms_without_the_csrf_token_are_refused(alice, visitor):
    visitor.force_login(alice, backend="allauth.account.auth_backends.AuthenticationBackend")
    data = {"name": "evil", "days": 30}
    for kind in ("text/plain", "application/x-www-form-urlencoded", "application/json"):
        answer = visitor.post("/settings/tokens", json.dumps(data), content_type=kind)
        assert answer.status_code == 403
    assert visitor.post("/settings/tokens", data).status_code == 403
    assert visitor.post("/settings/tokens?_method=GET", data).status_code == 403
    assert alice.api_tokens.count() == 0


def test_a13_sign_in_itself_needs_the_csrf_token(alice, visitor, sign_in):
    assert sign_in(visitor, "alice").status_code == 403


def _without_tokens(page: str) -> str:
    import re

    page = re.sub(r'name="csrfmiddlewaretoken" value="[^"]+"', "", page)
    return re.sub(r'"X-CSRFToken": "[^"]*"', "", page)
