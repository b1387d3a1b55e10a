"""Idle work from a terminal: the patrol, policies, keeping one's own."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from common.clock import now
from notebooks.models import Workspace
from parking.models import IdlePolicy, Stretch
from tests.cli.conftest import read
from tests.parking.conftest import holder, hours, machine, measured

__all__ = ["holder", "hours", "machine", "measured"]
Run = Callable[..., Any]


@pytest.fixture
def wasted(transactional_db: None, holder: Any, hours: Any, bob: Any, settle: Any) -> Workspace:
    row: Workspace = holder(bob)
    hours(row, *[1] * 9)
    return row


def test_an_operator_walks_the_patrol_and_sets_a_policy(
    berth: Run, wasted: Workspace, operator: Any, token_of: Callable[[Any], str]
) -> None:
    me = {"token": token_of(operator)}
    shown = berth("patrol", "show", "--all", "--hours", "3", **me)
    assert shown.exit_code == 0, shown.output
    assert "1 of 1 held GPUs" in shown.output
    uid = str(wasted.uid)
    told = berth("patrol", "message", uid, "-m", "Still needed?", "--all", **me)
    assert (told.exit_code, "1 done." in told.output) == (0, True), told.output
    put_off = berth("patrol", "extend", uid, "--all", **me)
    assert put_off.exit_code == 1
    made = berth("idle-policies", "set", "--minutes", "30", "-o", "json", **me)
    policy = read(made)
    assert policy["state"] == "dry-run"
    found = read(berth("idle-policies", "dry-run", policy["id"], "-o", "json", **me))
    assert found["lines"][0]["owner"] == "bob"
    assert berth("idle-policies", "delete", policy["id"], **me).exit_code == 0
    parked = berth("patrol", "park", uid, "-m", "Nobody uses it", "--all", **me)
    assert parked.exit_code == 0, parked.output
    wasted.refresh_from_db()
    assert wasted.stop_reason == "parked"


def test_an_owner_keeps_what_is_idle(
    berth: Run, wasted: Workspace, bob: Any, token_of: Callable[[Any], str]
) -> None:
    policy = IdlePolicy.objects.create(state="on", extension=90)
    at = now()
    Stretch.objects.create(
        workload=wasted,
        launch=wasted.launch,
        policy=policy,
        since=at - timedelta(hours=2),
        quiet_since=at - timedelta(hours=2),
        quiet_until=at,
        warned_at=at,
        due_at=at + timedelta(minutes=10),
    )
    said = ("-p", "vision", "workspace", "keep", wasted.short_id)
    kept = berth(*said, token=token_of(bob))
    assert kept.exit_code == 0, kept.output
    assert Stretch.objects.get().due_at > at + timedelta(minutes=99)
