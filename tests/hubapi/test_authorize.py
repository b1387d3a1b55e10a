"""The gate in the browser."""

import re
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from django.test import Client as Browser

from events.models import Event
from hubapi.models import Code
from hubapi.registry import callback_url
from tests.hubapi.conftest import World


def _main(response: Any) -> str:
    text = response.content.decode()
    main = text[text.index("<main") : text.index("</main>")]
    return re.sub(r"[A-Za-z0-9]{64}|[0-9a-f]{32}", "", main)  # CSRF token, request id


def test_owner_is_sent_back_with_code_and_state(world: World, as_user: Any, alice: Any) -> None:
    response = world.authorize(as_user(alice))
    assert response.status_code == 302
    parts = urlsplit(response["Location"])
    assert response["Location"].startswith(callback_url(world.info.short_id))
    assert parse_qs(parts.query)["state"] == ["opaque-state"]
    assert "no-store" in response["Cache-Control"]
    assert response["Referrer-Policy"] == "no-referrer"
    assert Event.objects.filter(verb="workspace.opened", actor_name="alice").count() == 1


def test_visitor_without_session_is_sent_to_sign_in_and_back(world: World) -> None:
    response = world.authorize(Browser())
    assert response.status_code == 302
    assert "/hub/api/oauth2/authorize" in parse_qs(urlsplit(response["Location"]).query)["next"][0]


def test_a10_unknown_workspace_and_foreign_one_are_the_same_to_a_stranger(
    world: World, as_user: Any, charlie: Any
) -> None:
    browser = as_user(charlie)
    foreign = world.authorize(browser)
    unknown = world.authorize(browser, client_id="ws-doesnotexist")
    assert foreign.status_code == unknown.status_code == 403
    assert _main(foreign) == _main(unknown)
    assert not Code.objects.exists()


def test_member_of_the_project_who_was_not_invited_is_refused(
    world: World, as_user: Any, bob: Any, mona: Any, operator: Any
) -> None:
    for user in (bob, mona, operator):
        assert world.authorize(as_user(user)).status_code == 403


@pytest.mark.parametrize(
    "uri",
    [
        "https://evil.example/oauth_callback",
        "http://evil.nb.localhost:8001/oauth_callback",
        "//evil.example/oauth_callback",
        "javascript:alert(1)",
        "",
        "/other",
    ],
)
def test_foreign_redirect_uri_gets_a_page_and_no_redirect(
    world: World, as_user: Any, alice: Any, uri: str
) -> None:
    response = world.authorize(as_user(alice), redirect_uri=uri)
    assert response.status_code == 400
    assert "Location" not in response
    assert not Code.objects.exists()


def test_callback_of_a_sibling_workspace_is_refused(
    world: World, make_workload: Any, as_user: Any, alice: Any
) -> None:
    sibling = make_workload(alice)
    uri = callback_url(sibling.short_id)
    assert world.authorize(as_user(alice), redirect_uri=uri).status_code == 400


def test_bare_path_callback_leads_to_the_workspaces_own_address(
    world: World, as_user: Any, alice: Any
) -> None:
    response = world.authorize(as_user(alice), redirect_uri="/oauth_callback")
    assert response["Location"].startswith(callback_url(world.info.short_id) + "?code=")


@pytest.mark.parametrize(
    "changes",
    [
        {"state": None},
        {"state": "x" * 9000},
        {"response_type": "token"},
        {"code_challenge_method": "plain"},
        {"code_challenge_method": None},
        {"code_challenge": "short"},
        {"code_challenge": None},
    ],
)
def test_malformed_request_is_refused(
    world: World, as_user: Any, alice: Any, changes: dict[str, Any]
) -> None:
    assert world.authorize(as_user(alice), **changes).status_code == 400
    assert not Code.objects.exists()


@pytest.mark.parametrize("client_id", ["", "ws-\x01", "a" * 5000, "ws-é"])
def test_f1_odd_client_ids_are_just_unknown(
    world: World, as_user: Any, alice: Any, client_id: str
) -> None:
    assert world.authorize(as_user(alice), client_id=client_id).status_code == 403


def test_authorize_answers_to_get_only(world: World, as_user: Any, alice: Any) -> None:
    response = as_user(alice).post("/hub/api/oauth2/authorize", world.query())
    assert response.status_code == 405


def test_stopped_workspace_leads_to_its_page(world: World, as_user: Any, alice: Any) -> None:
    from hubapi import services

    services.revoke_workload(world.info.uid)
    response = world.authorize(as_user(alice))
    assert (response.status_code, response["Location"]) == (302, world.info.page_url)


def test_visitor_is_asked_once_and_told_whose_workspace_it_is(
    world: World, lookup: Any, as_user: Any, bob: Any
) -> None:
    lookup.share(world.info.uid, bob)
    browser = as_user(bob)
    asked = world.authorize(browser)
    assert asked.status_code == 200
    assert b"Alice" in asked.content
    assert not Code.objects.exists()
    # the form's answer ends at the workspace's own origin, and nowhere else
    origin = f"http://{world.info.short_id}.nb.localhost:8001"
    assert f"form-action 'self' {origin}" in asked["Content-Security-Policy"]
    agreed = world.consent(browser)
    assert agreed.status_code == 302
    assert browser.get(agreed["Location"])["Location"].startswith(origin)
    assert world.authorize(browser).status_code == 302


def test_consent_is_asked_again_when_the_owner_changes(
    world: World, lookup: Any, as_user: Any, bob: Any, mona: Any
) -> None:
    from tests.hubapi.conftest import owned_by

    lookup.share(world.info.uid, bob)
    browser = as_user(bob)
    world.consent(browser)
    lookup.change(world.info.uid, **owned_by(mona))
    assert world.authorize(browser).status_code == 200
    # an answer to the old question is no answer to the new one
    world.consent(browser)
    assert world.authorize(browser).status_code == 200


def test_a13_consent_needs_the_portals_csrf_token(world: World, lookup: Any, bob: Any) -> None:
    lookup.share(world.info.uid, bob)
    browser = Browser(enforce_csrf_checks=True)
    browser.force_login(bob, backend="allauth.account.auth_backends.AuthenticationBackend")
    assert world.consent(browser).status_code == 403


def test_consent_cannot_be_given_where_nothing_was_shared(
    world: World, as_user: Any, charlie: Any
) -> None:
    from hubapi.models import Consent

    assert world.consent(as_user(charlie)).status_code == 403
    assert not Consent.objects.exists()


def test_disabled_user_cannot_open_his_workspace(world: World, as_user: Any, alice: Any) -> None:
    browser = as_user(alice)
    alice.is_active = False
    alice.save()
    assert world.authorize(browser).status_code in {302, 403}
    assert not Code.objects.exists()
