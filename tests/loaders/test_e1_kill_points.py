"""E1: a worker that dies at any named step of a load leaves it to be ended once by the next one."""

from datetime import timedelta
from typing import Any

import pytest

from accounts.principal import Principal
from common.clock import now
from events.models import Event
from loaders.models import Load, LoadRun
from quotas.selectors import held_by
from runtime import engine, killpoints, workload, workload_ending
from work.services import workload_delete, workload_stop

# The named points that a load comes to on each way; it has no route.
START_AND_END = (
    *("claimed", "admitted", "volumes-ensured", "ensured", "stepped", "applied", "committed"),
    *("tokens-revoked", "route-dropped", "released"),
)
PAUSE = (
    *("claimed", "tokens-revoked", "route-dropped", "stop-asked", "released"),
    *("stepped", "applied", "committed"),
)
DELETE = (*PAUSE, "removed")
OF_ROUTES = {"route-wanted", "routed"}


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

        for module in (engine, workload, workload_ending):
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


def test_every_point_is_on_one_of_the_ways() -> None:
    assert {*START_AND_END, *DELETE} == {*killpoints.NAMES} - OF_ROUTES


@pytest.mark.parametrize("point", START_AND_END)
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
    assert hit


@pytest.mark.parametrize(
    ("verb", "point"),
    [*(("pause", point) for point in PAUSE), *(("delete", point) for point in DELETE)],
)
def test_e1_a_pause_and_a_removal_happen_once(point, verb, kill, load, alice, fake, settle):
    row = settle(load(alice))
    act = workload_stop if verb == "pause" else workload_delete
    act(principal=Principal(user=alice), row=row)
    hit = kill(point)
    work(row, settle)
    assert hit
    run = LoadRun.objects.get()
    if verb == "pause":
        assert (row.phase, row.result, run.result) == ("stopped", "paused", "paused")
    else:
        assert row.deleted_at is not None
        assert run.result == "cancelled"
        assert not list(fake.list_owned())
    assert held_by(row.uid) == {}
