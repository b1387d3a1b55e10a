"""Usage is exact: one interval for each launch, whatever is repeated, restarted or lost."""

from datetime import datetime, timedelta
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest
import time_machine

from clusters import registry
from common.clock import now
from projects.models import Project
from runtime import leases, observe
from runtime.protocol import Phase
from runtime.reconcilers import Outcome, Transition
from runtime.spec import Resources
from tests.support.workspaces import workspace_resume, workspace_stop
from usage.listeners import keep_intervals
from usage.models import Interval

pytestmark = pytest.mark.django_db


def test_a_launch_opens_one_interval_and_its_stop_closes_it(
    launch: Any, settle: Any, alice: Any, principal: Any
) -> None:
    with time_machine.travel(now(), tick=False):  # what follows is one moment
        row = settle(launch(alice))
    assert row.phase == "running"
    opened = Interval.objects.get()
    assert (opened.uid, opened.launch, opened.owner_name) == (row.uid, 1, "alice")
    assert (opened.cpu_milli, opened.gpus) == (row.cpu_milli, 0)
    assert opened.ended_at is None
    assert abs(opened.started_at - row.started_at) < timedelta(seconds=1)

    workspace_stop(principal=principal(alice), workspace=row)
    settle(row)
    closed = Interval.objects.get()
    assert closed.ended_at is not None
    assert closed.started_at <= closed.ended_at <= now()


def test_every_resume_is_an_interval_of_its_own(
    launch: Any, settle: Any, alice: Any, principal: Any
) -> None:
    row = settle(launch(alice))
    for _ in range(2):
        workspace_stop(principal=principal(alice), workspace=row)
        settle(row)
        workspace_resume(principal=principal(alice), workspace=row)
        settle(row)
    rows = list(Interval.objects.order_by("launch"))
    assert [r.launch for r in rows] == [1, 2, 3]
    assert [r.ended_at is None for r in rows] == [False, False, True]
    for earlier, later in pairwise(rows):
        assert earlier.ended_at is not None
        assert earlier.ended_at <= later.started_at + timedelta(seconds=1)


def test_a_workspace_that_ends_by_itself_stops_counting_when_it_ended(
    launch: Any, settle: Any, alice: Any
) -> None:
    row = settle(launch(alice))
    driver = registry.driver_for(row.cluster_key)
    driver.exit(str(row.uid), code=1)
    type(row).objects.filter(pk=row.pk).update(next_reconcile_at=now())
    settle(row)
    assert row.phase == "failed"
    assert Interval.objects.get().ended_at is not None


def test_c14_what_ended_by_itself_counts_until_it_ended_and_not_until_that_was_noticed(
    launch: Any, settle: Any, alice: Any
) -> None:
    row = settle(launch(alice))
    ended = now() + timedelta(minutes=10)
    with time_machine.travel(ended, tick=False):
        registry.driver_for(row.cluster_key).exit(str(row.uid), code=137, reason="oom")
    with time_machine.travel(ended + timedelta(hours=3), tick=False):
        type(row).objects.filter(pk=row.pk).update(next_reconcile_at=now())
        settle(row)
    assert row.phase == "failed"
    only = Interval.objects.get()
    assert only.ended_at is not None
    assert abs(only.ended_at - ended) < timedelta(seconds=1)
    assert only.end_reason == "oom"


def test_c14_what_vanished_counts_until_it_was_last_seen_alive_and_no_longer(
    launch: Any, settle: Any, alice: Any
) -> None:
    """When it went nobody knows."""
    row = settle(launch(alice))
    registry.driver_for(row.cluster_key).vanish(str(row.uid))
    seen = now()
    with time_machine.travel(seen + timedelta(minutes=10), tick=False):
        type(row).objects.filter(pk=row.pk).update(next_reconcile_at=now())
        settle(row)
    with time_machine.travel(seen + timedelta(hours=3), tick=False):
        type(row).objects.filter(pk=row.pk).update(next_reconcile_at=now())
        settle(row)
    assert (row.phase, row.reason) == ("failed", "vanished")
    only = Interval.objects.get()
    assert only.ended_at is not None
    assert abs(only.ended_at - seen) < timedelta(seconds=1)


