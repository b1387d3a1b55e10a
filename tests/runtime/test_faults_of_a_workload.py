"""What happens to a workload when the world does not do as it is told."""

import datetime as dt

import pytest
import time_machine

from clusters.models import Claim
from common.clock import now
from runtime import engine
from runtime.models import Route
from runtime.protocol import InvalidSpec, Phase
from runtime.reasons import Reason
from tests.engineapp.models import Thing
from tests.engineapp.reconciler import ThingReconciler


def due(*things):
    Thing.objects.filter(pk__in=[t.pk for t in things]).update(next_reconcile_at=now())


@pytest.mark.parametrize(
    ("how", "phase", "reason"),
    [
        ({"code": 0}, Phase.STOPPED, Reason.FINISHED),
        ({"code": 1, "message": "boom"}, Phase.FAILED, Reason.EXIT),
        ({"code": -9, "reason": "oom"}, Phase.FAILED, Reason.OOM),
        ({"code": None}, Phase.FAILED, Reason.KILLED),
    ],
)
def test_a_process_that_ends_by_itself_is_told_and_everything_is_closed(
    make_thing, settle, driver, router, how, phase, reason
):
    thing = settle(make_thing())
    driver.exit(thing.uid, **how)
    due(thing)
    settle(thing)
    assert (thing.phase, thing.reason) == (phase, reason)
    assert thing.message == how.get("message", "")
    assert thing.external_ref["exit"]["code"] == how["code"]
    assert thing.tokens == []
    assert router.list() == {}
    assert not Claim.objects.filter(workload_uid=thing.uid).exists()


def test_it_is_not_started_again_by_itself(make_thing, settle, driver):
    driver.script("*", exit_after_s=0, exit_code=1)
    thing = settle(make_thing())
    for _ in range(3):
        due(thing)
        settle(thing)
    assert driver.calls("ensure") == 1
    assert thing.phase == Phase.FAILED


def test_but_starts_again_when_the_user_asks(make_thing, settle, driver, want):
    driver.script("*", exit_after_s=0, exit_code=1)
    thing = settle(make_thing())
    driver.script("*")
    assert settle(want(thing, "running")).phase == Phase.RUNNING
    assert thing.reason == ""


def test_e10_gone_by_somebodys_hand_is_shown_and_not_repeated(make_thing, settle, driver, router):
    thing = settle(make_thing())
    driver.vanish(thing.uid)
    for _ in range(3):
        due(thing)
        settle(thing)
    assert (thing.phase, thing.reason) == (Phase.FAILED, Reason.VANISHED)
    assert driver.calls("ensure") == 1
    assert router.list() == {}


def test_never_ready_fails_after_its_time_and_leaves_nothing_running(make_thing, settle, driver):
    driver.script("*", never_ready=True)
    thing = settle(make_thing())
    assert thing.phase == Phase.STARTING
    with time_machine.travel(now() + dt.timedelta(seconds=700)):
        due(thing)
        settle(thing)
    assert (thing.phase, thing.reason) == (Phase.FAILED, Reason.START_TIMEOUT)
    assert driver.observe([str(thing.uid)])[str(thing.uid)].seen == "exited"


def test_a_proxy_that_is_down_delays_running_and_nothing_else(make_thing, settle, router):
    router.down = True
    thing = settle(make_thing())
    assert (thing.phase, thing.reason) == (Phase.STARTING, Reason.PROXY_UNREACHABLE)
    router.down = False
    due(thing)
    assert settle(thing).phase == Phase.RUNNING


def test_a_proxy_that_is_down_does_not_keep_work_from_stopping(
    make_thing, settle, want, router, driver
):
    thing = settle(make_thing())
    router.down = True
    assert settle(want(thing, "stopped")).phase == Phase.STOPPED
    assert not Route.objects.exists()  # the proxy is compared with this when it is back


