"""Whom the identity provider refuses loses what is no session too, where that is wished (C4)."""

import time
from datetime import timedelta

import pytest
import time_machine
from allauth.socialaccount.models import SocialAccount
from django.test import Client
from django.urls import reverse

from accounts import hooks, oidc_grants
from accounts.models import ApiToken, ProviderGrant, SshKey, User
from accounts.principal import Principal
from accounts.services.people import set_platform_role, user_disable, user_enable
from accounts.services.tokens import ssh_key_add
from common.clock import now
from events.models import Event
from gate.callers import SignedOut, from_ssh_key, principal_of
from notifications.models import Mail, Notification
from tests.accounts.conftest import PASSWORD
from tests.accounts.provider import sign_in, signed_in

pytestmark = pytest.mark.django_db
KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIOMqqnkVzrm0SdG6UOoqKLsabgH5C9okWi0dh2l9GKJl dora@laptop"


@pytest.fixture
def asks(settings):
    """The provider's no is about the person."""
    settings.BERTH_OIDC_REFUSED = "person"
    return settings


@pytest.fixture
def ask():
    """The duty of the worker, so many seconds after the last."""
    passed = [0.0]

    def turn(after=45):
        passed[0] += after
        with time_machine.travel(time.time() + passed[0], tick=True):
            return oidc_grants.ask_due()

    return turn


def dora_of(client):
    return User.objects.get(pk=client.session["_auth_user_id"])


def refusals():
    return Event.objects.filter(verb="user.refused").exclude(outcome="denied")


def test_c4_who_is_removed_at_the_provider_loses_all_within_a_minute(
    provider, asks, ask, token_of, api, monkeypatch
):
    cut = []
    monkeypatch.setattr(
        hooks.user_disabled, "_callbacks", [lambda user, who: cut.append((user.username, who))]
    )
    client, _answer = sign_in(provider)
    dora = dora_of(client)
    script, ssh = (
        api(token_of(dora)),
        from_ssh_key(ssh_key_add(who=Principal(user=dora), public_key=KEY), ""),
    )
    assert principal_of(ssh).user == dora
    assert ask() == 1
    assert client.get("/settings/profile").status_code == 200
    provider.end_sessions("dora-1")
    assert ask(after=44) == 1
    assert client.get("/settings/profile").status_code == 302
    assert script.get("/api/v1/me").status_code == 401
    with pytest.raises(SignedOut):
        principal_of(ssh)
    assert cut == [("dora", None)]
    event = refusals().get()
    assert (event.target_uid, event.actor_name) == (str(dora.uid), "")
    assert event.message.startswith("invalid_grant")
    assert Mail.objects.filter(to="dora@example.org", kind="account.refused").count() == 1


def test_c4_a_person_without_any_session_is_asked_about_too(provider, asks, ask, token_of, api):
    client, _answer = sign_in(provider)
    script = api(token_of(dora_of(client)))
    client.post("/accounts/logout/")
    ask()
    assert script.get("/api/v1/me").status_code == 200
    provider.end_sessions("dora-1")
    ask()
    assert script.get("/api/v1/me").status_code == 401


def test_c4_the_next_sign_in_by_the_provider_gives_everything_back(
    provider, asks, ask, token_of, api
):
    client, _answer = sign_in(provider)
    dora = dora_of(client)
    script = api(token_of(dora))
    ssh_key_add(who=Principal(user=dora), public_key=KEY)
    provider.end_sessions("dora-1")
    ask()
    assert not User.objects.get().is_active
    client, answer = sign_in(provider)
    assert answer.status_code == 302
    assert client.get("/settings/profile").status_code == 200
    assert script.get("/api/v1/me").status_code == 200
    assert not ApiToken.objects.exclude(revoked_at=None).exists()
    assert SshKey.objects.filter(user__is_active=True).exists()
    back = Event.objects.get(verb="user.readmitted")
    assert (back.actor_name, back.target_uid) == ("dora", str(dora.uid))
    dora.refresh_from_db()
    assert (dora.disabled_at, dora.disabled_by_provider) == (None, False)
    assert ask() == 1
    assert script.get("/api/v1/me").status_code == 200


def test_c4_a_password_does_not_lift_it_and_says_what_does(provider, asks, ask, make_user):
    dora = make_user("local-dora")
    SocialAccount.objects.create(user=dora, provider="oidc", uid="dora-1")
    sign_in(provider)
    provider.end_sessions("dora-1")
    ask()
    answer = Client().post("/accounts/login/", {"login": "local-dora", "password": PASSWORD})
    assert "Example University" in answer.content.decode()
    assert not User.objects.get().is_active


def test_c4_by_default_a_no_ends_the_session_only(provider, ask, token_of, api):
    client, _answer = sign_in(provider)
    script = api(token_of(dora_of(client)))
    assert not ProviderGrant.objects.exists()
    provider.end_sessions("dora-1")
    assert ask(after=3700) == 0
    with time_machine.travel(time.time() + 3700, tick=True):
        assert client.get("/settings/profile").status_code == 302
    assert script.get("/api/v1/me").status_code == 200
    assert not refusals().exists()


