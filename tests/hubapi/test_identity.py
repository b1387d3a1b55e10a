"""Who a token stands for, asked each time, and for how long."""

from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.test import Client as Browser

from common.clock import now
from hubapi import services
from hubapi.models import NotebookToken
from tests.hubapi.conftest import World, ensure, whoami


@pytest.fixture
def visit(world: World, lookup: Any, as_user: Any, bob: Any) -> Any:
    """bob was let in, said yes and holds a token."""
    lookup.share(world.info.uid, bob)
    browser = as_user(bob)
    world.consent(browser)
    return browser, world.token(browser)


def test_owner_is_told_by_display_name_and_never_by_name(
    world: World, as_user: Any, alice: Any
) -> None:
    body = whoami(world.token(as_user(alice))).json()
    assert (body["kind"], body["name"]) == ("user", "alice")
    assert body["user_info"] == {"display_name": "Alice"}
    server = f"alice/{world.info.short_id}"
    assert body["scopes"] == [f"access:servers!server={server}", "read:users:name!user=alice"]


def test_visitor_is_himself_at_somebody_elses_server(world: World, visit: Any) -> None:
    body = whoami(visit[1]).json()
    assert body["name"] == "bob"
    assert f"access:servers!server=alice/{world.info.short_id}" in body["scopes"]


def test_servers_own_token_may_only_report_and_reach_itself(world: World) -> None:
    body = whoami(world.credentials.api_token).json()
    server = f"alice/{world.info.short_id}"
    assert body["scopes"] == [f"access:servers!server={server}", "users:activity!user=alice"]


def test_service_token_is_for_one_server(world: World) -> None:
    body = whoami(services.service_token(world.info.uid)).json()
    assert body["kind"] == "service"
    assert body["scopes"] == [f"access:servers!server=alice/{world.info.short_id}"]


@pytest.mark.parametrize(
    "header",
    ["", "token ", "token unknown-token-unknown-token", "Basic YTpi", "token \x00", "x" * 9000],
)
def test_unknown_token_is_403_and_never_401(world: World, header: str) -> None:
    response = Browser().get("/hub/api/user", headers={"Authorization": header})
    assert response.status_code == 403
    assert response.json()["status"] == 403


def test_bearer_is_understood_too(world: World) -> None:
    headers = {"Authorization": f"Bearer {world.credentials.api_token}"}
    assert Browser().get("/hub/api/user", headers=headers).status_code == 200


def test_a7_token_in_the_query_string_is_not_read(world: World) -> None:
    assert Browser().get(f"/hub/api/user?token={world.credentials.api_token}").status_code == 403


def test_a7_notebook_tokens_open_nothing_on_the_portals_api(
    world: World, as_user: Any, alice: Any
) -> None:
    tokens = (
        world.token(as_user(alice)),
        world.credentials.api_token,
        services.service_token(world.info.uid),
    )
    for path in ("/api/v1/me", "/api/v1/projects", "/", "/hub/spawn/alice/x", "/hub/home"):
        for token in tokens:
            for scheme in ("token", "Bearer"):
                response = Browser().get(path, headers={"Authorization": f"{scheme} {token}"})
                assert response.status_code in {302, 401, 403, 404}, path
                if response.status_code == 302:
                    assert "login" in response["Location"]


def test_a3_disabled_person_is_refused_at_once(world: World, as_user: Any, alice: Any) -> None:
    token = world.token(as_user(alice))
    alice.is_active = False
    alice.save()
    assert whoami(token).status_code == 403
    assert whoami(world.credentials.api_token).status_code == 403


def test_token_ends_with_the_portal_session_it_came_from(
    world: World, as_user: Any, alice: Any
) -> None:
    first, second = as_user(alice), as_user(alice)
    tokens = world.token(first), world.token(second)
    first.session.delete()
    assert [whoami(t).status_code for t in tokens] == [403, 200]


def test_changed_password_ends_tokens(world: World, as_user: Any, alice: Any) -> None:
    token = world.token(as_user(alice))
    alice.set_password("another horse battery")
    alice.save()
    assert whoami(token).status_code == 403


