"""What a workspace's address answers while nothing runs behind it, and who answers where."""

from typing import Any

import pytest
from django.test import Client as Browser

from tests.hubapi.conftest import World


def ask(host: str, path: str = "/", **headers: str) -> Any:
    return Browser().get("/hub/424", {"host": host, "path": path, "code": "404"}, headers=headers)


def test_lab_gets_424_as_json(world: World) -> None:
    response = ask(f"{world.info.short_id}.nb.localhost", "/api/kernels", Accept="*/*")
    assert response.status_code == 424
    assert response["Content-Type"] == "application/json"
    assert response.json()["resume_url"].endswith(f"/hub/spawn/-/{world.info.short_id}")


def test_person_gets_a_page_with_a_way_to_resume(world: World) -> None:
    response = ask(
        f"{world.info.short_id}.nb.localhost:8001", "/lab", **{"Sec-Fetch-Mode": "navigate"}
    )
    assert response.status_code == 424
    page = response.content.decode()
    assert f"http://localhost:8000/hub/spawn/-/{world.info.short_id}" in page
    assert "<script" not in page
    assert "default-src 'none'" in response["Content-Security-Policy"]
    assert not response.cookies


def test_plain_http_page_is_known_by_what_it_accepts(world: World) -> None:
    host = f"{world.info.short_id}.nb.localhost"
    page = ask(host, "/lab", Accept="text/html,application/xhtml+xml")
    assert page["Content-Type"].startswith("text/html")
    assert ask(host, "/api/status", Accept="text/html")["Content-Type"] == "application/json"


def test_a10_page_is_the_same_for_stopped_unknown_and_foreign_workspaces(world: World) -> None:
    known = ask(f"{world.info.short_id}.nb.localhost", Accept="text/html").content.decode()
    unknown = ask("abcdefghij.nb.localhost", Accept="text/html").content.decode()
    assert known.replace(world.info.short_id, "abcdefghij") == unknown
    assert world.info.name not in known
    assert "alice" not in known


@pytest.mark.parametrize(
    "host", ["", "\x01", "a b.nb.localhost", "<script>.nb.localhost", "x" * 3000]
)
def test_b3_odd_hosts_are_not_repeated(db: None, host: str) -> None:
    response = ask(host, Accept="text/html")
    assert response.status_code == 424
    assert b"<script" not in response.content
    assert b'href="http://localhost:8000/"' in response.content


def test_path_routing_finds_the_workspace_in_the_path(world: World, settings: Any) -> None:
    settings.BERTH_NOTEBOOK_ROUTING = "path"
    response = ask("127.0.0.1", f"/ws/{world.info.short_id}/api/kernels")
    assert response.json()["resume_url"].endswith(world.info.short_id)


@pytest.mark.parametrize(
    "path", ["/", "/hub/home", "/api/v1/me", "/accounts/login/", "/static/x.css"]
)
def test_b1_portal_shows_nothing_of_itself_under_a_workspaces_host(db: None, path: str) -> None:
    for host in ("x.nb.localhost", "x.nb.localhost:8000", "NB.localhost", "x.nb.localhost."):
        response = Browser().get(path, headers={"Host": host})
        assert response.status_code == 424
        assert not response.cookies


def test_b1_path_routing_host_leads_people_to_the_portals_own(db: None, settings: Any) -> None:
    settings.BERTH_NOTEBOOK_ROUTING = "path"
    page = Browser().get("/x?y=1", headers={"Host": "127.0.0.1:8000", "Accept": "text/html"})
    assert page["Location"] == "http://localhost:8000/x?y=1"
    api = Browser().post("/api/v1/projects", headers={"Host": "127.0.0.1:8000"})
    assert api.status_code == 424


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/", 404),
        ("/api/v1/me", 404),
        ("/accounts/login/", 404),
        ("/hub/home", 404),
        ("/hub/logout", 404),
        ("/hub/api/oauth2/authorize", 404),
        ("/hub/../api/v1/me", 404),
        ("/hub/api", 200),
        ("/hub/api/user", 403),
        ("/hub/424", 424),
    ],
)
def test_a4_internal_listener_answers_only_what_workloads_call(
    db: None, settings: Any, path: str, status: int
) -> None:
    response = Browser().get(path, SERVER_PORT=str(settings.BERTH_INTERNAL_PORT))
    assert response.status_code == status


def test_a4_identity_headers_are_nothing_to_the_portal(world: World) -> None:
    headers = {"X-Forwarded-User": "alice", "Kubeflow-Userid": "alice", "Remote-User": "alice"}
    assert Browser().get("/hub/api/user", headers=headers).status_code == 403
    assert "login" in Browser().get("/hub/home", headers=headers)["Location"]


@pytest.mark.parametrize("address", ["/hub/spawn/alice/%00", "/projects/%00/", "/hub/home?x=%00"])
def test_f1_nul_in_an_address_is_400(as_user: Any, alice: Any, address: str) -> None:
    response = as_user(alice).get(address)
    assert response.status_code == 400
    assert response["X-Request-ID"]