@pytest.mark.parametrize(
    "lie",
    [
        {"status": 503},
        {"status": 502, "body": "<html>"},
        {"status": 429, "body": {"error": "slow_down"}},
        {"status": 400, "body": {"error": "invalid_client"}},
        {"status": 401, "body": {"error": "invalid_client"}},
        {"status": 200, "body": ["no", "tokens"]},
        {"status": 200, "body": {"access_token": "x", "expires_in": "soon"}},
        {"status": 200, "body": {"access_token": "x", "expires_in": []}},
        {"config": {"issuer": "https://evil.test"}},
        {"tokens": {"id_token": "x"}},
    ],
    ids=str,
)
def test_c4_a_provider_that_is_away_or_confused_refuses_nobody(
    provider, asks, ask, token_of, api, lie
):
    client, _answer = sign_in(provider)
    script = api(token_of(dora_of(client)))
    provider.lie(**lie)
    for _turn in range(3):
        ask()
    assert script.get("/api/v1/me").status_code == 200
    provider.lie()
    assert ask() == 1
    assert User.objects.get().is_active
    provider.end_sessions("dora-1")
    ask()
    assert not User.objects.get().is_active


def test_c4_a_renewal_for_somebody_else_is_no_yes_and_its_token_is_not_kept(provider, asks, ask):
    sign_in(provider)
    before = ProviderGrant.objects.get()
    provider.lie(renewed={"sub": "somebody-else", "groups": ["staff"]}, rotate=True)
    assert ask() == 0
    after = ProviderGrant.objects.get()
    assert (after.refresh, after.until) == (before.refresh, before.until)


def test_c4_a_provider_that_can_not_be_reached_refuses_nobody(provider, asks, ask):
    sign_in(provider)
    asks.BERTH_OIDC_ISSUER = "http://127.0.0.1:9"
    assert ask() == 0
    assert User.objects.get().is_active
    assert not ProviderGrant.objects.get().is_unsure


@pytest.mark.parametrize("error", ["interaction_required", "login_required", "consent_required"])
def test_c4_a_provider_that_wants_to_see_the_person_ends_sessions_only(
    provider, asks, ask, token_of, api, error
):
    client, _answer = sign_in(provider)
    script = api(token_of(dora_of(client)))
    provider.lie(status=400, body={"error": error})
    ask()
    with time_machine.travel(time.time() + 3700, tick=True):
        assert client.get("/settings/profile").status_code == 302
    assert script.get("/api/v1/me").status_code == 200
    provider.lie()
    provider.end_sessions("dora-1")
    ask()
    assert script.get("/api/v1/me").status_code == 401


def test_c4_refresh_tokens_that_are_good_for_once_refuse_nobody(provider, asks, ask):
    client, _answer = sign_in(provider)
    other, _answer = sign_in(provider)
    provider.lie(rotate=True)
    before = ProviderGrant.objects.get().refresh
    for _turn in range(4):
        assert ask() == 1
        with time_machine.travel(time.time() + 3000, tick=True):
            assert client.get("/settings/profile").status_code == 200
            assert other.get("/settings/profile").status_code == 200
    assert ProviderGrant.objects.get().refresh != before
    assert User.objects.get().is_active


def test_c4_a_token_that_a_lost_answer_used_up_warns_a_day_before(
    provider, asks, ask, token_of, api
):
    client, _answer = sign_in(provider)
    script = api(token_of(dora_of(client)))
    provider.lie(rotate=True, lost=True)
    assert ask() == 0
    provider.lie(rotate=True)
    ask()
    assert script.get("/api/v1/me").status_code == 200
    assert Notification.objects.get().kind == "account.sign-in-again"
    ask(after=23 * 3600)
    assert script.get("/api/v1/me").status_code == 200
    ask(after=2 * 3600)
    assert script.get("/api/v1/me").status_code == 401
    assert refusals().count() == 1


def test_c4_a_token_that_nobody_asked_with_for_long_warns_first(provider, asks, ask):
    sign_in(provider)
    provider.end_sessions("dora-1")
    ask(after=2 * 3600)
    assert User.objects.get().is_active
    assert Notification.objects.get().kind == "account.sign-in-again"
    ask(after=25 * 3600)
    assert not User.objects.get().is_active


def test_c4_who_signs_in_after_the_warning_is_not_refused(provider, asks, ask):
    sign_in(provider)
    provider.lie(rotate=True, lost=True)
    ask()
    provider.lie(rotate=True)
    ask()
    sign_in(provider)
    ask(after=25 * 3600)
    assert User.objects.get().is_active


