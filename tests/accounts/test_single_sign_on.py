"""Single sign-on against a real OpenID provider in its own process, honest and lying (A14)."""

import re
import time

import pytest
import time_machine
from allauth.account.models import EmailAddress
from allauth.socialaccount.models import SocialAccount
from django.test import Client

from accounts import hooks
from accounts.models import User
from accounts.principal import Principal
from events.models import Event
from projects.models import Membership
from projects.services.members import group_role_set
from tests.accounts.conftest import PASSWORD
from tests.accounts.provider import forwarded_to, sign_in, signed_in, start

pytestmark = pytest.mark.django_db


def test_the_first_sign_in_makes_an_account_with_the_providers_name(provider):
    client, answer = sign_in(provider, next_url="/settings/profile")
    assert answer.status_code == 302
    assert answer.url == "/settings/profile"
    made = User.objects.get(username="dora")
    assert (made.email, made.display_name, made.platform_role) == (
        "dora@example.org",
        "Dora D.",
        "",
    )
    assert not made.has_usable_password()
    assert EmailAddress.objects.get(user=made).verified
    assert client.get("/settings/profile").status_code == 200
    assert Event.objects.filter(verb="user.created", target_uid=str(made.uid)).exists()


def test_the_second_sign_in_finds_the_same_account_even_under_a_new_name(provider):
    sign_in(provider)
    provider.person("dora-1", preferred_username="dora-new", name="D", email="x@example.org")
    client, _answer = sign_in(provider)
    assert signed_in(client)
    assert User.objects.count() == 1


def test_a_taken_or_odd_username_gets_a_free_one(provider, make_user):
    make_user("Dora")
    provider.person("dora-1", preferred_username="dora")
    client, _answer = sign_in(provider)
    assert User.objects.get(pk=client.session["_auth_user_id"]).username == "dora2"
    provider.person("odd", preferred_username="../../é x\n", name="O")
    client, _answer = sign_in(provider, "odd")
    name = User.objects.get(pk=client.session["_auth_user_id"]).username
    assert re.fullmatch(r"[a-zA-Z0-9][a-zA-Z0-9._@+-]*", name)


def test_the_sign_in_page_offers_the_provider_by_its_name_and_needs_a_post(provider):
    page = Client().get("/accounts/login/").content.decode()
    assert "Continue with Example University" in page
    assert Client().get("/accounts/oidc/login/").content.decode().count("0;URL") == 0


def test_nobody_can_add_parameters_to_the_request(provider):
    client = Client()
    answer = client.post(
        "/accounts/oidc/login/?auth_params=redirect_uri%3Dhttp://evil.test&scope=admin"
    )
    where = forwarded_to(answer)
    assert "evil.test" not in where
    assert "admin" not in where
    assert "code_challenge=" in where
    assert "nonce=" in where


def test_a14_an_unverified_address_links_to_nobody_and_is_not_stored(provider, make_user):
    victim = make_user("victim")
    EmailAddress.objects.create(user=victim, email=victim.email, verified=True, primary=True)
    for n, claim in enumerate([False, None, "false", "0"]):
        provider.person(f"evil-{n}", email=victim.email, email_verified=claim)
        client, _answer = sign_in(provider, f"evil-{n}")
        assert client.session["_auth_user_id"] != str(victim.pk)
        made = User.objects.get(pk=client.session["_auth_user_id"])
        assert made.email == ""
    assert EmailAddress.objects.filter(email=victim.email).count() == 1


def test_a_verified_address_links_to_the_account_that_verified_the_same(provider, make_user):
    dora = make_user("local-dora")
    dora.email = "dora@example.org"
    dora.save()
    EmailAddress.objects.create(user=dora, email=dora.email, verified=True, primary=True)
    client, _answer = sign_in(provider)
    assert client.session["_auth_user_id"] == str(dora.pk)
    assert SocialAccount.objects.get(user=dora).uid == "dora-1"


def test_a14_a_verified_address_does_not_open_an_account_that_never_verified_it(
    provider, make_user
):
    squatter = make_user("squatter")
    squatter.email = "dora@example.org"
    squatter.save()
    client, answer = sign_in(provider)
    assert answer.status_code == 409
    assert not signed_in(client)
    assert User.objects.count() == 1


def test_linking_by_address_can_be_switched_off(provider, make_user, settings):
    settings.BERTH_OIDC_LINK_VERIFIED_EMAIL = False
    dora = make_user("local-dora")
    dora.email = "dora@example.org"
    dora.save()
    EmailAddress.objects.create(user=dora, email=dora.email, verified=True, primary=True)
    client, answer = sign_in(provider)
    assert answer.status_code == 409
    assert not signed_in(client)


