"""A revocation is felt within seconds, and again after the longest that a server believes."""

import time
from datetime import datetime, timedelta
from typing import Any

import pytest
import time_machine

from clusters import registry as clusters
from common.clock import now
from hubapi import registry, revocation, services
from hubapi.models import Code, NotebookToken
from tests.hubapi.conftest import World, whoami


@pytest.fixture
def proxy() -> Any:
    clusters.reset()
    yield clusters.router()
    clusters.reset()


@pytest.fixture
def visit(world: World, lookup: Any, as_user: Any, bob: Any) -> Any:
    lookup.share(world.info.uid, bob)
    browser = as_user(bob)
    world.consent(browser)
    return browser, world.token(browser)


def waiting() -> list[datetime]:
    """Return when tokens are due to be cut."""
    due = NotebookToken.objects.filter(cut_due_at__isnull=False)
    return list(due.values_list("cut_due_at", flat=True))


def test_visitors_connections_are_cut_and_cut_again_when_no_server_believes_him(
    world: World, lookup: Any, bob: Any, visit: Any, proxy: Any
) -> None:
    with time_machine.travel(now(), tick=False):
        lookup.unshare(world.info.uid, bob)
        assert revocation.cut_due() == 1
        assert revocation.cut_due() == 0
        (due,) = waiting()
        assert now() < due <= now() + timedelta(seconds=services.CACHE_AGE_S + 2)
    wanted = (registry.route_key(world.info.short_id), services.digest(visit[1]))
    assert proxy.cuts() == [wanted]
    with time_machine.travel(now() + timedelta(seconds=services.CACHE_AGE_S + 3), tick=False):
        assert revocation.cut_due() == 1
        assert revocation.cut_due() == 0
        assert waiting() == []
    assert proxy.cuts() == [wanted, wanted]


def test_e7_proxy_that_is_down_is_asked_again(
    world: World, lookup: Any, bob: Any, visit: Any, proxy: Any
) -> None:
    proxy.down = True
    lookup.unshare(world.info.uid, bob)
    assert revocation.cut_due() == 0
    proxy.down = False
    assert revocation.cut_due() == 1


def test_stop_leaves_nothing_to_cut_because_the_route_goes(
    world: World, visit: Any, proxy: Any
) -> None:
    services.revoke_workload(world.info.uid)
    assert waiting() == []


@pytest.mark.parametrize("loss", ["session", "share", "password", "disabled", "deleted"])
def test_a3_sweep_finds_tokens_that_lost_their_ground(
    world: World, lookup: Any, bob: Any, visit: Any, loss: str
) -> None:
    browser, token = visit
    if loss == "session":
        browser.session.delete()
    elif loss == "share":
        lookup.guests.clear()
    elif loss == "password":
        bob.set_password("another horse battery")
        bob.save()
    elif loss == "disabled":
        bob.is_active = False
        bob.save()
    else:
        del lookup.infos[world.info.uid]
    assert revocation.sweep_tokens() == 0  # all were looked at
    row = NotebookToken.objects.get(digest=services.digest(token))
    assert row.revoked_at is not None
    assert row.cut_due_at is not None


def test_a14_tokens_end_with_single_sign_on_though_no_page_was_opened(
    world: World, visit: Any, settings: Any
) -> None:
    settings.BERTH_OIDC_ISSUER = "https://idp.example"
    browser, token = visit
    session = browser.session
    session["berth_oidc"] = {"until": time.time() + 60, "refresh": "", "sub": "bob"}
    session.save()
    assert whoami(token).status_code == 200  # notes that it is in use
    revocation.sweep_sessions()
    assert whoami(token).status_code == 200
    session["berth_oidc"] = {"until": time.time() - 1, "refresh": "", "sub": "bob"}
    session.save()
    revocation.sweep_sessions()
    assert whoami(token).status_code == 403
    assert NotebookToken.objects.get(digest=services.digest(token)).cut_due_at is not None


def test_sweep_leaves_good_tokens_alone(world: World, visit: Any) -> None:
    revocation.sweep_tokens()
    assert whoami(visit[1]).status_code == 200


def test_sweep_goes_on_where_it_stopped(
    world: World, lookup: Any, as_user: Any, alice: Any, bob: Any, visit: Any
) -> None:
    world.token(as_user(alice))
    lookup.guests.clear()
    first = revocation.sweep_tokens(limit=1)
    assert first > 0
    assert revocation.sweep_tokens(after=first, limit=1) > first
    assert whoami(visit[1]).status_code == 403
    assert NotebookToken.objects.filter(kind="user", revoked_at=None).count() == 1


def test_keeper_does_all_of_it(world: World, lookup: Any, bob: Any, visit: Any, proxy: Any) -> None:
    lookup.guests.clear()
    revocation.Keeper().tick()
    assert len(proxy.cuts()) == 1


def test_old_codes_and_tokens_are_forgotten(
    world: World, lookup: Any, bob: Any, visit: Any, proxy: Any
) -> None:
    revocation.clean_up()
    assert Code.objects.exists()
    lookup.unshare(world.info.uid, bob)
    with time_machine.travel(now() + timedelta(days=2), tick=False):
        revocation.cut_due()
        revocation.clean_up()
    assert not Code.objects.exists()
    assert not NotebookToken.objects.filter(kind="user").exists()
    assert NotebookToken.objects.filter(kind="server").exists()
