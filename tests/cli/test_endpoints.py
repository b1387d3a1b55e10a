"""Endpoints from a terminal: served, canaried, promoted, and their keys."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
from berth_cli import work

from common.clock import now
from serving.models import Endpoint
from serving.services import canaries_step, canary_end, canary_split
from tests.cli.conftest import read
from tests.support import driving

pytestmark = pytest.mark.django_db(transaction=True)
Run = Callable[..., Any]
PROGRAM = ("--command", "python3 serve.py")


@pytest.fixture(autouse=True)
def machine(transactional_db: None) -> Any:
    from clusters import registry

    registry.reset()
    yield registry.driver_for("local")
    registry.reset()


@pytest.fixture
def me(project: Any, alice: Any, token_of: Callable[[Any], str]) -> dict[str, str]:
    return {"token": token_of(alice)}


@pytest.fixture
def digits(berth: Run, me: dict[str, str]) -> dict[str, Any]:
    made = read(berth("-o", "json", "endpoint", "create", "--name", "digits", *PROGRAM, **me))
    driving.run_due()
    return dict(made)


def test_a_canary_gets_its_share_and_is_promoted_or_rolled_back(
    berth: Run, me: dict[str, str], digits: dict[str, Any]
) -> None:
    made = berth("endpoint", "canary", "digits", "--cpu", "1", **me)
    assert made.exit_code == 0, made.output
    driving.run_due()
    told = read(berth("-o", "json", "endpoint", "split", "digits", "10", **me))
    assert (told["canary_percent"], told["canary"]["state"]) == (10, "ready")
    assert read(berth("-o", "json", "endpoint", "rollback", "digits", **me))["canary_percent"] == 0
    assert "10 %" not in berth("endpoint", "show", "digits", **me).output
    told = read(berth("-o", "json", "endpoint", "promote", "digits", **me))
    assert (told["canary_percent"], told["promoting"]) == (100, True)
    refused = berth("endpoint", "split", "digits", "101", **me)
    assert refused.exit_code == 2


def test_a_wait_goes_on_until_the_canary_answers_and_until_it_is_promoted(
    berth: Run, me: dict[str, str], digits: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    def sleep(_seconds: float) -> None:
        """The world goes on, and every gateway has heard of the latest split."""
        long_ago = now() - timedelta(minutes=1)
        Endpoint.objects.filter(split_at__isnull=False).update(split_at=long_ago)
        canaries_step()
        driving.run_due()

    monkeypatch.setattr(work, "time", SimpleNamespace(sleep=sleep, monotonic=time.monotonic))
    wait = ("--wait", "--timeout", "30")
    made = read(berth("-o", "json", "endpoint", "canary", "digits", "--cpu", "1", *wait, **me))
    assert made["canary"]["state"] == "ready"
    told = berth("-o", "json", "endpoint", "promote", "digits", *wait, **me)
    assert "its canary: ready" in told.stderr
    done = read(told)
    assert (done["canary"], done["promoting"], done["status"]["state"]) == (None, False, "ready")


def test_a_wait_for_a_promotion_that_was_broken_off_ends_with_that(
    berth: Run, me: dict[str, str], principal: Any, alice: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Somebody takes all requests back meanwhile, or the canary away."""
    berth("endpoint", "create", "--name", "digits", *PROGRAM, **me)
    driving.run_due()
    berth("endpoint", "canary", "digits", "--cpu", "1", **me)
    driving.run_due()
    Endpoint.objects.exclude(canary_of=None).update(model="digits/v2")

    def meanwhile(act: Callable[..., Any], **said: Any) -> None:
        def sleep(_seconds: float) -> None:
            row = Endpoint.objects.select_related("project", "owner").get(canary_of=None)
            if row.promoting:
                act(principal=principal(alice), row=row, **said)
            Endpoint.objects.update(split_at=now() - timedelta(minutes=1))
            canaries_step()
            driving.run_due()

        timely = SimpleNamespace(sleep=sleep, monotonic=time.monotonic)
        monkeypatch.setattr(work, "time", timely)

    wait = ("--wait", "--timeout", "10")
    meanwhile(canary_split, percent=0)
    ended = berth("endpoint", "promote", "digits", *wait, **me)
    assert (ended.exit_code, "has its canary still" in str(ended.exception)) == (5, True), ended
    meanwhile(canary_end)
    ended = berth("endpoint", "promote", "digits", *wait, **me)
    assert ended.exit_code == 5, ended
    assert "digits serves its own command, not digits/v2" in str(ended.exception)


def test_a_canary_that_was_taken_away_leaves(
    berth: Run, me: dict[str, str], digits: dict[str, Any]
) -> None:
    berth("endpoint", "canary", "digits", "--cpu", "1", **me)
    told = read(berth("-o", "json", "endpoint", "canary", "digits", "--end", **me))
    assert told["canary"]["leaves"] is True
    again = berth("endpoint", "canary", "digits", "--end", **me)
    assert (again.exit_code, "no canary" in str(again.exception)) == (5, True)


def test_a_key_is_printed_once_and_revoked_by_its_name(
    berth: Run, me: dict[str, str], digits: dict[str, Any]
) -> None:
    made = berth("endpoint", "key", "create", "digits", "shop", "--concurrent", "4", **me)
    secret = made.stdout.strip().splitlines()[-1]
    assert secret.startswith("bep_")
    listed = berth("endpoint", "key", "list", "digits", **me)
    assert secret[:10] in listed.output
    assert secret not in listed.output
    assert berth("endpoint", "key", "revoke", "digits", "shop", **me).exit_code == 0
    assert "revoked" in berth("endpoint", "key", "list", "digits", **me).output
    gone = berth("endpoint", "key", "revoke", "digits", "shop", **me)
    assert gone.exit_code == 4