@pytest.fixture
def _one_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(observe, "close_old_connections", lambda: None)  # hours pass in the test


def listed(key: str, at: datetime) -> None:
    """A watch of the cluster begins, reads all there is, and its worker is killed."""

    class OnceDriver:
        def watch(self, *, stop: Any) -> Any:
            yield next(registry.driver_for(key).watch(stop=stop))
            watcher.stop()
            yield []

    with time_machine.travel(at, tick=False):
        watcher = observe.Watcher(key, lambda _kind, _pk: None)
        watcher._held = held = leases.acquire(f"watch:{key}", ttl_s=45)
        assert held is not None
        watcher._follow(OnceDriver(), held)
        watcher._release()


@pytest.mark.usefixtures("_one_connection")
@pytest.mark.parametrize("went", [True, False])
def test_downtime_of_the_portal_is_charged_only_for_what_went_on(
    launch: Any, settle: Any, alice: Any, went: bool
) -> None:
    row = settle(launch(alice))
    key, begun = row.cluster_key, now()
    seen, back = begun + timedelta(hours=1), begun + timedelta(days=2)
    listed(key, seen)
    if went:  # nobody is there to see it
        registry.driver_for(key).vanish(str(row.uid))
    listed(key, back)
    with time_machine.travel(back, tick=False):
        settle(row)
    only = Interval.objects.get()
    assert (only.ended_at is None) is not went
    if only.ended_at is not None:
        assert abs(only.ended_at - seen) < timedelta(seconds=1)


@pytest.mark.usefixtures("_one_connection")
def test_a_worker_that_looks_before_its_watch_does_charges_no_downtime_either(
    launch: Any, settle: Any, alice: Any
) -> None:
    row = settle(launch(alice))
    seen = now() + timedelta(hours=1)
    listed(row.cluster_key, seen)
    registry.driver_for(row.cluster_key).vanish(str(row.uid))
    with time_machine.travel(seen + timedelta(days=2), tick=False):
        type(row).objects.filter(pk=row.pk).update(next_reconcile_at=now())
        settle(row)
    ended_at = Interval.objects.get().ended_at
    assert ended_at is not None
    assert abs(ended_at - seen) < timedelta(seconds=1)


def test_waiting_in_the_queue_costs_nothing(project: Any, alice: Any) -> None:
    told(work(project, alice), Phase.PENDING, {})
    assert not Interval.objects.exists()


# --- the listener alone, told the same things in odd orders -----------------------------------


def work(project: Project, owner: Any, **extra: Any) -> Any:
    class Row(SimpleNamespace):
        KIND = "workspace"

        def __str__(self) -> str:
            return "Lab"

    return Row(
        **{
            "uid": project.uid,
            "launch": 1,
            "project": project,
            "owner": owner,
            "owner_id": owner.pk,
            "cluster_key": "local",
            "resources": Resources(4000, 8192, 2, "h100-80"),
            "reason": "",
            "external_ref": {},
            "started_at": None,
            **extra,
        }
    )


def told(row: Any, phase: Phase, ref: dict[str, Any], *, gone: bool = False) -> None:
    outcome = Outcome(phase, external_ref=ref)
    keep_intervals(Transition(row, Phase.PENDING, phase, outcome, gone, row))


def test_repeating_every_message_changes_nothing(project: Any, alice: Any) -> None:
    row = work(project, alice)
    begun = now().timestamp() - 600
    ref = {"launch": 1, "placed_at": begun, "devices": ["GPU-1", "GPU-2"]}
    for phase in (Phase.STARTING, Phase.STARTING, Phase.RUNNING, Phase.RUNNING):
        told(row, phase, ref)
    ended = {**ref, "exit": {"at": begun + 300}}
    for _ in range(3):
        told(row, Phase.STOPPED, ended)
        told(row, Phase.STOPPED, ended, gone=True)
    only = Interval.objects.get()
    assert (only.ended_at - only.started_at).total_seconds() == pytest.approx(300)
    assert only.gpus == 2


