"""API tokens: made, limited, used, revoked (A7)."""

from datetime import timedelta

import pytest
import time_machine
from django.test import Client

from accounts.models import ApiToken
from accounts.principal import Principal
from accounts.services.tokens import token_authenticate, token_create
from common.clock import now
from common.errors import Forbidden
from events.models import Event

pytestmark = pytest.mark.django_db


def test_a_token_opens_the_api_as_its_person(alice, token_of, api):
    answer = api(token_of(alice)).get("/api/v1/me")
    assert answer.status_code == 200
    assert answer.json()["username"] == "alice"


def test_only_a_hash_of_the_token_is_kept(alice, token_of):
    secret = token_of(alice)
    row = ApiToken.objects.get()
    assert secret.startswith("berth_")
    assert len(secret) == 46
    assert row.prefix == secret[:12]
    kept = str(ApiToken.objects.values().get()) + str(list(Event.objects.values()))
    assert secret not in kept
    assert secret[12:] not in kept


def test_a_token_costs_one_query_and_its_use_is_noted_once_a_minute(
    alice, token_of, django_assert_num_queries
):
    secret = token_of(alice)
    with time_machine.travel("2026-11-21T10:00:00Z", tick=False):
        with django_assert_num_queries(2):
            assert token_authenticate(secret=secret, ip="192.0.2.1").user == alice
        with django_assert_num_queries(1):
            token_authenticate(secret=secret, ip="192.0.2.2")
    used = ApiToken.objects.get()
    assert used.last_used_ip == "192.0.2.1"
    with time_machine.travel("2026-11-21T10:01:30Z", tick=False):
        token_authenticate(secret=secret, ip="192.0.2.2")
    used.refresh_from_db()
    assert used.last_used_ip == "192.0.2.2"


def test_a7_a_token_in_the_address_or_a_cookie_opens_nothing(alice, token_of):
    secret = token_of(alice)
    client = Client()
    for name in ("token", "access_token", "api_key", "authorization"):
        assert client.get(f"/api/v1/me?{name}={secret}").status_code == 401
    client.cookies["token"] = secret
    client.cookies["Authorization"] = f"Bearer {secret}"
    assert client.get("/api/v1/me").status_code == 401


@pytest.mark.parametrize(
    "header",
    [
        "Bearer",
        "Bearer ",
        "Bearer berth_",
        "Bearer berth_" + "a" * 40,
        "Bearer " + "x" * 100_000,
        "Bearer berth_\u00e9" + "a" * 39,
        "Bearer a b c",
        "Bearer null",
    ],
    ids=lambda h: h[:20],
)
def test_a7_a_wrong_token_is_a_401_with_a_problem_document(db, header):
    answer = Client(headers={"Authorization": header}).get("/api/v1/me")
    assert answer.status_code == 401
    assert answer["WWW-Authenticate"].startswith("Bearer")
    assert answer["Content-Type"] == "application/problem+json"
    assert answer.json()["status"] == 401


def test_a7_an_expired_token_opens_nothing(alice, token_of, api):
    secret = token_of(alice, expires_at=now() + timedelta(minutes=5))
    assert api(secret).get("/api/v1/me").status_code == 200
    with time_machine.travel(now() + timedelta(minutes=6), tick=False):
        assert api(secret).get("/api/v1/me").status_code == 401


def test_a7_a_revoked_token_opens_nothing_at_once(alice, token_of, api, as_user):
    secret = token_of(alice)
    token = ApiToken.objects.get()
    assert as_user(alice).post(f"/settings/tokens/{token.uid}/revoke").status_code == 302
    assert api(secret).get("/api/v1/me").status_code == 401
    assert Event.objects.filter(verb="token.revoked", target_uid=str(token.uid)).exists()


def test_a7_a_read_only_token_reads_and_never_writes(alice, token_of, api):
    client = api(token_of(alice, read_only=True))
    assert client.get("/api/v1/me").status_code == 200
    refused = client.patch("/api/v1/me", {"display_name": "x"}, content_type="application/json")
    assert refused.status_code == 403
    assert client.delete("/api/v1/me/sessions/1").status_code == 403
    assert client.post("/api/v1/me/tokens").status_code == 403
    alice.refresh_from_db()
    assert alice.display_name == "Alice"
    assert Event.objects.filter(verb="token.write-denied", actor_uid=alice.uid).exists()


def test_a_token_without_the_scope_of_the_account_knows_whose_it_is_and_no_more(
    alice, token_of, api
):
    client = api(token_of(alice, scopes=["platform:audit"]))
    assert client.get("/api/v1/me").json()["username"] == "alice"
    assert client.get("/api/v1/me/tokens").status_code == 403
    reader = api(token_of(alice, scopes=["account:read"]))
    assert reader.get("/api/v1/me").status_code == 200
    patch = reader.patch("/api/v1/me", {"theme": "dark"}, content_type="application/json")
    assert patch.status_code == 403


