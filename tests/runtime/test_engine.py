"""Claim, step, apply: the invariants of the engine, one by one."""

import datetime as dt
import uuid
from types import SimpleNamespace

import pytest
import time_machine
from django.db import OperationalError, connection

from clusters import registry
from clusters.models import Cluster
from common.clock import now
from runtime import due_scheduler, engine, leases, reconcilers
from runtime.drivers.fake import FakeDriver
from runtime.models import Lease
from runtime.protocol import Phase
from runtime.reasons import Reason
from runtime.reconcilers import Outcome
from tests.engineapp.models import Note, Thing


def later(seconds):
    return now() + dt.timedelta(seconds=seconds)


class StepOnce:
    """A reconciler whose step is given."""

    kind = "thing"
    model = Thing

    def __init__(self, act):
        self.act = act

    def step(self, row, observation):
        return self.act(row)


@pytest.fixture
def step(monkeypatch):
    """Replace the step of things by a function."""

    def use(act):
        monkeypatch.setitem(reconcilers._reconcilers, "thing", StepOnce(act))

    return use


def test_a_due_row_is_claimed_once(make_thing):
    thing = make_thing()
    first = engine.claim("thing", thing.pk)
    assert first is not None
    assert engine.claim("thing", thing.pk) is None


def test_a_row_that_is_not_due_is_not_claimed(make_thing):
    assert engine.claim("thing", make_thing(next_reconcile_at=None).pk) is None
    assert engine.claim("thing", make_thing(next_reconcile_at=later(5)).pk) is None


def test_a_deleted_row_is_not_claimed(make_thing):
    assert engine.claim("thing", make_thing(deleted_at=now()).pk) is None


def test_an_expired_lease_is_taken_over_and_the_old_result_is_dropped(make_thing):
    thing = make_thing()
    old = engine.claim("thing", thing.pk)
    with time_machine.travel(later(91), tick=False):
        new = engine.claim("thing", thing.pk)
        assert new is not None
        engine.apply(old, Outcome(Phase.FAILED, "exit"))
        thing.refresh_from_db()
        assert thing.phase == Phase.PENDING
        assert thing.lease_token == new.token
        engine.apply(new, Outcome(Phase.RUNNING))
        thing.refresh_from_db()
        assert thing.phase == Phase.RUNNING
        assert thing.lease_token is None


def test_a_change_during_the_step_makes_the_row_due_at_once(make_thing, want):
    thing = make_thing()
    held = engine.claim("thing", thing.pk)
    want(thing, "stopped")
    assert engine.apply(held, Outcome(Phase.RUNNING, requeue_s=600)) is True
    thing.refresh_from_db()
    assert thing.next_reconcile_at <= now()
    assert thing.observed_generation == held.generation < thing.generation


def test_a_wake_up_during_the_step_is_not_lost_either(make_thing):
    thing = make_thing()
    with time_machine.travel(now(), tick=False):
        held = engine.claim("thing", thing.pk)
        Thing.objects.filter(pk=thing.pk).update(next_reconcile_at=now())  # what watch does
        assert engine.apply(held, Outcome(Phase.STARTING, requeue_s=600)) is True


def test_a_quiet_row_sleeps_until_it_is_told(make_thing):
    thing = make_thing()
    held = engine.claim("thing", thing.pk)
    assert engine.apply(held, Outcome(Phase.STOPPED)) is False
    thing.refresh_from_db()
    assert thing.next_reconcile_at is None
    assert thing.phase_since is not None


def test_a_step_runs_with_no_open_transaction(transactional_db, step):
    thing = Thing.objects.create(next_reconcile_at=now())
    open_during_step = []

    def act(row):
        open_during_step.append(connection.in_atomic_block)
        return Outcome(Phase.RUNNING)

    step(act)
    assert engine.reconcile_one("thing", thing.pk)
    assert open_during_step == [False]