def test_c4_a_no_to_nearly_everybody_is_the_providers_fault(provider, asks, ask):
    for n in range(oidc_grants.TOO_MANY):
        provider.person(f"many-{n}", preferred_username=f"many{n}")
        sign_in(provider, f"many-{n}")
    provider.lie(status=400, body={"error": "invalid_grant"})
    ask()
    assert User.objects.filter(is_active=False).count() == 0
    provider.lie()
    provider.end_sessions("many-3")
    ask()
    assert list(User.objects.filter(is_active=False).values_list("username", flat=True)) == [
        "many3"
    ]


def test_c4_an_answer_that_comes_after_a_new_sign_in_refuses_nobody(provider, asks, monkeypatch):
    sign_in(provider)
    provider.end_sessions("dora-1")
    refuse = oidc_grants._act

    def after_a_sign_in(answers):
        sign_in(provider)
        refuse(answers)

    monkeypatch.setattr(oidc_grants, "_act", after_a_sign_in)
    ProviderGrant.objects.update(asked_at=now() - timedelta(minutes=5))
    oidc_grants.ask_due()
    assert User.objects.get().is_active


def test_c4_the_last_operator_stays_and_the_log_says_so_once(provider, asks, ask, make_user):
    client, _answer = sign_in(provider)
    dora = dora_of(client)
    set_platform_role(who=None, user=dora, platform_role="operator")
    provider.end_sessions("dora-1")
    ask()
    ask()
    dora.refresh_from_db()
    assert dora.is_operator
    assert Event.objects.filter(verb="user.refused", outcome="denied").count() == 1
    make_user("second", platform_role="operator")
    ask()
    dora.refresh_from_db()
    assert not dora.is_active


def test_c4_sessions_last_while_the_worker_hears_yes_and_a_little_longer(provider, asks, ask):
    client, _answer = sign_in(provider)
    ask(after=3000)
    with time_machine.travel(time.time() + 6500, tick=True):
        assert client.get("/settings/profile").status_code == 200
    with time_machine.travel(time.time() + 3000 + 3600 + 200, tick=True):
        assert client.get("/settings/profile").status_code == 302
    assert not signed_in(client)


def test_groups_of_the_provider_are_told_when_it_is_asked(provider, asks, ask, monkeypatch):
    told = []
    monkeypatch.setattr(hooks, "groups_known", lambda user, names: told.append(names))
    provider.person("dora-1", preferred_username="dora", groups=["gpu"])
    sign_in(provider)
    provider.lie(renewed={"sub": "dora-1", "groups": ["staff"]})
    ask()
    ask(after=301)
    provider.lie(renewed={"sub": "dora-1"}, userinfo={"groups": ["by userinfo"]})
    ask(after=301)
    provider.lie(renewed={"sub": "dora-1"}, userinfo={"sub": "somebody-else"})
    ask(after=301)
    provider.lie(renewed={"sub": "dora-1"}, userinfo={"groups": None})
    ask(after=301)
    assert told == [["gpu"], ["staff"], ["by userinfo"], []]


def test_c4_an_operator_sees_why_lifts_it_or_makes_it_last(provider, asks, ask, operator, as_user):
    sign_in(provider)
    provider.end_sessions("dora-1")
    ask()
    dora = User.objects.get(username="dora")
    page, people = as_user(operator), reverse("console:users")
    where = reverse("console:user", kwargs={"user": dora.uid})
    state = reverse("console:user-state", kwargs={"user": dora.uid})
    assert "Refused by the identity provider" in page.get(people).content.decode()
    text = page.get(where).content.decode()
    assert "Refused by the identity provider" in text
    assert "invalid_grant" in text
    shown = page.get(f"/api/v1/users/{dora.uid}").json()
    assert (shown["is_active"], shown["disabled_by_provider"]) == (False, True)
    page.post(state, {"state": "enable"})
    ask()
    dora.refresh_from_db()
    assert (dora.is_active, dora.disabled_by_provider) == (True, False)
    assert "Refused by" not in page.get(where).content.decode()


def test_c4_what_an_operator_disabled_no_sign_in_lifts(provider, asks, ask, operator):
    sign_in(provider)
    provider.end_sessions("dora-1")
    ask()
    dora = User.objects.get(username="dora")
    user_disable(who=Principal(user=operator), user=dora)
    client, answer = sign_in(provider)
    assert answer.url == "/accounts/inactive/"
    assert not signed_in(client)
    user_enable(who=None, user=User.objects.get(username="dora"))
    client, _answer = sign_in(provider)
    assert signed_in(client)


def test_c4_the_kept_token_is_sealed_and_leaves_with_the_identity_or_the_setting(
    provider, asks, ask
):
    client, _answer = sign_in(provider)
    assert ProviderGrant.objects.get().refresh.startswith("gAAAA")
    assert client.session["berth_oidc"]["refresh"] == ""
    SocialAccount.objects.get().delete()
    assert not ProviderGrant.objects.exists()
    sign_in(provider)
    asks.BERTH_OIDC_REFUSED = "session"
    ask()
    assert not ProviderGrant.objects.exists()