@pytest.mark.parametrize(
    "lies",
    [
        {"claims": {"aud": "somebody-else"}},
        {"claims": {"aud": ["berth", "other"], "azp": "other"}},
        {"claims": {"iss": "https://evil.test"}},
        {"claims": {"nonce": "replayed"}},
        {"claims": {"nonce": None}},
        {"claims": {"exp": 1}},
        {"claims": {"exp": None}},
        {"claims": {"sub": None}},
        {"key": "foreign"},
        {"alg": "none"},
        {"alg": "HS256"},
        {"tokens": {"id_token": None}},
        {"tokens": {"id_token": "garbage"}},
        {"userinfo": {"sub": "somebody-else"}},
        {"status": 400},
    ],
    ids=str,
)
def test_a14_a_wrong_answer_of_the_provider_signs_nobody_in(provider, lies):
    client = Client()
    where = start(client)
    back = provider.consent(where, "dora-1")
    provider.lie(**lies)
    answer = client.get(back)
    assert answer.status_code == 401
    assert not signed_in(client)
    assert not User.objects.exists()
    assert Event.objects.filter(verb="user.sign-in-denied", outcome="denied").exists()


def test_a14_a_provider_under_another_issuer_is_not_trusted(provider):
    provider.lie(config={"issuer": "https://evil.test"})
    answer = Client().post("/accounts/oidc/login/")
    assert answer.status_code == 503


def test_a14_an_answer_can_not_be_used_twice_or_by_another_browser(provider):
    client = Client()
    back = provider.consent(start(client), "dora-1")
    thief = Client()
    assert thief.get(back).status_code == 401
    assert not signed_in(thief)
    assert client.get(back).status_code == 302
    client.post("/accounts/logout/")
    assert client.get(back).status_code == 401
    assert not signed_in(client)


def test_a_disabled_person_does_not_come_in_by_single_sign_on(provider):
    client, _answer = sign_in(provider)
    client.post("/accounts/logout/")
    User.objects.update(is_active=False)
    client, answer = sign_in(provider)
    assert answer.url == "/accounts/inactive/"
    assert not signed_in(client)


@pytest.fixture
def told(monkeypatch):
    """What was said of groups, each time."""
    found = []
    monkeypatch.setattr(hooks, "groups_known", lambda user, names: found.append(names))
    return found


def test_groups_of_the_provider_are_told_at_every_sign_in(provider, monkeypatch):
    told = []
    monkeypatch.setattr(
        hooks, "groups_known", lambda user, names: told.append((user.username, names))
    )
    provider.person("dora-1", preferred_username="dora", groups=["gpu", "staff"])
    sign_in(provider)
    provider.person("dora-1", preferred_username="dora", groups=[])
    sign_in(provider)
    provider.person("dora-1", preferred_username="dora", groups=["gpu"])
    sign_in(provider)
    provider.person("dora-1", preferred_username="dora")  # in none: many leave the claim out
    sign_in(provider)
    assert [names for _who, names in told] == [["gpu", "staff"], [], ["gpu"], []]
    assert {who for who, _names in told} == {"dora"}


@pytest.mark.parametrize(
    "mark", [{"_claim_names": {"groups": "src1"}}, {"hasgroups": True}], ids=["names", "flag"]
)
def test_groups_that_the_provider_left_out_as_too_many_change_nothing(provider, told, mark):
    provider.lie(claims=mark)
    sign_in(provider)
    assert told == []
    provider.lie(claims={"_claim_names": {"address": "src1"}, "hasgroups": False})
    sign_in(provider)
    assert told == [[]]


def test_a_provider_that_never_sends_groups_is_said_to_by_an_empty_setting(
    provider, told, settings
):
    settings.BERTH_OIDC_GROUPS_CLAIM = ""
    sign_in(provider)
    assert told == []


def test_groups_of_a_renewal_are_asked_of_userinfo_where_its_token_lacks_them(provider, told):
    provider.lie(userinfo={"groups": ["gpu"]})
    client, _answer = sign_in(provider)

    def renewed(after, **lies):
        provider.lie(**lies)
        with time_machine.travel(time.time() + after, tick=True):
            assert client.get("/settings/profile").status_code == 200

    token = {"sub": "dora-1"}
    renewed(3700, renewed=token, userinfo={"groups": ["staff"]})
    renewed(7400, renewed=token | {"groups": ["own"]}, userinfo={"groups": ["staff"]})
    renewed(11100, renewed=token)
    renewed(14800, renewed=token, userinfo={"sub": "somebody-else", "groups": ["gpu"]})
    renewed(18500, userinfo={"groups": ["no token"]})
    renewed(22200, config={"userinfo_endpoint": ""})
    assert told == [["gpu"], ["staff"], ["own"], [], ["no token"]]


def test_who_left_a_group_loses_what_it_gave_at_the_next_sign_in(provider, project, operator):
    """Many providers leave the claim out for whoever is in no group."""
    who = Principal(user=operator)
    group_role_set(principal=who, group="gpu", project=project, role="member")
    group_role_set(principal=who, group="admins", project=None, platform_role="operator")
    provider.person("dora-1", preferred_username="dora", groups=["gpu", "admins"])
    sign_in(provider)
    dora = User.objects.get(username="dora")
    assert dora.platform_role == "operator"
    assert Membership.objects.filter(user=dora, project=project).exists()
    provider.person("dora-1", preferred_username="dora")
    sign_in(provider)
    dora.refresh_from_db()
    assert dora.platform_role == ""
    assert not Membership.objects.filter(user=dora).exists()


