"""The pages that JupyterLab links to."""

from typing import Any

import pytest
from django.test import Client as Browser

from runtime.protocol import Phase
from tests.hubapi.conftest import World, whoami


def test_control_panel_is_the_portals_home(as_user: Any, alice: Any) -> None:
    for path in ("/hub/", "/hub/home", "/hub/spawn/alice"):
        assert as_user(alice).get(path)["Location"] == "/"


def test_pages_need_a_session_and_servers_endpoints_do_not(db: None) -> None:
    for path in (
        "/hub/home",
        "/hub/spawn/a/b",
        "/hub/user-redirect/lab",
        "/hub/api/oauth2/authorize",
    ):
        assert "login" in Browser().get(path)["Location"]
    assert Browser().get("/hub/api").json()["version"]
    assert Browser().get("/hub/api/user").status_code == 403


@pytest.mark.parametrize("path", ["/hub/logout", "/logout"])
def test_logout_from_a_workspace_ends_the_session_and_its_tokens(
    world: World, as_user: Any, alice: Any, path: str
) -> None:
    browser, other = as_user(alice), as_user(alice)
    mine, kept = world.token(browser), world.token(other)
    referer = f"http://{world.info.short_id}.nb.localhost:8001/"
    assert browser.get(path, headers={"Referer": referer}).status_code == 302
    assert "_auth_user_id" not in browser.session
    assert [whoami(t).status_code for t in (mine, kept)] == [403, 200]


@pytest.mark.parametrize(
    "referer",
    ["", "https://evil.example/", "http://x.nb.localhost.evil.example/", "http://x.nb.localhost/"],
)
def test_a13_foreign_link_to_logout_only_asks(
    world: World, as_user: Any, alice: Any, referer: str
) -> None:
    browser = as_user(alice)
    response = browser.get("/hub/logout", headers={"Referer": referer} if referer else {})
    assert response.status_code == 200
    assert "_auth_user_id" in browser.session
    assert browser.post("/hub/logout").status_code == 302
    assert "_auth_user_id" not in browser.session


def test_restart_link_ignores_the_user_in_it_and_shows_the_resume_button(
    world: World, lookup: Any, as_user: Any, alice: Any
) -> None:
    lookup.change(world.info.uid, phase=Phase.STOPPED)
    response = as_user(alice).get(f"/hub/spawn/somebody/{world.info.short_id}")
    assert response.status_code == 200
    assert f'action="{world.info.resume_url}"' in response.content.decode()


def test_restart_link_of_a_running_workspace_opens_it(
    world: World, as_user: Any, alice: Any
) -> None:
    response = as_user(alice).get(f"/hub/spawn/alice/{world.info.short_id}")
    assert response["Location"] == world.info.public_url


def test_visitor_cannot_resume_and_stranger_sees_nothing(
    world: World, lookup: Any, as_user: Any, bob: Any, charlie: Any
) -> None:
    lookup.change(world.info.uid, phase=Phase.STOPPED)
    lookup.share(world.info.uid, bob)
    path = f"/hub/spawn/alice/{world.info.short_id}"
    page = as_user(bob).get(path).content.decode()
    assert "Alice" in page
    assert world.info.resume_url not in page
    assert as_user(charlie).get(path).status_code == 404
    assert as_user(charlie).get("/hub/spawn/alice/nosuchthing").status_code == 404
    assert as_user(charlie).get("/hub/spawn/alice/%01").status_code == 404


def test_link_without_a_server_leads_to_the_only_running_one(
    world: World, make_workload: Any, as_user: Any, alice: Any
) -> None:
    browser = as_user(alice)
    response = browser.get("/hub/user-redirect/lab/tree/a b.ipynb?x=1")
    assert response["Location"] == f"{world.info.public_url}lab/tree/a%20b.ipynb?x=1"
    make_workload(alice, name="Second")
    assert b"Second" in browser.get("/hub/user-redirect/lab").content


def test_link_without_a_server_never_leaves_the_workspaces_host(
    world: World, as_user: Any, alice: Any
) -> None:
    for path in ("//evil.example", "%5c%5cevil.example", "@evil.example"):
        response = as_user(alice).get(f"/hub/user-redirect/{path}")
        assert response["Location"].startswith(world.info.public_url)