def test_a_machine_that_is_down_shows_the_intent_and_cuts_the_route(
    make_thing, settle, want, driver, router
):
    thing = settle(make_thing())
    driver.fail("*", "unreachable", times=-1)
    want(thing, "stopped")
    engine.reconcile_one("thing", thing.pk)
    thing.refresh_from_db()
    assert (thing.phase, thing.reason) == (Phase.STOPPING, Reason.UNREACHABLE)
    assert (thing.tokens, router.list()) == ([], {})
    driver.heal()
    due(thing)
    assert settle(thing).phase == Phase.STOPPED


def test_a_slow_stop_is_shown_as_stopping_until_it_is_seen_gone(make_thing, settle, want, driver):
    driver.script("*", stop_after_s=30)
    thing = settle(make_thing())
    assert settle(want(thing, "stopped")).phase == Phase.STOPPING
    assert Claim.objects.filter(workload_uid=thing.uid).exists()  # not free before it is gone
    with time_machine.travel(now() + dt.timedelta(seconds=40)):
        due(thing)
        assert settle(thing).phase == Phase.STOPPED
    assert not Claim.objects.filter(workload_uid=thing.uid).exists()


def test_start_asked_while_it_still_stops_waits_for_the_end_of_the_old_run(
    make_thing, settle, want, driver
):
    driver.script("*", stop_after_s=20)
    thing = settle(make_thing())
    settle(want(thing, "stopped"))
    settle(want(thing, "running"))
    assert thing.phase == Phase.STARTING
    with time_machine.travel(now() + dt.timedelta(seconds=30)):
        due(thing)
        assert settle(thing).phase == Phase.RUNNING
    assert driver.spec_seen(thing.uid)["launch"] == 2


@pytest.mark.parametrize(
    ("desired", "phase", "after"),
    [
        ("stopped", Phase.STOPPING, Phase.STOPPED),
        ("absent", Phase.DELETING, Phase.DELETED),
    ],
)
def test_c14_what_keeps_it_from_ending_is_said_and_its_place_is_kept_meanwhile(
    make_thing, settle, want, driver, desired, phase, after
):
    thing = settle(make_thing())
    driver.fail("stop", "held", times=-1)
    want(thing, desired)
    engine.reconcile_one("thing", thing.pk)
    thing.refresh_from_db()
    assert (thing.phase, thing.reason, thing.message) == (phase, Reason.HELD, "A mark keeps it.")
    assert thing.next_reconcile_at - now() > dt.timedelta(seconds=1)  # not asked all the time
    assert Claim.objects.filter(workload_uid=thing.uid).exists()
    driver.heal()
    due(thing)
    settle(thing)
    assert thing.phase == after
    assert thing.reason != Reason.HELD
    assert not Claim.objects.filter(workload_uid=thing.uid).exists()


def test_c14_a_start_that_waits_for_a_run_that_is_held_says_what_keeps_it(
    make_thing, settle, want, driver
):
    driver.script("*", stop_after_s=20)
    thing = settle(make_thing())
    settle(want(thing, "stopped"))
    driver.fail("stop", "held", times=-1)
    want(thing, "running")
    engine.reconcile_one("thing", thing.pk)
    thing.refresh_from_db()
    told = (thing.phase, thing.reason, thing.message)
    assert told == (Phase.STARTING, Reason.PREVIOUS_ENDING, "A mark keeps it.")


def test_c14_one_that_failed_and_is_held_says_so_and_is_failed_when_it_is_gone(
    make_thing, settle, driver
):
    thing = settle(make_thing())
    driver.fail("stop", "held", times=-1)
    driver.exit(thing.uid, code=3)
    due(thing)
    engine.reconcile_one("thing", thing.pk)
    thing.refresh_from_db()
    assert (thing.phase, thing.reason) == (Phase.STOPPING, Reason.HELD)
    driver.heal()
    due(thing)
    settle(thing)
    assert (thing.phase, thing.reason) == (Phase.FAILED, Reason.EXIT)


