"""The account over the API: profile, sessions, keys, people; CSRF; limits."""

import json

import pytest
from django.test import Client

from accounts.models import User
from events.models import Event

pytestmark = pytest.mark.django_db
JSON = "application/json"


def test_one_changes_the_own_profile(alice, token_of, api):
    client = api(token_of(alice))
    body = {"display_name": "Alice A.", "language": "ja", "timezone": "Asia/Tokyo", "theme": "dark"}
    answer = client.patch("/api/v1/me", body, content_type=JSON)
    assert answer.status_code == 200
    assert {k: answer.json()[k] for k in body} == body
    assert Event.objects.filter(verb="profile.updated", via__startswith="token:").exists()


@pytest.mark.parametrize(
    "field",
    [
        {"platform_role": "operator"},
        {"is_staff": True},
        {"is_superuser": True},
        {"is_active": False},
        {"username": "root"},
        {"email": "x@example.org"},
        {"id": "6f9b1d0e-0000-4000-8000-000000000001"},
        {"uid": "6f9b1d0e-0000-4000-8000-000000000001"},
        {"password": "new"},
        {"session_epoch": 9},
        {"date_joined": "2001-01-01"},
        {"groups": [1]},
        {"user_permissions": [1]},
        {"timezone": "Mars/Olympus"},
        {"timezone": "../../etc/passwd"},
        {"language": "xx"},
        {"theme": "pink"},
        {"display_name": "a\u0000b"},
        {"display_name": "x" * 121},
    ],
    ids=str,
)
def test_a5_a_profile_takes_no_foreign_or_wrong_field(alice, token_of, api, field):
    before = User.objects.values().get(pk=alice.pk)
    answer = api(token_of(alice)).patch("/api/v1/me", field, content_type=JSON)
    assert answer.status_code == 400
    assert next(iter(field)) in answer.json()["fields"]
    assert User.objects.values().get(pk=alice.pk) == before


def test_operators_make_find_change_and_disable_people(operator, token_of, api):
    client = api(token_of(operator))
    made = client.post(
        "/api/v1/users",
        {"username": "newbie", "email": "n@example.org", "password": "a long enough secret"},
        content_type=JSON,
    )
    assert made.status_code == 201
    assert "password" not in made.json()
    where = f"/api/v1/users/{made.json()['id']}"
    assert client.get(where).json()["username"] == "newbie"
    found = client.get("/api/v1/users?search=newb").json()["results"]
    assert [u["username"] for u in found] == ["newbie"]
    changed = client.patch(where, {"platform_role": "auditor"}, content_type=JSON)
    assert changed.json()["platform_role"] == "auditor"
    off = client.patch(where, {"is_active": False}, content_type=JSON)
    assert off.json()["is_active"] is False
    assert off.json()["disabled_at"]
    on = client.patch(where, {"is_active": True, "display_name": "N"}, content_type=JSON)
    assert (on.json()["is_active"], on.json()["display_name"]) == (True, "N")
    verbs = set(Event.objects.values_list("verb", flat=True))
    assert {"user.created", "user.role-changed", "user.disabled", "user.enabled"} <= verbs


def test_people_are_listed_for_auditors_and_hidden_from_everybody_else(
    auditor, alice, token_of, api
):
    assert api(token_of(auditor)).get("/api/v1/users").status_code == 200
    post = api(token_of(auditor)).post("/api/v1/users", {"username": "x"}, content_type=JSON)
    assert post.status_code == 403
    assert api(token_of(alice)).get("/api/v1/users").status_code == 403
    assert api(token_of(alice)).get(f"/api/v1/users/{alice.uid}").status_code == 403
    patch = api(token_of(alice)).patch(
        f"/api/v1/users/{alice.uid}", {"platform_role": "operator"}, content_type=JSON
    )
    assert patch.status_code == 403
    assert Client().get("/api/v1/users").status_code == 401


@pytest.mark.parametrize(
    "field",
    [{"username": "x"}, {"is_staff": True}, {"password": "x"}, {"email": "x"}, {"uid": "x"}],
    ids=str,
)
def test_a5_people_take_no_foreign_field(operator, alice, token_of, api, field):
    before = User.objects.values().get(pk=alice.pk)
    answer = api(token_of(operator)).patch(f"/api/v1/users/{alice.uid}", field, content_type=JSON)
    assert answer.status_code == 400
    assert User.objects.values().get(pk=alice.pk) == before


def test_the_list_of_people_has_pages_and_few_queries(
    operator, make_user, token_of, api, django_assert_max_num_queries
):
    for n in range(60):
        make_user(f"user{n:02}")
    client = api(token_of(operator))
    client.get("/api/v1/users")
    with django_assert_max_num_queries(3):
        first = client.get("/api/v1/users?page_size=25").json()
    assert len(first["results"]) == 25
    second = client.get(first["next"].removeprefix("http://testserver")).json()
    names = [u["username"] for u in first["results"] + second["results"]]
    assert len(set(names)) == 50