def test_a_listener_that_fails_takes_the_status_back_with_it(transactional_db, step, monkeypatch):
    thing = Thing.objects.create(next_reconcile_at=now())
    step(lambda row: Outcome(Phase.RUNNING, timeline=(("running", ""),)))

    def broken(transition):
        message = "listener"
        raise RuntimeError(message)

    monkeypatch.setattr(reconcilers, "_listeners", [*reconcilers.listeners(), broken])
    with pytest.raises(RuntimeError):
        engine.reconcile_one("thing", thing.pk)
    thing.refresh_from_db()
    assert thing.phase == Phase.PENDING
    assert not Note.objects.exists()


def test_unreachable_keeps_the_phase_and_backs_off(make_thing, driver, settle):
    thing = settle(make_thing())
    driver.fail("*", "unreachable", times=-1)
    for failures in (1, 2, 3):
        Thing.objects.filter(pk=thing.pk).update(next_reconcile_at=now())
        before = now()
        engine.reconcile_one("thing", thing.pk)
        after = now()
        thing.refresh_from_db()
        assert thing.phase == Phase.RUNNING
        assert thing.reason == Reason.UNREACHABLE
        assert thing.failures == failures
        assert (thing.next_reconcile_at - before).total_seconds() >= 0.8 * 2 ** (failures - 1)
        assert (thing.next_reconcile_at - after).total_seconds() <= 1.2 * 2 ** (failures - 1)
    driver.heal()
    Thing.objects.filter(pk=thing.pk).update(next_reconcile_at=now())
    engine.reconcile_one("thing", thing.pk)
    thing.refresh_from_db()
    assert (thing.phase, thing.reason, thing.failures) == (Phase.RUNNING, "", 0)


def test_backing_off_has_an_end():
    assert engine.backoff(60) <= engine.BACKOFF_MAX_S * 1.2


def test_an_invalid_spec_fails_and_is_not_tried_again(make_thing, driver, settle):
    driver.fail("ensure", "invalid", times=-1)
    thing = settle(make_thing())
    assert (thing.phase, thing.reason) == (Phase.FAILED, Reason.INVALID_SPEC)
    assert "can't run this" in thing.message
    assert thing.next_reconcile_at is None
    assert driver.calls("ensure") == 1


def test_what_a_driver_of_before_the_change_of_its_cluster_refused_is_asked_again(
    make_thing, own, settle, monkeypatch
):
    """An operator's KServe or image was found a moment ago, and this process used what it knew."""

    def made(cluster):
        driver = FakeDriver(None, own.uid)
        if cluster.revision == 1:
            driver.fail("ensure", "invalid", times=-1)
        return driver

    monkeypatch.setitem(registry.DRIVERS, "fake", made)
    far = Cluster.objects.create(key="far", name="Far", driver="fake")
    old = registry.driver_for("far")
    Cluster.objects.filter(pk=far.pk).update(revision=2)
    thing = settle(make_thing(cluster_key="far"))
    assert (thing.phase, thing.reason, thing.message) == (Phase.RUNNING, "", "")
    assert old.calls("ensure") == 1
    Cluster.objects.filter(pk=far.pk).update(revision=1)
    registry.forget("far")
    registry.driver_for("far")
    assert settle(make_thing(cluster_key="far")).reason == Reason.INVALID_SPEC


@pytest.mark.parametrize(
    ("error", "reason"), [("denied", Reason.DENIED), ("no-capacity", Reason.NO_CAPACITY)]
)
def test_a_refusal_waits_with_its_reason_and_asks_again(make_thing, driver, settle, error, reason):
    driver.fail("ensure", error, times=1)
    thing = settle(make_thing())
    assert (thing.phase, thing.reason) == (Phase.PENDING, reason)
    assert thing.next_reconcile_at > now()
    Thing.objects.filter(pk=thing.pk).update(next_reconcile_at=now())
    assert settle(thing).phase == Phase.RUNNING


def refused(thing, driver, verb: str):
    """The thing after one pass in which the world refuses ``verb``."""
    driver.fail(verb, "denied", times=-1)
    Thing.objects.filter(pk=thing.pk).update(next_reconcile_at=now())
    engine.reconcile_one("thing", thing.pk)
    driver.heal()
    thing.refresh_from_db()
    assert (thing.reason, thing.next_reconcile_at > later(40)) == (Reason.DENIED, True)
    return thing


