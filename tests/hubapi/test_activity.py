"""What is known of the use of a workspace."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import time_machine
from django.test import Client as Browser

from common.clock import now
from common.ids import new_uid
from hubapi import activity
from hubapi.models import Activity
from hubapi.selectors import idle_state
from metrics.models import Quiet
from tests.hubapi.conftest import World


def push(world: World, *, name: str = "alice", token: str = "", **body: Any) -> Any:
    moment = now().isoformat()
    data = body or {
        "servers": {world.info.short_id: {"last_activity": moment}},
        "last_activity": moment,
    }
    headers = {"Authorization": f"token {token or world.credentials.api_token}"}
    return Browser(enforce_csrf_checks=True).post(
        f"/hub/api/users/{name}/activity", json.dumps(data), "application/json", headers=headers
    )


def test_server_reports_its_activity(world: World) -> None:
    response = push(world)
    assert response.status_code == 200
    row = Activity.objects.get(uid=world.info.uid)
    assert row.pushed_at is not None
    assert row.last_activity is not None


def test_reports_more_often_than_needed_are_not_written(world: World) -> None:
    with time_machine.travel(now(), tick=False):
        push(world)
        first = Activity.objects.get(uid=world.info.uid).pushed_at
        push(world)
    assert Activity.objects.get(uid=world.info.uid).pushed_at == first
    with time_machine.travel(now() + timedelta(minutes=1), tick=False):
        push(world)
    assert Activity.objects.get(uid=world.info.uid).pushed_at > first


def test_activity_never_goes_back_and_never_lies_in_the_future(world: World) -> None:
    at = now()
    activity.note_push(uid=world.info.uid, last_activity=at)
    with time_machine.travel(at + timedelta(minutes=5), tick=False):
        old = (at - timedelta(days=1)).isoformat()
        push(world, servers={world.info.short_id: {"last_activity": old}})
        assert Activity.objects.get(uid=world.info.uid).last_activity == at
    with time_machine.travel(at + timedelta(minutes=10), tick=False):
        push(world, servers={world.info.short_id: {"last_activity": "2999-01-01T00:00:00Z"}})
        assert Activity.objects.get(uid=world.info.uid).last_activity <= now()


def test_nobody_reports_for_another(
    world: World, make_workload: Any, as_user: Any, alice: Any, bob: Any
) -> None:
    other = make_workload(bob)
    assert push(world, name="bob").status_code == 403
    body = {other.short_id: {"last_activity": now().isoformat()}}
    assert push(world, servers=body).status_code == 403
    assert push(world, token=world.token(as_user(alice))).status_code == 403


@pytest.mark.parametrize(
    "body",
    [
        "nonsense",
        "[]",
        '{"servers": []}',
        '{"servers": {"SHORT": {"last_activity": 5}}}',
        '{"servers": {"SHORT": {"last_activity": "yesterday"}}}',
        '{"servers": {"SHORT": {"last_activity": "9999-12-31T23:59:59-14:00"}}}',
        "[" * 20000,
        '"' + "x" * 70000 + '"',
        "\xff\x00",
    ],
)
def test_f1_odd_reports_are_400(world: World, body: str) -> None:
    headers = {"Authorization": f"token {world.credentials.api_token}"}
    text = body.replace("SHORT", world.info.short_id)
    response = Browser().post(
        "/hub/api/users/alice/activity", text, "application/json", headers=headers
    )
    assert response.status_code == 400


def kernel(state: str, at: datetime, connections: Any = 1) -> dict[str, Any]:
    return {"execution_state": state, "last_activity": at.isoformat(), "connections": connections}


def keep(world: World, *kernels: Any, terminals: Any = ()) -> None:
    activity._keep([activity.reading_of(world.info.uid, list(kernels), list(terminals))])


def test_busy_silent_kernel_is_not_idle(world: World) -> None:
    keep(world, kernel("busy", now() - timedelta(hours=10)))
    state = idle_state(world.info.uid)
    assert (state.since, state.busy_kernels, state.known) == (None, 1, True)
    assert "1" in state.words


def measured(world: World) -> None:
    """Its processor was known to be quiet all along."""
    Quiet.objects.create(uid=world.info.uid, known_at=now(), since=now() - timedelta(days=1))


def test_time_after_computing_counts_from_its_end(world: World) -> None:
    started, ended = now() - timedelta(hours=10), now()
    with time_machine.travel(ended, tick=False):
        keep(world, kernel("busy", started))
    with time_machine.travel(ended + timedelta(minutes=48), tick=False):
        keep(world, kernel("idle", started))
        measured(world)
        state = idle_state(world.info.uid)
    assert state.since is not None
    assert abs(state.since - ended) < timedelta(seconds=5)
    assert "48" in state.words or "47" in state.words


def test_terminal_output_is_use(world: World) -> None:
    old = now() - timedelta(hours=3)
    recent = [{"name": "1", "last_activity": (now() - timedelta(minutes=9)).isoformat()}]
    keep(world, kernel("idle", old), terminals=recent)
    measured(world)
    state = idle_state(world.info.uid)
    assert state.terminals == 1
    assert "9" in state.words


def test_unknown_use_is_said_to_be_unknown(world: World) -> None:
    assert idle_state(world.info.uid).known is False
    assert idle_state(new_uid()).known is False


def test_old_answers_do_not_count_as_knowledge(world: World) -> None:
    keep(world, kernel("idle", now()))
    with time_machine.travel(now() + timedelta(minutes=10), tick=False):
        assert idle_state(world.info.uid).known is False


def test_answers_of_a_hostile_server_are_read_with_care() -> None:
    nonsense = [
        None,
        5,
        [],
        {"last_activity": 1e400, "connections": -5, "execution_state": ["busy"]},
        {"last_activity": "9999-12-31T23:59:59+00:00", "connections": 10**30},
        {"connections": True},
    ]
    reading = activity.reading_of(new_uid(), nonsense, nonsense)
    assert (reading.kernels, reading.busy, reading.connections) == (3, 0, 1000)
    assert reading.last_activity is not None
    assert reading.last_activity <= datetime.now(UTC)


def test_a_lab_that_is_open_and_that_nobody_touches_is_not_used(world: World) -> None:
    """It asks its server for something each ten seconds, which the server takes for use."""
    begun = now().replace(microsecond=0)

    def at(minutes: float, *, idle: int | None = None, pushes: bool = True) -> Activity:
        with time_machine.travel(begun + timedelta(minutes=minutes), tick=False):
            if idle is not None:
                activity.note_page(uid=world.info.uid, idle_s=idle)
            if pushes:
                push(world)
        return Activity.objects.get(uid=world.info.uid)

    assert at(0, idle=0).last_activity == begun
    for minute in range(1, 6):
        found = at(minute, idle=minute * 60)
    assert found.last_activity == begun
    assert found.pushed_at == begun + timedelta(minutes=5)  # its server is there
    assert at(6, idle=20, pushes=False).last_activity == begun + timedelta(minutes=5, seconds=40)
    # one that tells nothing (an older Lab, an editor) is as used as its server says
    assert at(9).last_activity == begun + timedelta(minutes=9)


def test_whether_a_page_is_open_is_known_for_a_minute(world: World) -> None:
    activity.note_page(uid=world.info.uid, idle_s=0)
    assert activity.page_is_open(world.info.uid)
    with time_machine.travel(now() + timedelta(seconds=90)):
        assert not activity.page_is_open(world.info.uid)