def test_sessions_are_listed_and_ended_over_the_api(alice, bob, token_of, api, sign_in):
    browser = Client()
    sign_in(browser, "alice")
    client = api(token_of(alice))
    listed = client.get("/api/v1/me/sessions").json()
    assert len(listed) == 1
    assert api(token_of(bob)).delete(f"/api/v1/me/sessions/{listed[0]['id']}").status_code == 404
    assert client.delete(f"/api/v1/me/sessions/{listed[0]['id']}").status_code == 204
    assert browser.get("/settings/profile").status_code == 302


def test_a13_the_api_refuses_a_session_without_the_csrf_token(alice, visitor):
    visitor.force_login(alice, backend="allauth.account.auth_backends.AuthenticationBackend")
    body = json.dumps({"name": "evil"})
    kinds = (
        JSON,
        "text/plain",
        "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x",
    )
    for kind in kinds:
        for extra in ({}, {"Origin": "https://evil.test"}, {"X-HTTP-Method-Override": "GET"}):
            answer = visitor.post("/api/v1/me/tokens", body, content_type=kind, headers=extra)
            assert answer.status_code == 403
            assert answer["Content-Type"] == "application/problem+json"
    assert alice.api_tokens.count() == 0


def test_a13_a_foreign_origin_is_refused_even_with_the_csrf_token(alice, visitor):
    visitor.force_login(alice, backend="allauth.account.auth_backends.AuthenticationBackend")
    visitor.get("/settings/tokens")
    csrf = visitor.cookies["berth_csrf"].value
    body = json.dumps({"name": "fine"})
    foreign = {"X-CSRFToken": csrf, "Origin": "https://evil.test"}
    answer = visitor.post("/api/v1/me/tokens", body, content_type=JSON, headers=foreign)
    assert answer.status_code == 403
    own = {"X-CSRFToken": csrf, "Origin": "http://testserver"}
    answer = visitor.post("/api/v1/me/tokens", body, content_type=JSON, headers=own)
    assert answer.status_code == 201


FRAME = {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate"}


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (200, {}),
        (200, {"Sec-Fetch-Site": "same-origin", "Sec-Fetch-Mode": "cors"}),
        (200, {"Origin": "http://testserver"}),
        (200, {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "navigate"}),  # a link
        (403, {"Sec-Fetch-Site": "same-site", "Sec-Fetch-Mode": "cors"}),
        (403, {**FRAME, "Sec-Fetch-Dest": "iframe"}),
        (200, {**FRAME, "Sec-Fetch-Dest": "document"}),
        (403, {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": "no-cors"}),
        (403, {"Origin": "http://w.nb.testserver:8001"}),
        (403, {"Origin": "null"}),
    ],
)
def test_b1_a_session_reads_the_api_on_the_portals_own_pages_only(alice, visitor, status, headers):
    visitor.force_login(alice, backend="allauth.account.auth_backends.AuthenticationBackend")
    answer = visitor.get("/api/v1/me", headers=headers)
    assert answer.status_code == status
    assert status == 200 or answer.json()["code"] == "foreign-origin"


def test_b1_a_token_reads_the_api_wherever_its_holder_is(alice, token_of, api):
    elsewhere = {"Origin": "https://dashboard.example", "Sec-Fetch-Site": "cross-site"}
    assert api(token_of(alice)).get("/api/v1/me", headers=elsewhere).status_code == 200


def test_forms_are_no_input_of_the_api(alice, token_of, api):
    client = api(token_of(alice))
    assert client.post("/api/v1/me/tokens", {"name": "x"}).status_code == 415
    plain = client.post("/api/v1/me/tokens", '{"name":"x"}', content_type="text/plain")
    assert plain.status_code == 415


def test_f2_the_rate_limit_counts_the_person_not_his_headers_or_tokens(
    alice, bob, token_of, api, settings
):
    settings.BERTH_API_RATE = 10
    codes = []
    for n in range(14):
        client = api(token_of(alice))  # a new token each time
        forged = {"X-Forwarded-For": f"203.0.113.{n}", "X-Real-IP": f"203.0.113.{n}"}
        codes.append(client.get("/api/v1/me", headers=forged).status_code)
    assert codes.count(200) == 10
    last = api(token_of(alice)).get("/api/v1/me")
    assert last.status_code == 429
    assert int(last["Retry-After"]) >= 1
    assert last["Content-Type"] == "application/problem+json"
    assert api(token_of(bob)).get("/api/v1/me").status_code == 200


def test_f2_a_visitor_is_counted_by_address_whatever_he_forwards(db, settings):
    settings.BERTH_API_RATE = 5
    codes = [
        Client()
        .post(
            "/api/v1/auth/device",
            {},
            content_type=JSON,
            headers={"X-Forwarded-For": f"203.0.113.{n}"},
        )
        .status_code
        for n in range(8)
    ]
    assert codes == [200] * 5 + [429] * 3


def test_f2_one_person_has_a_bounded_number_of_requests_at_one_time(rf, settings):
    from accounts import fair_use

    settings.BERTH_API_CONCURRENCY = 3
    running = [rf.get("/") for _n in range(5)]
    assert [fair_use.enter(r, "user:1") for r in running] == [0.0, 0.0, 0.0, 1.0, 1.0]
    assert fair_use.enter(rf.get("/"), "user:2") == 0.0
    fair_use.leave(running[0])
    assert fair_use.enter(running[4], "user:1") == 0.0