def test_a_stop_during_the_wait_leaves_the_queue(make_thing, settle, want, driver):
    driver.set_capacity(cpu_milli=1000, memory_mib=1024)
    first, second = settle(make_thing(), make_thing())
    assert (first.phase, second.phase) == (Phase.RUNNING, Phase.PENDING)
    assert second.reason == Reason.QUEUED
    settle(want(second, "stopped"))
    assert second.phase == Phase.STOPPED
    assert Claim.objects.count() == 1


def test_replicas_take_their_places_together(make_thing, settle, driver, monkeypatch):
    monkeypatch.setattr(ThingReconciler, "replicas_of", lambda _self, _row: 3)
    driver.set_capacity(cpu_milli=16_000, memory_mib=4 * 1024)
    first, second = settle(make_thing(), make_thing())
    assert (first.phase, second.phase, second.reason) == (
        (Phase.RUNNING, Phase.PENDING, Reason.QUEUED)
    )
    assert {claim.memory_mib for claim in Claim.objects.all()} == {3 * first.memory_mib}


def test_flapping_readiness_never_starts_a_second_process(make_thing, settle, driver):
    driver.script("*", flapping=True)
    thing = make_thing()
    for _ in range(5):
        due(thing)
        settle(thing)
    assert driver.calls("ensure") == 1


def test_a_step_that_was_cut_after_ensure_goes_on_where_it_was(make_thing, settle, driver):
    thing = make_thing()
    held = engine.claim("thing", thing.pk)
    engine.attempt(held)  # the worker dies before apply
    Thing.objects.filter(pk=thing.pk).update(lease_until=now(), next_reconcile_at=now())
    settle(thing)
    assert thing.phase == Phase.RUNNING
    assert driver.spec_seen(thing.uid)["launch"] == 1


def test_a_restart_ends_the_old_run_before_the_new_one_is_placed(make_thing, settle, want, driver):
    thing = settle(make_thing())
    driver.fail("ensure", "invalid", times=1)
    settle(want(thing, "running"))  # again, with no stop between
    assert (thing.phase, thing.reason) == (Phase.FAILED, Reason.INVALID_SPEC)
    assert driver.observe([str(thing.uid)])[str(thing.uid)].seen == "exited"
    assert not Claim.objects.exists()


def test_what_could_not_start_as_it_is_now_goes_on_and_loses_its_secret_later(
    make_thing, settle, driver, monkeypatch
):
    """Its image or its files are gone, and then a credential that it was given."""
    monkeypatch.setattr(ThingReconciler, "secrets_of", lambda _self, row: row.name, raising=False)
    thing = settle(make_thing(name="one"))
    Thing.objects.filter(pk=thing.pk).update(name="none", next_reconcile_at=now())

    def refuse(_self, _row):
        raise InvalidSpec("Its image is gone.")

    with monkeypatch.context() as meanwhile:
        meanwhile.setattr(ThingReconciler, "spec_of", refuse)
        settle(thing)
        assert (thing.phase, thing.reason) == (Phase.RUNNING, "")
        assert driver.calls("refresh_secrets") == 0
    due(thing)
    settle(thing)
    assert (driver.calls("refresh_secrets"), thing.external_ref["secrets"]) == (1, "none")


def test_e16_what_runs_for_a_parked_row_is_closed_at_once_and_ended_soon(
    make_thing, settle, driver, router
):
    from django.core.cache import cache

    from runtime.orphans import collect_orphans

    cache.clear()
    thing = settle(make_thing())
    Thing.objects.filter(pk=thing.pk).update(lease_attempts=5, next_reconcile_at=now())
    settle(thing)
    assert (thing.reason, thing.tokens, router.list()) == (Reason.QUARANTINED, [], {})
    assert Claim.objects.exists()  # not free while it may run
    collect_orphans()
    with time_machine.travel(now() + dt.timedelta(seconds=120)):
        collect_orphans()
    assert driver.observe([str(thing.uid)])[str(thing.uid)].seen == "exited"
    assert not Claim.objects.exists()
