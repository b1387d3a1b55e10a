"""Disabling cuts everything (A3), roles take effect at once, somebody always can operate."""

import threading

import pytest
from django.core.management import CommandError, call_command
from django.test import Client

from accounts import hooks
from accounts.models import ApiToken, User
from accounts.principal import Principal
from accounts.services.people import (
    password_reset_by_operator,
    set_platform_role,
    user_create,
    user_disable,
    user_enable,
)
from common.errors import Conflict, Forbidden, Invalid
from events.models import Event

pytestmark = pytest.mark.django_db


def test_a3_a_disabled_person_loses_sessions_tokens_and_what_others_hang_on(
    alice, operator, token_of, api, sign_in, monkeypatch
):
    cut = []
    monkeypatch.setattr(
        hooks.user_disabled, "_callbacks", [lambda user, who: cut.append(user.username)]
    )
    browser, unknown = Client(), Client()
    sign_in(browser, "alice")
    unknown.force_login(alice, backend="allauth.account.auth_backends.AuthenticationBackend")
    secret = token_of(alice)
    assert browser.get("/settings/profile").status_code == 200
    assert unknown.get("/settings/profile").status_code == 200
    user_disable(who=Principal(user=operator), user=alice, reason="left")
    assert browser.get("/settings/profile").status_code == 302
    assert unknown.get("/settings/profile").status_code == 302
    assert api(secret).get("/api/v1/me").status_code == 401
    assert cut == ["alice"]
    event = Event.objects.get(verb="user.disabled")
    assert (event.actor_name, event.message) == ("olga", "left")


def test_a3_enabling_again_revives_no_session_and_no_token(alice, token_of, api):
    old = Client()
    old.force_login(alice, backend="allauth.account.auth_backends.AuthenticationBackend")
    secret = token_of(alice)
    user_disable(who=None, user=alice)
    user_enable(who=None, user=User.objects.get(pk=alice.pk))
    assert old.get("/settings/profile").status_code == 302
    assert api(secret).get("/api/v1/me").status_code == 401
    assert ApiToken.objects.get().revoked_at


def test_a3_a_demoted_operator_is_none_with_the_next_request(operator, make_user, token_of, api):
    make_user("second", platform_role="operator")
    client = api(token_of(operator))
    assert client.get("/api/v1/users").status_code == 200
    set_platform_role(who=None, user=operator, platform_role="")
    assert client.get("/api/v1/users").status_code == 403


def test_the_last_active_operator_stays(operator, make_user):
    who = Principal(user=operator)
    make_user("sleeping", platform_role="operator", is_active=False)
    with pytest.raises(Conflict):
        user_disable(who=who, user=operator)
    with pytest.raises(Conflict):
        set_platform_role(who=who, user=operator, platform_role="auditor")
    operator.refresh_from_db()
    assert operator.is_operator
    second = make_user("second", platform_role="operator")
    set_platform_role(who=who, user=operator, platform_role="")
    with pytest.raises(Conflict):
        user_disable(who=Principal(user=second), user=second)


@pytest.mark.django_db(transaction=True)
def test_two_operators_who_demote_each_other_leave_one(make_user):
    from django.db import connection

    pair = [make_user("one", platform_role="operator"), make_user("two", platform_role="operator")]
    gate = threading.Barrier(2)
    refused = []

    def demote(user):
        gate.wait()
        try:
            set_platform_role(who=None, user=user, platform_role="")
        except Conflict:
            refused.append(user.username)
        finally:
            connection.close()

    threads = [threading.Thread(target=demote, args=(u,)) for u in pair]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(refused) == 1
    assert User.objects.filter(platform_role="operator").count() == 1


def test_only_operators_use_these_services(alice, bob, auditor):
    for person in (alice, auditor):
        who = Principal(user=person)
        with pytest.raises(Forbidden):
            user_disable(who=who, user=bob)
        with pytest.raises(Forbidden):
            set_platform_role(who=who, user=person, platform_role="operator")
        with pytest.raises(Forbidden):
            password_reset_by_operator(who=who, user=bob)
        with pytest.raises(Forbidden):
            user_create(who=who, username="x")


@pytest.mark.parametrize(
    "fields",
    [
        {"username": ""},
        {"username": "a b"},
        {"username": "a/b"},
        {"username": "a\nb"},
        {"username": "-a"},
        {"username": "x" * 65},
        {"username": "ALICE"},
        {"username": "new", "email": "alice@EXAMPLE.org"},
        {"username": "new", "email": "nonsense"},
        {"username": "new", "platform_role": "god"},
        {"username": "new", "password": "short"},
        {"username": "new", "password": "password1234"},
        {"username": "new", "display_name": "a\x00b"},
    ],
    ids=str,
)
def test_a_person_that_can_not_be_is_refused(alice, fields):
    with pytest.raises(Invalid) as refused:
        user_create(who=None, **fields)
    assert refused.value.fields
    assert User.objects.count() == 1


def test_a_new_password_by_an_operator_ends_sessions_and_works(alice, operator, sign_in):
    old = Client()
    sign_in(old, "alice")
    password = password_reset_by_operator(who=Principal(user=operator), user=alice)
    assert old.get("/settings/profile").status_code == 302
    new = Client()
    sign_in(new, "alice", password)
    assert new.get("/settings/profile").status_code == 200
    kept = str(list(Event.objects.values()))
    assert password not in kept


def test_the_command_resets_a_password_and_enables(make_user, sign_in, capsys):
    make_user("lost", is_active=False)
    call_command("berth_reset_password", "LOST", "--enable", "--remove-second-factor")
    password = capsys.readouterr().out.strip().rsplit(" ", 1)[1]
    client = Client()
    sign_in(client, "lost", password)
    assert client.get("/settings/profile").status_code == 200
    with pytest.raises(CommandError):
        call_command("berth_reset_password", "nobody")


def test_sessions_survive_a_change_of_the_secret_key(alice, settings):
    seen, unseen = Client(), Client()
    for client in (seen, unseen):
        client.force_login(alice, backend="allauth.account.auth_backends.AuthenticationBackend")
    old = settings.SECRET_KEY
    settings.SECRET_KEY = "another-key-that-is-long-enough-for-every-check"
    settings.SECRET_KEY_FALLBACKS = [old]
    assert seen.get("/settings/profile").status_code == 200
    settings.SECRET_KEY_FALLBACKS = []
    assert seen.get("/settings/profile").status_code == 200
    assert unseen.get("/settings/profile").status_code == 302