def test_an_operators_token_without_the_platform_scope_is_no_operators(operator, token_of, api):
    limited = api(token_of(operator, scopes=["account:read"]))
    assert limited.get("/api/v1/users").status_code == 403
    assert api(token_of(operator)).get("/api/v1/users").status_code == 200


def test_a_token_makes_no_token_that_may_more_or_lives_longer_than_itself(alice):
    project = "6f9b1d0e-0000-4000-8000-000000000001"
    limits = {"scopes": ["account:manage", "account:read"], "project_uids": [project]}
    maker, _s = token_create(
        who=Principal(user=alice), name="m", expires_at=now() + timedelta(days=2), **limits
    )
    who = Principal(user=alice, token=maker)
    for wider in (
        {},
        {"scopes": ["account:read"]},
        {"project_uids": [project]},
        {**limits, "scopes": [*limits["scopes"], "platform:operate"]},
    ):
        with pytest.raises(Forbidden):
            token_create(who=who, name="child", **wider)
    child, _s = token_create(who=who, name="child", **limits)
    assert child.expires_at <= maker.expires_at


def test_tokens_are_made_listed_and_revoked_over_the_api(alice, token_of, api):
    client = api(token_of(alice))
    made = client.post(
        "/api/v1/me/tokens",
        {"name": "nightly", "read_only": True, "scopes": ["account:read"]},
        content_type="application/json",
    )
    assert made.status_code == 201
    assert made["Cache-Control"] == "no-store"
    secret = made.json()["token"]
    assert api(secret).get("/api/v1/me").status_code == 200
    listed = client.get("/api/v1/me/tokens").json()["results"]
    assert [t["name"] for t in listed] == ["nightly", "test"]
    assert "token" not in listed[0]
    assert secret not in str(listed)
    assert client.delete(f"/api/v1/me/tokens/{made.json()['id']}").status_code == 204
    assert api(secret).get("/api/v1/me").status_code == 401


def test_a_secret_is_not_kept_for_an_idempotency_key(alice, token_of, api):
    client = api(token_of(alice))
    key = {"Idempotency-Key": "one-and-the-same-key"}
    body = {"name": "n"}
    answers = [
        client.post("/api/v1/me/tokens", body, content_type="application/json", headers=key)
        for _n in range(2)
    ]
    assert [a.status_code for a in answers] == [201, 201]
    assert answers[0].json()["token"] != answers[1].json()["token"]


def test_nobody_revokes_the_token_of_somebody_else(alice, bob, token_of, api):
    token_of(alice)
    theirs = ApiToken.objects.get(user=alice)
    stranger = api(token_of(bob))
    assert stranger.delete(f"/api/v1/me/tokens/{theirs.uid}").status_code == 404
    theirs.refresh_from_db()
    assert theirs.revoked_at is None


@pytest.mark.parametrize(
    "body",
    [
        {},
        {"name": ""},
        {"name": "a\nb"},
        {"name": "a\u0000b"},
        {"name": "x" * 81},
        {"name": "n", "scopes": ["no:such"]},
        {"name": "n", "scopes": "account:read"},
        {"name": "n", "project_uids": ["x"]},
        {"name": "n", "expires_at": "2001-01-01T00:00:00Z"},
        {"name": "n", "expires_at": "2999-01-01T00:00:00Z"},
        {"name": "n", "expires_at": "soon"},
        {"name": "n", "user": 1},
        {"name": "n", "digest": "x"},
        {"name": "n", "prefix": "x"},
        [],
        "x",
    ],
    ids=str,
)
def test_a5_a_token_with_wrong_or_foreign_fields_is_a_400(alice, token_of, api, body):
    answer = api(token_of(alice)).post("/api/v1/me/tokens", body, content_type="application/json")
    assert answer.status_code == 400
    assert answer["Content-Type"] == "application/problem+json"
    assert ApiToken.objects.count() == 1


def test_the_page_shows_a_new_token_once(alice, as_user):
    client = as_user(alice)
    made = client.post("/settings/tokens", {"name": "laptop", "days": 30})
    assert made.status_code == 201
    assert made["Cache-Control"] == "no-store"
    page = made.content.decode()
    secret = page.split('data-copy="berth_')[1].split('"')[0]
    assert token_authenticate(secret=f"berth_{secret}").user == alice
    assert secret not in client.get("/settings/tokens").content.decode()


def test_the_page_limits_a_token_to_projects_of_the_person(alice, as_user, monkeypatch):
    from accounts import hooks

    uid = "6f9b1d0e-0000-4000-8000-000000000001"
    monkeypatch.setattr(hooks.project_choices, "_callbacks", [lambda user: [(uid, "Vision")]])
    client = as_user(alice)
    client.post("/settings/tokens", {"name": "n", "days": 7, "project_uids": [uid]})
    assert ApiToken.objects.get().project_uids == [uid]
    other = {"name": "n", "days": 7, "project_uids": ["6f9b1d0e-0000-4000-8000-00000000000f"]}
    assert client.post("/settings/tokens", other).status_code == 400
    assert b"Vision" in client.get("/settings/tokens").content
