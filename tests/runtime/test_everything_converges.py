"""From any sequence of intents, failures and deaths the world comes to what is wanted."""

import datetime as dt
import os

import pytest
import time_machine
from django.core.cache import cache
from django.db.models import F
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from clusters import registry, services
from clusters.models import Claim, Hold
from common.clock import now
from runtime import engine, orphans, routes
from runtime.models import Installation, Route
from runtime.protocol import Device, Health, Phase
from tests.engineapp.models import Note, Thing
from tests.support import driving

pytestmark = pytest.mark.django_db

which = st.integers(0, 2)
acts = st.lists(
    st.one_of(
        st.tuples(
            st.just("want"), which, st.sampled_from(["running", "running", "stopped", "absent"])
        ),
        st.tuples(
            st.just("fail"),
            st.sampled_from(["ensure", "ensure_volume"]),
            st.sampled_from(["denied", "no-capacity", "invalid", "not-yet"]),
        ),
        st.tuples(
            st.just("fail"),
            st.sampled_from(["ensure", "observe", "stop", "remove", "ensure_volume", "*"]),
            st.sampled_from(["unreachable", "crash"]),
        ),
        st.tuples(st.just("exit"), which, st.sampled_from([0, 1, -9])),
        st.tuples(st.just("vanish"), which),
        st.tuples(st.just("die"), which),
        st.tuples(st.just("proxy"), st.booleans()),
        st.tuples(st.just("wait"), st.sampled_from([1, 30, 100])),
        st.tuples(st.just("run")),
    ),
    max_size=14,
)


def do(act, things, clock):
    driver, router = registry.driver_for("local"), registry.router()
    match act:
        case ("want", i, desired):
            row = Thing.objects.filter(pk=things[i].pk).exclude(desired="absent")
            more = {"launch": F("launch") + 1} if desired == "running" else {}
            row.update(
                desired=desired, generation=F("generation") + 1, next_reconcile_at=now(), **more
            )
        case ("fail", verb, error):
            driver.fail(verb, error, times=2)
        case ("exit", i, code):
            if driver.spec_seen(things[i].uid):
                driver.exit(things[i].uid, code=code)
                Thing.objects.filter(pk=things[i].pk).update(next_reconcile_at=now())
        case ("vanish", i):
            driver.vanish(things[i].uid)
            Thing.objects.filter(pk=things[i].pk).update(next_reconcile_at=now())
        case ("die", i):
            held = engine.claim("thing", things[i].pk, horizon_s=600)
            if held:
                engine.attempt(held)  # and never applied
        case ("proxy", up):
            router.down = not up
        case ("wait", seconds):
            clock.shift(seconds)
        case ("run",):
            driving.run_due(rounds=3)


def never_too_much():
    assert Hold.objects.count() <= 1
    for claim in Claim.objects.filter(granted_at__isnull=False):
        assert claim.holds.count() == claim.gpus


def agrees(thing):
    """The world says what the row says."""
    uid = str(thing.uid)
    seen = str(registry.driver_for("local").observe([uid])[uid].seen)
    routed = f"/thing-{uid}" in registry.router().list()
    held = Claim.objects.filter(workload_uid=uid, granted_at__isnull=False).exists()
    if thing.phase == Phase.RUNNING:
        assert (thing.desired, seen, routed, held) == ("running", "ready", True, True)
    elif thing.phase == Phase.PENDING:
        assert (thing.desired, routed, held) == ("running", False, False)
        assert thing.reason == "queued"
    else:
        assert seen in {"missing", "exited"}
        assert (routed, held, thing.tokens) == (False, False, [])
        assert not Route.objects.filter(uid=uid).exists()
        if thing.desired == "stopped":
            assert thing.phase == Phase.STOPPED
        if thing.desired == "absent":
            assert (thing.phase, seen) == (Phase.DELETED, "missing")


@given(acts=acts)
@settings(
    max_examples=int(os.environ.get("BERTH_EXAMPLES", "15")),
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_everything_converges_and_no_device_is_held_twice(acts):
    for model in (Note, Thing, Claim, Route, Installation):
        model.objects.all().delete()
    Installation.objects.create()
    registry.reset()
    cache.clear()
    services.ensure_local_cluster()
    card = Device(uuid="GPU-0", index=0, name="H100", memory_mib=80_000)
    services.health_store(key="local", health=Health(True, "1", 64_000, 64_000, (card,)))
    with time_machine.travel(dt.datetime(2026, 1, 1, tzinfo=dt.UTC), tick=False) as clock:
        things = [Thing.objects.create(gpus=g, next_reconcile_at=now()) for g in (0, 1, 1)]
        for act in acts:
            do(act, things, clock)
            never_too_much()
        registry.driver_for("local").heal()
        registry.router().down = False
        for _quiet in range(12):
            driving.run_due()
            clock.shift(100)
            never_too_much()
        routes.resync(registry.router())  # what the route keeper does every few seconds
        for _sighting in range(2):  # what is done every minute
            orphans.collect_orphans()
            clock.shift(100)
        driving.run_due()
        for thing in Thing.objects.all():
            agrees(thing)
        # Each launch was made at most once; only one that vanished before anybody noted that
        # it had been made may be made again.
        with registry.driver_for("local")._store.open() as world:
            starts = world.get("starts", {}).values()
            once = all(len(s) == len(set(s)) for s in starts)
        assert once or {"die", "vanish"} <= {act[0] for act in acts}
