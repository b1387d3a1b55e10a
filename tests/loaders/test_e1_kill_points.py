"""E1: a worker that dies at any named step of a load leaves it to be ended once by the next one."""

from datetime import timedelta
from typing import Any

import pytest

from accounts.principal import Principal
from common.clock import now
from events.models import Event
from loaders import services
from loaders.models import Load, LoadRun
from quotas.selectors import held_by
from runtime import engine, killpoints, workload

POINTS = [name for name in killpoints.NAMES if name not in {"route-wanted", "routed"}]


class Killed(BaseException):
    """Stands for SIGKILL: nothing catches it, open transactions roll back."""


@pytest.fixture
def kill(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Arm a point: the pass that comes to it is cut there."""

    def arm(point: str) -> list[str]:
        hit: list[str] = []

        def reached(name: str) -> None:
            if name == point and not hit:
                hit.append(name)
                raise Killed

        for module in (engine, workload):
            monkeypatch.setattr(module, "killpoint", reached)
        return hit

    return arm


def work(row: Any, settle: Any) -> Any:
    """Let a worker work; when it is killed, the next one comes after the lease."""
    from runtime.hints import hint

    hint(row)
    try:
        return settle(row)
    except Killed:
        past = now() - timedelta(seconds=1)
        Load.objects.filter(lease_token__isnull=False).update(
            lease_until=past, next_reconcile_at=past
        )
        return settle(row)


@pytest.mark.parametrize("point", POINTS)
def test_e1_a_start_and_an_end_happen_once(point, kill, load, alice, fake, settle, report):
    row = load(alice)
    hit = kill(point)
    work(row, settle)
    assert row.phase == "running"
    report(row, 3, final={"exit": 3, "code": "partial", "message": "", "manifest": ""})
    fake.exit(str(row.uid), code=3)
    work(row, settle)
    assert (row.result, row.launch) == ("partial", 1)
    assert LoadRun.objects.get().result == "partial"
    assert Event.objects.filter(verb="load.ended-partial").count() == 1
    assert held_by(row.uid) == {}
    with fake._store.open() as seen:
        assert seen["starts"][str(row.uid)] == [1]
    assert hit or point in {"stop-asked", "removed"}


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("verb", ["pause", "delete"])
def test_e1_a_pause_and_a_removal_happen_once(point, verb, kill, load, alice, fake, settle):
    row = settle(load(alice))
    act = services.load_pause if verb == "pause" else services.load_delete
    act(principal=Principal(user=alice), load=row)
    kill(point)
    work(row, settle)
    run = LoadRun.objects.get()
    if verb == "pause":
        assert (row.phase, row.result, run.result) == ("stopped", "paused", "paused")
    else:
        assert row.deleted_at is not None
        assert run.result == "cancelled"
        assert not list(fake.list_owned())
    assert held_by(row.uid) == {}