def test_an_unreachable_provider_is_said_so(settings):
    settings.BERTH_OIDC_ISSUER = "http://127.0.0.1:9"
    settings.BERTH_OIDC_CLIENT_ID = "berth"
    assert Client().post("/accounts/oidc/login/").status_code == 503


def test_a14_the_session_goes_on_while_the_provider_agrees(provider):
    client, _answer = sign_in(provider)
    with time_machine.travel(time.time() + 3700, tick=True):
        assert client.get("/settings/profile").status_code == 200


def test_a14_the_session_ends_with_the_providers(provider, monkeypatch):
    ended = []
    monkeypatch.setattr(hooks.sessions_ended, "_callbacks", [lambda user, keys: ended.extend(keys)])
    client, _answer = sign_in(provider)
    key = client.session.session_key
    provider.end_sessions("dora-1")
    assert client.get("/settings/profile").status_code == 200
    with time_machine.travel(time.time() + 3700, tick=True):
        assert client.get("/settings/profile").status_code == 302
    assert key in ended
    assert not signed_in(client)


def test_a14_without_a_refresh_token_the_session_ends_with_the_token(provider):
    client = Client()
    back = provider.consent(start(client), "dora-1")
    provider.lie(tokens={"refresh_token": None})
    client.get(back)
    assert client.get("/settings/profile").status_code == 200
    with time_machine.travel(time.time() + 3700, tick=True):
        assert client.get("/settings/profile").status_code == 302


def test_a14_a_provider_that_is_down_is_forgiven_for_two_minutes_only(provider):
    client, _answer = sign_in(provider)
    provider.lie(status=503)
    with time_machine.travel(time.time() + 3610, tick=True):
        assert client.get("/settings/profile").status_code == 200
    with time_machine.travel(time.time() + 3800, tick=True):
        assert client.get("/settings/profile").status_code == 302


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, {"error": "invalid_client"}),
        (400, {"error": "temporarily_unavailable"}),
        (400, {"error": ["invalid_grant"]}),
        (400, ["invalid_grant"]),
        (401, {"error": "invalid_client"}),
        (403, "<html>Request blocked</html>"),
        (429, {"error": "slow_down"}),
        (200, ["no", "tokens"]),
        (200, {"access_token": "x", "expires_in": "soon"}),
    ],
    ids=str,
)
def test_a14_an_answer_that_is_neither_yes_nor_no_is_forgiven_for_two_minutes_only(
    provider, status, body
):
    client, _answer = sign_in(provider)
    provider.lie(status=status, body=body)
    with time_machine.travel(time.time() + 3610, tick=True):
        assert client.get("/settings/profile").status_code == 200
    with time_machine.travel(time.time() + 3800, tick=True):
        assert client.get("/settings/profile").status_code == 302
    assert not signed_in(client)


@pytest.mark.parametrize("error", ["invalid_grant", "login_required", "interaction_required"])
@pytest.mark.parametrize("status", [400, 401, 403])
def test_a14_a_no_to_the_person_ends_the_session_at_once(provider, status, error):
    client, _answer = sign_in(provider)
    provider.lie(status=status, body={"error": error})
    with time_machine.travel(time.time() + 3610, tick=True):
        assert client.get("/settings/profile").status_code == 302
    assert not signed_in(client)


def test_refresh_tokens_are_not_readable_in_the_session_table(provider):
    from accounts.crypto import unseal

    client, _answer = sign_in(provider)
    kept = client.session["berth_oidc"]["refresh"]
    assert kept.startswith("gAAAA")
    assert unseal(kept)
    assert unseal(kept) not in str(dict(client.session))


def test_one_connects_and_disconnects_single_sign_on_in_the_settings(provider, alice, as_user):
    client = as_user(alice)
    assert "Connect Example University" in client.get("/accounts/3rdparty/").content.decode()
    client.post("/accounts/reauthenticate/", {"password": PASSWORD})
    where = forwarded_to(client.post("/accounts/oidc/login/?process=connect"))
    assert client.get(provider.consent(where, "dora-1")).status_code == 302
    linked = SocialAccount.objects.get(user=alice)
    assert linked.uid == "dora-1"
    browser, _answer = sign_in(provider)
    assert browser.session["_auth_user_id"] == str(alice.pk)
    page = client.get("/accounts/3rdparty/").content.decode()
    assert "dora-1" in page
    client.post("/accounts/3rdparty/", {"account": linked.pk})
    assert not SocialAccount.objects.exists()


def test_nobody_connects_an_identity_that_belongs_to_somebody_else(provider, alice, as_user):
    sign_in(provider)
    owner = SocialAccount.objects.get().user
    client = as_user(alice)
    client.post("/accounts/reauthenticate/", {"password": PASSWORD})
    where = forwarded_to(client.post("/accounts/oidc/login/?process=connect"))
    client.get(provider.consent(where, "dora-1"))
    assert SocialAccount.objects.get().user == owner