def test_f7_rotated_secret_key_keeps_tokens_and_launches(
    world: World, as_user: Any, alice: Any, settings: Any
) -> None:
    browser = as_user(alice)
    token = world.token(browser)
    service = services.service_token(world.info.uid)
    before = browser.session.session_key
    settings.SECRET_KEY_FALLBACKS = [settings.SECRET_KEY]
    settings.SECRET_KEY = "a-new-key-that-is-long-enough-for-every-check"
    assert whoami(token).status_code == 200
    assert browser.session.session_key == before
    assert services.service_token(world.info.uid) == service
    assert world.relaunch(1).api_token != ""
    assert whoami(world.credentials.api_token).status_code == 200


def test_share_taken_back_ends_the_visitors_token_and_nobody_elses(
    world: World, lookup: Any, as_user: Any, alice: Any, bob: Any, visit: Any
) -> None:
    mine = world.token(as_user(alice))
    lookup.unshare(world.info.uid, bob)
    assert whoami(visit[1]).status_code == 403
    assert whoami(mine).status_code == 200


def test_share_taken_back_without_telling_the_hub_is_seen_all_the_same(
    world: World, lookup: Any, bob: Any, visit: Any
) -> None:
    lookup.guests[world.info.uid].remove(bob)
    assert whoami(visit[1]).status_code == 403


def test_visitors_token_ends_when_the_owner_changes(
    world: World, lookup: Any, mona: Any, visit: Any
) -> None:
    from tests.hubapi.conftest import owned_by

    lookup.change(world.info.uid, **owned_by(mona))
    assert whoami(visit[1]).status_code == 403


def test_stop_ends_every_token_of_the_workspace(world: World, as_user: Any, alice: Any) -> None:
    token = world.token(as_user(alice))
    service = services.service_token(world.info.uid)
    services.revoke_workload(world.info.uid)
    for one in (token, service, world.credentials.api_token):
        assert whoami(one).status_code == 403
    assert services.service_token(world.info.uid) == ""


def test_deleted_workspace_ends_every_token(
    world: World, lookup: Any, as_user: Any, alice: Any
) -> None:
    token = world.token(as_user(alice))
    del lookup.infos[world.info.uid]
    assert whoami(token).status_code == 403
    services.forget_workload(world.info.uid)
    assert not NotebookToken.objects.filter(uid=world.info.uid).exists()


def test_next_launch_ends_tokens_of_the_one_before(world: World, as_user: Any, alice: Any) -> None:
    browser = as_user(alice)
    token, old = world.token(browser), world.credentials.api_token
    world.relaunch(2)
    assert whoami(token).status_code == 403
    assert whoami(old).status_code == 403
    assert whoami(world.credentials.api_token).status_code == 200
    assert whoami(world.token(browser)).status_code == 200


def test_token_ends_after_the_age_of_a_session(world: World, as_user: Any, alice: Any) -> None:
    token = world.token(as_user(alice))
    with time_machine.travel(now() + timedelta(days=15), tick=False):
        assert whoami(token).status_code == 403


def test_revoking_a_person_ends_his_tokens_everywhere(
    world: World, make_workload: Any, alice: Any, bob: Any, project: Any, visit: Any
) -> None:
    own = ensure(make_workload(bob), bob, project, 1)
    services.revoke_user(bob)
    assert whoami(visit[1]).status_code == 403
    assert whoami(own.api_token).status_code == 403
    assert whoami(world.credentials.api_token).status_code == 200


def test_use_is_noted_once_a_minute(world: World, django_assert_num_queries: Any) -> None:
    whoami(world.credentials.api_token)
    row = NotebookToken.objects.get(kind="server", uid=world.info.uid)
    assert row.last_used_at is not None
    whoami(world.credentials.api_token)
    assert NotebookToken.objects.get(pk=row.pk).last_used_at == row.last_used_at


def test_identity_costs_few_queries(
    world: World, as_user: Any, alice: Any, django_assert_max_num_queries: Any
) -> None:
    token = world.token(as_user(alice))
    with django_assert_max_num_queries(6):
        assert whoami(token).status_code == 200
