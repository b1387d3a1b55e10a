"""What the share dialog of jupyter-collaboration reads, and whose pages may read it."""

from typing import Any

import pytest
from django.test import Client as Browser

from tests.hubapi.conftest import World


def get(path: str, token: str, **headers: str) -> Any:
    return Browser().get(path, headers={"Authorization": f"token {token}", **headers})


@pytest.fixture
def mine(world: World, lookup: Any, as_user: Any, alice: Any, bob: Any) -> str:
    lookup.share(world.info.uid, bob)
    return world.token(as_user(alice))


def test_owner_sees_whom_he_let_in(world: World, mine: str) -> None:
    names = [u["name"] for u in get("/hub/api/users?limit=10&offset=0", mine).json()]
    assert names == ["alice", "bob"]
    shares = get(f"/hub/api/shares/alice/{world.info.short_id}", mine).json()
    assert [item["user"]["name"] for item in shares["items"]] == ["bob"]
    assert get("/hub/api/groups", mine).json() == []


def test_visitor_sees_the_owner_and_himself(
    world: World, lookup: Any, as_user: Any, bob: Any, mona: Any
) -> None:
    lookup.share(world.info.uid, bob)
    lookup.share(world.info.uid, mona)
    browser = as_user(bob)
    world.consent(browser)
    token = world.token(browser)
    assert [u["name"] for u in get("/hub/api/users", token).json()] == ["alice", "bob"]
    assert get(f"/hub/api/shares/alice/{world.info.short_id}", token).json()["items"] == []


def test_shares_are_not_changed_by_a_notebooks_token(world: World, mine: str) -> None:
    path = f"/hub/api/shares/alice/{world.info.short_id}"
    headers = {"Authorization": f"token {mine}"}
    browser = Browser(enforce_csrf_checks=True)
    for verb in (browser.post, browser.patch):
        assert verb(path, "{}", "application/json", headers=headers).status_code == 403
    assert get("/hub/api/shares/bob/other", mine).status_code == 403


def test_servers_and_services_tokens_list_nobody(world: World) -> None:
    assert get("/hub/api/users", world.credentials.api_token).status_code == 403
    assert get("/hub/api/groups", "").status_code == 403


def test_b5_only_the_workspaces_own_page_may_read_answers(
    world: World, make_workload: Any, alice: Any, mine: str
) -> None:
    own = f"http://{world.info.short_id}.nb.localhost:8001"
    assert get("/hub/api/user", mine, Origin=own)["Access-Control-Allow-Origin"] == own
    sibling = f"http://{make_workload(alice).short_id}.nb.localhost:8001"
    for origin in (sibling, "https://evil.example", "null", own.replace("8001", "9")):
        response = get("/hub/api/user", mine, Origin=origin)
        assert "Access-Control-Allow-Origin" not in response
        assert "Access-Control-Allow-Credentials" not in response
        assert "Origin" in response["Vary"]


def test_preflight_is_answered_for_workspaces_only(world: World) -> None:
    own = f"http://{world.info.short_id}.nb.localhost:8001"
    allowed = Browser().options("/hub/api/user", headers={"Origin": own})
    assert allowed.status_code == 204
    assert allowed["Access-Control-Allow-Origin"] == own
    assert "Authorization" in allowed["Access-Control-Allow-Headers"]
    for origin in ("https://evil.example", "http://unknown.nb.localhost:8001", ""):
        refused = Browser().options("/hub/api/user", headers={"Origin": origin})
        assert "Access-Control-Allow-Origin" not in refused


def test_servers_own_endpoints_are_read_by_no_page(world: World) -> None:
    own = f"http://{world.info.short_id}.nb.localhost:8001"
    response = Browser().options("/hub/api/oauth2/token", headers={"Origin": own})
    assert response.status_code == 405
    assert "Access-Control-Allow-Origin" not in response


def test_other_verbs_are_refused(world: World) -> None:
    for path in ("/hub/api", "/hub/api/user", "/hub/api/users"):
        assert Browser().delete(path).status_code == 405
    assert Browser().get("/hub/api/oauth2/token").status_code == 405
