"""A4: nobody is who a header says, nor where a header says; on no listener."""

from typing import Any

import pytest
from django.test import Client

from events.models import Event

pytestmark = pytest.mark.django_db

NAMES = (
    "X-Forwarded-User",
    "X-Forwarded-Preferred-Username",
    "X-Forwarded-Email",
    "X-Auth-Request-User",
    "X-Remote-User",
    "Remote-User",
    "Kubeflow-Userid",
    "X-Goog-Authenticated-User-Email",
    "X-WebAuth-User",
    "X-User",
    "X-Original-User",
)
FORGED = {
    **dict.fromkeys(NAMES, "olga"),
    "X-Forwarded-For": "127.0.0.1",
    "X-Real-IP": "127.0.0.1",
    "Forwarded": 'for=127.0.0.1;host="localhost"',
    "X-Forwarded-Host": "localhost:8000",
    "X-Forwarded-Port": "8000",
    "X-Forwarded-Proto": "https",
    "X-Original-URL": "/console/",
    "X-Rewrite-URL": "/console/",
    "X-HTTP-Method-Override": "DELETE",
}
PAGES = (
    "/",
    "/console/",
    "/projects/",
    "/api/v1/me",
    "/api/v1/users",
    "/hub/home",
    "/hub/api/user",
)


@pytest.mark.parametrize("path", PAGES)
def test_a4_the_portal_takes_nobody_for_who_a_header_says(path: str, operator: Any) -> None:
    answer = Client().get(path, headers=FORGED, REMOTE_USER="olga", AUTHENTICATE_UID="olga")
    assert answer.status_code in {302, 401, 403}
    if answer.status_code == 302:
        assert "login" in answer["Location"]
    assert b"olga" not in answer.content


@pytest.mark.parametrize("path", PAGES)
def test_a4_nor_does_the_listener_of_workloads(
    path: str, operator: Any, as_user: Any, settings: Any
) -> None:
    port = str(settings.BERTH_INTERNAL_PORT)
    for client in (Client(), as_user(operator)):
        for host in ("localhost", "localhost:8000", f"127.0.0.1:{port}", "x.nb.localhost"):
            answer = client.get(path, headers={**FORGED, "Host": host}, SERVER_PORT=port)
            assert answer.status_code in {403, 404}, host
            assert b"olga" not in answer.content
            assert not answer.cookies


def test_a4_the_port_in_a_host_header_makes_no_listener(settings: Any) -> None:
    host = f"localhost:{settings.BERTH_INTERNAL_PORT}"
    answer = Client().get("/accounts/login/", headers={"Host": host})
    assert answer.status_code == 200


def test_a4_a_workload_on_the_internal_listener_is_its_token_and_nothing_else(
    operator: Any, as_user: Any, settings: Any
) -> None:
    client = as_user(operator)  # a session is nothing here
    port = str(settings.BERTH_INTERNAL_PORT)
    for verb, path in (
        ("get", "/hub/api/user"),
        ("get", "/hub/api/users"),
        ("post", "/hub/api/users/olga/activity"),
        ("get", "/hub/api/shares/olga/x"),
    ):
        answer = getattr(client, verb)(path, headers=FORGED, SERVER_PORT=port)
        assert answer.status_code == 403, path


def test_a4_what_is_for_this_machine_only_believes_no_header() -> None:
    far = {"REMOTE_ADDR": "203.0.113.9"}
    assert Client().get("/metrics", headers=FORGED, **far).status_code in {401, 403, 404}


def test_a4_events_name_the_peer_not_the_header() -> None:
    headers = {**FORGED, "Authorization": "Bearer berth_" + "x" * 40}
    answer = Client().get("/api/v1/me", headers=headers, REMOTE_ADDR="203.0.113.9")
    assert answer.status_code == 401
    assert Event.objects.filter(verb="token.denied").latest("id").ip == "203.0.113.9"


@pytest.mark.parametrize(
    "origin",
    ["http://w.nb.testserver:8001", "http://w.nb.localhost:8001", "http://testserver:8001", "null"],
)
@pytest.mark.parametrize("path", ["/preferences", "/projects/new", "/api/v1/me/tokens"])
def test_b1_a_workspace_that_planted_its_own_csrf_cookie_is_refused_by_its_origin(
    origin: str, path: str, alice: Any, settings: Any
) -> None:
    """A sibling host is the same site: cookies come along and can be tossed. The origin decides."""
    client = Client(enforce_csrf_checks=True)
    client.force_login(alice, backend="allauth.account.auth_backends.AuthenticationBackend")
    planted = "a" * 32
    client.cookies[settings.CSRF_COOKIE_NAME] = planted
    answer = client.post(
        path,
        {"csrfmiddlewaretoken": planted, "name": "x", "theme": "dark"},
        headers={"Origin": origin, "X-CSRFToken": planted, "Sec-Fetch-Site": "same-site"},
    )
    assert answer.status_code == 403