def test_a_portal_that_was_down_while_it_ran_and_ended_still_counts_it(
    project: Any, alice: Any
) -> None:
    begun = now().timestamp() - 600
    told(
        work(project, alice),
        Phase.FAILED,
        {"launch": 1, "placed_at": begun, "exit": {"at": begun + 60}},
    )
    only = Interval.objects.get()
    assert (only.ended_at - only.started_at).total_seconds() == pytest.approx(60)


def test_a_launch_that_never_got_a_place_counts_nothing(project: Any, alice: Any) -> None:
    told(work(project, alice), Phase.FAILED, {})
    assert not Interval.objects.exists()


def test_a_start_of_an_earlier_launch_is_not_taken_for_this_one(project: Any, alice: Any) -> None:
    placed = now().timestamp() - 60
    row = work(project, alice, launch=2, started_at=now() - timedelta(days=3))
    told(row, Phase.STARTING, {"launch": 2, "placed_at": placed})
    assert Interval.objects.get().started_at.timestamp() == pytest.approx(placed)


def test_the_next_launch_closes_what_a_crash_left_open(project: Any, alice: Any) -> None:
    begun = now().timestamp() - 600
    told(work(project, alice), Phase.RUNNING, {"launch": 1, "placed_at": begun})
    told(work(project, alice, launch=2), Phase.STARTING, {"launch": 2, "placed_at": begun + 500})
    first = Interval.objects.get(launch=1)
    assert (first.ended_at - first.started_at).total_seconds() == pytest.approx(500)
    assert Interval.objects.get(launch=2).ended_at is None


def test_a_restart_that_has_to_wait_counts_no_longer(project: Any, alice: Any) -> None:
    begun = now().timestamp() - 600
    told(work(project, alice), Phase.RUNNING, {"launch": 1, "placed_at": begun})
    again = work(project, alice, launch=2)
    again.reason = "data"  # it has its devices still
    told(again, Phase.PENDING, {"launch": 1, "placed_at": begun})
    assert Interval.objects.get().ended_at is None
    again.reason = "queued"
    told(again, Phase.PENDING, {"launch": 1, "placed_at": begun})
    assert Interval.objects.get().ended_at == pytest.approx(now(), abs=timedelta(seconds=5))


def test_an_end_before_the_start_is_never_written(project: Any, alice: Any) -> None:
    begun = now().timestamp() - 60
    told(
        work(project, alice),
        Phase.STOPPED,
        {"launch": 1, "placed_at": begun, "exit": {"at": begun - 1000}},
    )
    only = Interval.objects.get()
    assert only.ended_at == only.started_at


def test_what_a_pod_used_before_another_replaced_it_still_counts(project: Any, alice: Any) -> None:
    begun = now() - timedelta(minutes=10)
    ref = {"launch": 1, "placed_at": begun.timestamp(), "pod": {"times": 0}}
    told(work(project, alice, started_at=begun), Phase.RUNNING, ref)
    later = work(project, alice, started_at=now())
    told(later, Phase.RUNNING, {**ref, "pod": {"times": 1}})
    assert Interval.objects.get().started_at == begun


def test_c14_an_eviction_is_the_same_interval_until_its_launch_ends(
    project: Any, alice: Any
) -> None:
    """Its place is kept for it meanwhile; a pod that never comes again ends with its stop."""
    begun = now().timestamp() - 600
    ref: dict[str, Any] = {"launch": 1, "placed_at": begun, "pod": {"times": 0}}
    told(work(project, alice), Phase.RUNNING, ref)
    told(work(project, alice, reason="evicted"), Phase.STARTING, ref)
    assert Interval.objects.get().ended_at is None
    told(work(project, alice), Phase.RUNNING, {**ref, "pod": {"times": 1}})
    told(work(project, alice, reason="evicted"), Phase.STARTING, {**ref, "pod": {"times": 1}})
    told(work(project, alice, reason="user"), Phase.STOPPING, ref)
    assert Interval.objects.get().ended_at is None  # its place is held until it is gone
    told(work(project, alice, reason="user"), Phase.STOPPED, {**ref, "exit": {"at": begun + 300}})
    only = Interval.objects.get()
    assert (only.ended_at - only.started_at).total_seconds() == pytest.approx(300)
    assert (only.launch, only.end_reason) == (1, "user")