def test_what_runs_goes_on_while_the_world_refuses_to_tell_of_it(make_thing, driver, settle):
    thing = refused(settle(make_thing()), driver, "observe")
    assert (thing.phase, thing.failures) == (Phase.RUNNING, 0)
    Thing.objects.filter(pk=thing.pk).update(next_reconcile_at=now())
    thing = settle(thing)
    assert (thing.phase, thing.reason) == (Phase.RUNNING, "")


def test_what_starts_goes_on_starting_while_the_world_refuses(make_thing, driver, settle):
    driver.script("*", never_ready=True)
    thing = settle(make_thing())
    assert thing.phase == Phase.STARTING
    assert refused(thing, driver, "observe").phase == Phase.STARTING


@pytest.mark.parametrize(
    ("desired", "verb", "phase"),
    [("stopped", "stop", Phase.STOPPING), ("absent", "remove", Phase.DELETING)],
)
def test_what_ends_goes_on_ending_while_the_world_refuses(
    make_thing, driver, settle, want, desired, verb, phase
):
    thing = refused(want(settle(make_thing()), desired), driver, verb)
    assert thing.phase == phase
    Thing.objects.filter(pk=thing.pk).update(next_reconcile_at=now())
    assert settle(thing).phase == {"stopped": Phase.STOPPED, "absent": Phase.DELETED}[desired]


def test_a_refusal_of_the_next_start_of_what_ended_waits(make_thing, driver, settle, want):
    thing = settle(want(settle(make_thing()), "stopped"))
    assert thing.phase == Phase.STOPPED
    assert refused(want(thing, "running"), driver, "ensure").phase == Phase.PENDING


def test_not_yet_comes_back_when_it_was_told(make_thing, driver, settle):
    driver.fail("ensure", "not-yet", times=3)
    thing = settle(make_thing())
    assert thing.phase == Phase.RUNNING
    assert driver.calls("ensure") == 4


def test_a_bug_in_a_driver_backs_off_and_heals(make_thing, driver, settle):
    driver.fail("ensure", "crash", times=2)
    thing = make_thing()
    engine.reconcile_one("thing", thing.pk)
    thing.refresh_from_db()
    assert thing.reason == Reason.INTERNAL_ERROR
    assert thing.message == ""  # nothing of the inside is shown
    assert settle(thing).phase == Phase.RUNNING


def test_e16_a_row_that_kills_its_worker_is_parked_and_others_go_on(make_thing, settle):
    poison, fine = make_thing(), make_thing()
    for _death in range(engine.POISON_AFTER):
        assert engine.claim("thing", poison.pk) is not None  # and the worker dies here
        Thing.objects.filter(pk=poison.pk).update(lease_until=now(), next_reconcile_at=now())
    poison, fine = settle(poison, fine)
    assert (poison.phase, poison.reason) == (Phase.FAILED, Reason.QUARANTINED)
    assert poison.next_reconcile_at is None
    assert fine.phase == Phase.RUNNING


def test_e16_a_parked_row_gets_new_tries_when_the_user_asks_again(make_thing, settle, want):
    thing = make_thing(lease_attempts=engine.POISON_AFTER)
    assert settle(thing).reason == Reason.QUARANTINED
    assert settle(want(thing, "running")).phase == Phase.RUNNING


def test_e1_rows_of_a_dead_worker_are_taken_over_before_their_lease_ends(make_thing, settle):
    thing = make_thing()
    dead = uuid.UUID(hex="dead" * 4 + "0" * 16)
    Lease.objects.create(name=f"worker:{'dead' * 4}", until=now() - dt.timedelta(seconds=1))
    Thing.objects.filter(pk=thing.pk).update(
        lease_token=dead, lease_until=later(80), next_reconcile_at=later(80)
    )
    leases.beat()
    assert due_scheduler.free_dead_leases() == 1
    assert settle(thing).phase == Phase.RUNNING


