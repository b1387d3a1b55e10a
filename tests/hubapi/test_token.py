"""Codes become tokens once, for the right client, by the right verifier."""

from datetime import timedelta
from typing import Any

import pytest
import time_machine
from django.test import Client as Browser

from common.clock import now
from hubapi import services
from hubapi.models import Code, NotebookToken
from tests.hubapi.conftest import World, ensure, whoami
from tests.support.races import Races, race_on


def test_code_becomes_a_token_that_names_the_visitor(
    world: World, as_user: Any, alice: Any
) -> None:
    response = world.redeem(world.code(as_user(alice)))
    assert response.status_code == 200
    assert response["Cache-Control"] == "no-store"
    assert response["X-JupyterHub-Version"]
    assert whoami(response.json()["access_token"]).json()["name"] == "alice"


def test_secrets_are_kept_as_digests_only(world: World, as_user: Any, alice: Any) -> None:
    code = world.code(as_user(alice))
    token = world.redeem(code).json()["access_token"]
    from hubapi.models import Client

    dump = str([*Code.objects.values(), *NotebookToken.objects.values(), *Client.objects.values()])
    for secret in (
        code,
        token,
        world.credentials.api_token,
        services.service_token(world.info.uid),
    ):
        assert secret
        assert secret not in dump
    assert world.credentials.api_token not in repr(world.credentials)


def test_a14_code_that_comes_again_is_refused_and_takes_its_token_with_it(
    world: World, as_user: Any, alice: Any
) -> None:
    code = world.code(as_user(alice))
    token = world.redeem(code).json()["access_token"]
    assert world.redeem(code).status_code == 400
    assert whoami(token).status_code == 403


def test_code_is_worth_nothing_after_a_minute(world: World, as_user: Any, alice: Any) -> None:
    code = world.code(as_user(alice))
    with time_machine.travel(now() + timedelta(seconds=61), tick=False):
        assert world.redeem(code).json()["error"] == "invalid_grant"


@pytest.mark.parametrize(
    ("changes", "error"),
    [
        ({"client_secret": "wrong"}, "invalid_client"),
        ({"client_secret": None}, "invalid_client"),
        ({"client_id": "ws-unknown"}, "invalid_client"),
        ({"client_id": "\x00"}, "invalid_client"),
        ({"grant_type": "password"}, "unsupported_grant_type"),
        ({"redirect_uri": "/oauth_callback"}, "invalid_grant"),
        ({"code": "wrong"}, "invalid_grant"),
        ({"code": "x" * 5000}, "invalid_request"),
        ({"code_verifier": "w" * 64}, "invalid_grant"),
        ({"code_verifier": None}, "invalid_grant"),
        ({"code_verifier": "é" * 50}, "invalid_grant"),
    ],
)
def test_wrong_redemption_is_refused(
    world: World, as_user: Any, alice: Any, changes: dict[str, Any], error: str
) -> None:
    response = world.redeem(world.code(as_user(alice)), **changes)
    assert (response.status_code, response.json()["error"]) == (400, error)
    assert not NotebookToken.objects.filter(kind="user").exists()


def test_servers_before_6_need_no_challenge(world: World, as_user: Any, alice: Any) -> None:
    code = world.code(as_user(alice), code_challenge=None, code_challenge_method=None)
    assert world.redeem(code, code_verifier=None).status_code == 200


def test_verifier_without_a_challenge_is_a_downgrade_and_refused(
    world: World, as_user: Any, alice: Any
) -> None:
    code = world.code(as_user(alice), code_challenge=None, code_challenge_method=None)
    assert world.redeem(code).status_code == 400


def test_code_of_one_client_is_not_another_clients(
    world: World, make_workload: Any, as_user: Any, alice: Any, bob: Any, project: Any
) -> None:
    other = make_workload(bob)
    credentials = ensure(other, bob, project, 1)
    stolen = world.redeem(
        world.code(as_user(alice)),
        client_id=credentials.client_id,
        client_secret=credentials.api_token,
    )
    assert stolen.json()["error"] == "invalid_grant"


def test_share_taken_back_between_code_and_token_gives_no_token(
    world: World, lookup: Any, as_user: Any, bob: Any
) -> None:
    lookup.share(world.info.uid, bob)
    browser = as_user(bob)
    world.consent(browser)
    code = world.code(browser)
    lookup.guests[world.info.uid].remove(bob)
    assert world.redeem(code).status_code == 400


def test_session_ended_between_code_and_token_gives_no_token(
    world: World, as_user: Any, alice: Any
) -> None:
    browser = as_user(alice)
    code = world.code(browser)
    browser.session.delete()
    assert world.redeem(code).status_code == 400


def test_code_of_an_older_launch_is_refused(world: World, as_user: Any, alice: Any) -> None:
    code = world.code(as_user(alice))
    world.relaunch(2)
    assert world.redeem(code).status_code == 400


def test_token_endpoint_needs_no_csrf_and_sets_no_cookie(
    world: World, as_user: Any, alice: Any
) -> None:
    form = {"client_id": "x", "client_secret": "y", "grant_type": "authorization_code"}
    response = Browser(enforce_csrf_checks=True).post("/hub/api/oauth2/token", form)
    assert response.status_code == 400
    assert not response.cookies


RACE = "tests.hubapi.race"


def test_a14_one_of_many_redemptions_at_once_wins_on_sqlite(races: Races) -> None:
    check(races.run(RACE))


@pytest.mark.postgres
def test_a14_one_of_many_redemptions_at_once_wins_on_postgresql(migrated_postgres: str) -> None:
    check(race_on(migrated_postgres, RACE))


def check(result: dict[str, int]) -> None:
    """One token is made; the others are replays, and one may come soon enough to end it."""
    assert result["tokens"] == 1
    assert result["live"] <= result["won"] <= 1
    assert result["won"] + result["refused"] == 8
