"""What a launch is given."""

import json
from typing import Any

import pytest

from hubapi import registry, services
from hubapi.models import Activity, Client, NotebookToken
from tests.hubapi.conftest import World, ensure, whoami


def test_e1_same_launch_gives_the_same_secret_and_another_launch_another(world: World) -> None:
    first = world.credentials
    assert world.relaunch(1) == first
    assert world.relaunch(2).api_token != first.api_token
    assert Client.objects.filter(uid=world.info.uid).count() == 1
    assert NotebookToken.objects.filter(uid=world.info.uid, kind="server").count() == 1


def test_e2_late_step_of_an_older_launch_changes_nothing(world: World) -> None:
    second = world.relaunch(2)
    old = ensure(world.info, world.owner, world.project, 1)
    assert old.api_token != second.api_token
    assert whoami(old.api_token).status_code == 403
    assert whoami(second.api_token).status_code == 200


def test_revoked_launch_stays_revoked_when_its_step_comes_again(world: World) -> None:
    services.revoke_workload(world.info.uid)
    world.relaunch(1)
    assert whoami(world.credentials.api_token).status_code == 403
    world.relaunch(2)
    assert whoami(world.credentials.api_token).status_code == 200


def test_two_workspaces_never_share_a_secret(
    world: World, make_workload: Any, alice: Any, project: Any
) -> None:
    other = ensure(make_workload(alice), alice, project, 1)
    assert other.api_token != world.credentials.api_token
    assert other.client_id != world.credentials.client_id


def test_host_routing_environment(world: World) -> None:
    env, secret = services.launch_environment(world.info, world.credentials)
    short_id = world.info.short_id
    assert env["JUPYTERHUB_SERVICE_PREFIX"] == "/"
    assert env["JUPYTERHUB_SERVICE_URL"] == "http://127.0.0.1:{port}/"
    assert env["JUPYTERHUB_HOST"] == "http://localhost:8000"
    assert env["JUPYTERHUB_API_URL"] == "http://127.0.0.1:8002/hub/api"
    assert (
        env["JUPYTERHUB_OAUTH_CALLBACK_URL"]
        == f"http://{short_id}.nb.localhost:8001/oauth_callback"
    )
    assert env["JUPYTERHUB_ALLOW_TOKEN_IN_URL"] == "0"
    assert json.loads(env["JUPYTERHUB_OAUTH_ACCESS_SCOPES"]) == [
        f"access:servers!server=alice/{short_id}"
    ]
    assert "JUPYTERHUB_COOKIE_HOST_PREFIX_ENABLED" not in env
    assert secret == {"JUPYTERHUB_API_TOKEN": world.credentials.api_token}
    assert world.credentials.api_token not in str(env)


def test_path_routing_environment(world: World, settings: Any) -> None:
    settings.BERTH_NOTEBOOK_ROUTING = "path"
    env, _secret = services.launch_environment(world.info, world.credentials)
    short_id = world.info.short_id
    assert env["JUPYTERHUB_SERVICE_PREFIX"] == f"/ws/{short_id}/"
    assert env["JUPYTERHUB_OAUTH_CALLBACK_URL"] == (
        f"http://127.0.0.1:8001/ws/{short_id}/oauth_callback"
    )
    assert registry.route_key(short_id) == f"/ws/{short_id}"
    assert services.readiness_path(short_id) == f"/ws/{short_id}/api"


def test_b2_https_hosts_get_host_only_cookies(world: World, settings: Any) -> None:
    settings.BERTH_NOTEBOOK_SCHEME, settings.BERTH_NOTEBOOK_PORT = "https", 443
    settings.BERTH_NOTEBOOK_DOMAIN = "nb.example.org"
    env, _secret = services.launch_environment(world.info, world.credentials)
    assert env["JUPYTERHUB_COOKIE_HOST_PREFIX_ENABLED"] == "1"
    assert json.loads(env["JUPYTERHUB_COOKIE_OPTIONS"])["secure"] is True
    assert env["JUPYTERHUB_PUBLIC_URL"] == f"https://{world.info.short_id}.nb.example.org/"


def test_changed_addresses_reach_a_running_client(world: World, settings: Any) -> None:
    settings.BERTH_NOTEBOOK_DOMAIN = "other.example"
    world.relaunch(1)
    assert "other.example" in Client.objects.get(uid=world.info.uid).redirect_uris[0]


def test_odd_user_names_are_quoted_in_addresses(world: World, lookup: Any) -> None:
    info = lookup.change(world.info.uid, owner_username="a+b@c.org")
    env, _secret = services.launch_environment(info, world.credentials)
    assert env["JUPYTERHUB_ACTIVITY_URL"].endswith("/users/a%2Bb%40c.org/activity")


def test_route_keys_begin_with_the_host_under_host_routing() -> None:
    assert registry.route_key("abc") == "/abc.nb.localhost"


def test_new_launch_starts_with_unknown_use(world: World) -> None:
    Activity.objects.filter(uid=world.info.uid).update(kernels=3)
    world.relaunch(2)
    assert Activity.objects.get(uid=world.info.uid).polled_at is None


@pytest.mark.parametrize("argument", services.server_arguments())
def test_server_arguments_are_single_words(argument: str) -> None:
    assert argument.startswith("--")
    assert "=" in argument