def test_e1_a_worker_that_died_on_this_machine_is_recognised_at_once(make_thing, settle):
    import subprocess

    gone = subprocess.Popen(["true"])
    gone.wait()
    name = f"worker:{'beef' * 4}:{leases._here()}:{gone.pid}"
    Lease.objects.create(name=name, until=later(20))
    thing = make_thing(
        lease_token=uuid.UUID(hex="beef" * 4 + "0" * 16),
        lease_until=later(80),
        next_reconcile_at=later(80),
    )
    leases.beat()
    assert due_scheduler.free_dead_leases() == 1
    assert settle(thing).phase == Phase.RUNNING


def test_rows_of_a_living_worker_are_left_to_it(make_thing):
    thing = make_thing()
    leases.beat()
    engine.claim("thing", thing.pk)
    assert due_scheduler.free_dead_leases() == 0


def test_due_rows_of_one_project_do_not_hide_those_of_another(make_thing, monkeypatch):
    monkeypatch.setattr(due_scheduler, "_has_project", lambda model: False)
    things = [make_thing() for _ in range(5)]
    assert [pk for _kind, pk in due_scheduler.due_items(limit=3)] == [t.pk for t in things[:3]]


def test_sleep_until_the_next_due_row_is_bounded(make_thing):
    assert due_scheduler.seconds_to_next() == due_scheduler.IDLE_S
    with time_machine.travel(now(), tick=False):
        make_thing(next_reconcile_at=later(2))
        assert due_scheduler.seconds_to_next() == 2
        make_thing(next_reconcile_at=now())
        assert due_scheduler.seconds_to_next() == 0


def test_a_row_is_never_twice_in_the_pool(transactional_db, monkeypatch):
    import threading

    thing = Thing.objects.create(next_reconcile_at=now())
    inside, most, gate = [], [], threading.Event()

    def slow(kind, pk):
        inside.append(pk)
        most.append(len(inside))
        gate.wait(60)
        inside.pop()

    monkeypatch.setattr(engine, "reconcile_one", slow)
    pool = due_scheduler.Pool(threads=4)
    for _ in range(5):
        pool.submit("thing", thing.pk)
    gate.set()
    while len(pool):
        gate.wait(0.01)
    assert pool.drain()
    assert most == [1, 1]  # once, and once again for what came meanwhile


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("broken", [1, 2])  # the claim's answer, the result
def test_e6_a_connection_that_breaks_leaves_the_row_due_at_once_not_after_the_lease(
    make_thing, step, broken
):
    thing = make_thing()
    step(lambda row: Outcome(Phase.RUNNING))
    seen = []

    def cut(execute, sql, params, many, context):
        hit = sql.startswith("UPDATE") and "lease_token" in sql
        seen.extend([sql] if hit else [])
        if hit and len(seen) == broken == 2:
            raise OperationalError("server closed the connection")
        result = execute(sql, params, many, context)
        if hit and len(seen) == broken == 1:
            raise OperationalError("the answer was lost")
        return result

    with connection.execute_wrapper(cut), pytest.raises(OperationalError):
        engine.reconcile_one("thing", thing.pk)
    thing.refresh_from_db()
    assert thing.lease_token is None
    assert thing.lease_attempts == 0
    assert engine.reconcile_one("thing", thing.pk)
    thing.refresh_from_db()
    assert thing.phase == Phase.RUNNING


@pytest.mark.parametrize(
    ("took_s", "rests_s"),
    [(0.001, due_scheduler.BUSY_S), (0.02, 0.4), (9.0, due_scheduler.BUSY_MAX_S)],
)
def test_on_a_busy_machine_the_sweep_looks_less_often(monkeypatch, took_s, rests_s):
    clock = [0.0]

    def looked():
        clock[0] += took_s
        return [("thing", 1)]

    monkeypatch.setattr(due_scheduler, "time", SimpleNamespace(monotonic=lambda: clock[0]))
    monkeypatch.setattr(due_scheduler, "due_items", looked)
    monkeypatch.setattr(due_scheduler.Sweeper, "_lead", lambda _self: True)
    offered = []
    found = due_scheduler.Sweeper(lambda _kind, pk: not offered.append(pk)).once()
    assert found == pytest.approx(rests_s)
    assert offered == [1]
