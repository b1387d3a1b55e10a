"""The cache of observations: fenced by version, kept by one watcher, read by the engine."""

import threading
import time
from dataclasses import replace
from datetime import timedelta

import pytest

from clusters import registry, services
from common.clock import now
from runtime import bus, leases, observe, routes
from runtime.due_scheduler import Pool
from runtime.models import Lease, ObservedWorkload, Route
from runtime.protocol import Observation, Phase, ReplicaSeen, Seen
from runtime.reasons import Reason
from tests.engineapp.models import Thing
from tests.engineapp.reconciler import ThingReconciler


def seen(thing, state, version, **more):
    return Observation(
        uid=str(thing.uid), seen=state, version=version, kind="thing", launch=1, **more
    )


def test_news_is_written_and_makes_the_row_due(make_thing):
    thing = make_thing(next_reconcile_at=None)
    due = observe.store("local", [seen(thing, Seen.READY, 5)], full=False)
    assert due == [("thing", thing.pk)]
    thing.refresh_from_db()
    assert thing.next_reconcile_at <= now()
    assert ObservedWorkload.objects.get().seen == Seen.READY


def test_news_that_only_pages_show_wakes_nobody(make_thing):
    thing = make_thing(next_reconcile_at=None)
    for version, detail in enumerate([{}, {"node": "n1"}, {"node": "n1", "pod_uid": "a"}], 5):
        due = observe.store("local", [seen(thing, Seen.READY, version, detail=detail)], full=False)
        assert bool(due) == (version == 5)
    assert ObservedWorkload.objects.get().data["detail"] == {"node": "n1", "pod_uid": "a"}
    other = seen(thing, Seen.READY, 8, detail={"node": "n1", "pod_uid": "b"})
    assert observe.store("local", [other], full=False) == [("thing", thing.pk)]


def test_an_older_version_never_overwrites_a_newer_one(make_thing):
    thing = make_thing(next_reconcile_at=None)
    observe.store("local", [seen(thing, Seen.EXITED, 7)], full=False)
    assert observe.store("local", [seen(thing, Seen.READY, 6)], full=False) == []
    assert ObservedWorkload.objects.get().seen == Seen.EXITED


def test_e10_a_mark_that_is_no_uid_is_left_alone(make_thing):
    thing = make_thing(next_reconcile_at=None)
    odd = Observation(uid="not-a-uid", seen=Seen.READY, version=9, kind="thing")
    assert observe.store("local", [odd, seen(thing, Seen.READY, 5)], full=True) == [
        ("thing", thing.pk)
    ]


def test_what_is_not_in_a_full_list_is_missing(make_thing):
    here, gone = make_thing(next_reconcile_at=None), make_thing(next_reconcile_at=None)
    both = [seen(here, Seen.READY, 1), seen(gone, Seen.READY, 2)]
    observe.store("local", both, full=True)
    due = observe.store("local", both[:1], full=True)
    assert due[0] == ("thing", gone.pk)
    assert ObservedWorkload.objects.get(uid=gone.uid).seen == Seen.MISSING


def test_a_new_watch_that_numbers_everything_anew_wakes_nobody_without_news(make_thing):
    quiet, changed = (make_thing(next_reconcile_at=None, phase=Phase.RUNNING) for _ in range(2))
    before = [seen(t, Seen.READY, 5, detail={"node": "n", "events": []}) for t in (quiet, changed)]
    observe.store("local", before, full=True)
    after = [
        seen(quiet, Seen.READY, 9, detail={"node": "n", "events": []}),
        seen(changed, Seen.EXITED, 10, exit_code=1),
    ]
    assert observe.store("local", after, full=True) == [("thing", changed.pk)]


def test_who_was_told_that_nothing_answers_is_looked_at_when_something_does(make_thing):
    told = make_thing(next_reconcile_at=None, phase=Phase.RUNNING, reason=Reason.UNREACHABLE)
    there = [seen(told, Seen.READY, 5)]
    observe.store("local", there, full=True)
    assert observe.store("local", there, full=True) == [("thing", told.pk)]


@pytest.fixture
def told_of_silence(make_thing):
    """A row that ran when its cluster fell silent; its pod is as it was."""

    def make(pod="a", **values):
        ref = {"pod": {"launch": 1, "uid": "a", "times": 0}}
        thing = make_thing(
            **{
                "next_reconcile_at": None,
                "phase": Phase.RUNNING,
                "reason": Reason.UNREACHABLE,
                "observed_generation": 1,
                "launch": 1,
                "external_ref": ref,
                **values,
            }
        )
        there = seen(thing, Seen.READY, 5, detail={"pod_uid": pod})
        observe.store("local", [there], full=False)
        Thing.objects.filter(pk=thing.pk).update(next_reconcile_at=None)
        return thing, there

    return make


def test_e7_who_runs_on_as_before_is_answered_without_a_step(told_of_silence, monkeypatch):
    heard = []
    monkeypatch.setattr(bus, "publish", lambda topics, said: heard.append((topics, said)))
    thing, there = told_of_silence()
    assert observe.store("local", [there], full=True) == []
    thing.refresh_from_db()
    assert (thing.phase, thing.reason, thing.next_reconcile_at) == (Phase.RUNNING, "", None)
    ((topics, said),) = heard
    assert f"thing:{thing.uid}" in topics
    assert said == {"kind": "thing"}


def test_e7_many_rows_are_told_in_few_messages(told_of_silence, monkeypatch):
    heard = []
    rows = [told_of_silence() for _ in range(150)]
    monkeypatch.setattr(bus, "publish", lambda topics, said: heard.append((topics, said)))
    observe.store("local", [there for _thing, there in rows], full=True)
    assert len(heard) < len(rows) / 10
    told = {topic for topics, _said in heard for topic in topics}
    assert told >= {f"thing:{thing.uid}" for thing, _there in rows}


@pytest.mark.parametrize(
    "values",
    [
        {"pod": "b"},  # another pod, whose news no step has read
        {"generation": 2},
        {"desired": "stopped"},
        {"phase": Phase.STARTING},
        {"launch": 2},
    ],
)
def test_e7_who_does_not_gets_a_step(told_of_silence, values):
    thing, there = told_of_silence(**values)
    assert observe.store("local", [there], full=True) == [("thing", thing.pk)]


def test_e7_what_changed_meanwhile_gets_a_step(told_of_silence):
    thing, there = told_of_silence()
    gone = replace(there, seen=Seen.STARTING, reason=Reason.REPLACED, version=6)
    assert ("thing", thing.pk) in observe.store("local", [gone], full=True)
    thing.refresh_from_db()
    assert thing.reason == Reason.UNREACHABLE


def test_e7_who_is_being_looked_at_is_left_to_that_look(told_of_silence):
    thing, there = told_of_silence(lease_until=now() + timedelta(seconds=60))
    observe.store("local", [there], full=True)
    thing.refresh_from_db()
    assert thing.reason == Reason.UNREACHABLE


def test_e11_rows_that_think_they_live_are_looked_at_after_a_restore(make_thing):
    lost = make_thing(next_reconcile_at=None, phase=Phase.RUNNING)
    stopped = make_thing(next_reconcile_at=None, phase=Phase.STOPPED)
    assert observe.store("local", [], full=True) == [("thing", lost.pk)]
    stopped.refresh_from_db()
    assert stopped.next_reconcile_at is None


def test_an_observation_comes_back_whole(make_thing):
    thing = make_thing()
    sent = seen(thing, Seen.EXITED, 3, exit_code=137, reason="oom", detail={"pid": 7})
    observe.store("local", [sent], full=False)
    assert observe.observation_of(ObservedWorkload.objects.get()) == sent


def test_a_lease_has_one_holder_and_a_growing_fence(db):
    first = leases.acquire("watch:x", ttl_s=30)
    assert leases.acquire("watch:x", ttl_s=30) is None
    assert first.renew()
    Lease.objects.filter(name="watch:x").update(until=now())
    second = leases.acquire("watch:x", ttl_s=30)
    assert second.fence == first.fence + 1
    assert not first.renew()
    assert not first.is_mine()
    first.release()  # of no effect: it is not ours any more
    assert second.is_mine()


@pytest.fixture
def watching(transactional_db):
    """A real watcher and a real pool over the fake machine."""
    services.ensure_local_cluster()
    pool = Pool(threads=2)
    watcher = observe.Watcher("local", pool.submit)
    watcher.start()
    yield watcher
    watcher.stop()
    watcher.join(60)
    assert pool.drain(60)


def wait_for(check, seconds=30.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if check():
            return True
        threading.Event().wait(0.005)
    return False


def test_ready_opens_the_route_within_moments(watching, monkeypatch):
    driver, router = registry.driver_for("local"), registry.router()
    driver.script("*", never_ready=True)
    from runtime import engine

    assert wait_for(lambda: observe.is_watched("local"))

    def opened_within():
        thing = Thing.objects.create(next_reconcile_at=now())
        engine.reconcile_one("thing", thing.pk)
        seen_of = ObservedWorkload.objects.filter(uid=thing.uid)
        assert wait_for(lambda: seen_of.filter(seen=Seen.STARTING).exists())
        before = time.monotonic()
        driver.make_ready(thing.uid)
        assert wait_for(lambda: f"/thing-{thing.uid}" in router.list())
        opened = time.monotonic() - before
        assert wait_for(lambda: Thing.objects.get(pk=thing.pk).phase == Phase.RUNNING)
        return opened

    # The real figure is measured in benchmarks. The machine may be busy: the best of some counts.
    assert any(opened_within() < 0.5 for _ in range(5))


def test_an_exit_is_seen_without_anybody_asking(watching):
    driver = registry.driver_for("local")
    thing = Thing.objects.create(next_reconcile_at=now())
    from runtime import engine

    engine.reconcile_one("thing", thing.pk)
    assert wait_for(lambda: Thing.objects.get(pk=thing.pk).phase == Phase.RUNNING)
    driver.exit(thing.uid, code=1)
    assert wait_for(lambda: Thing.objects.get(pk=thing.pk).phase == Phase.FAILED)
    assert not Route.objects.exists()


def test_only_one_process_watches_a_cluster(watching):
    assert wait_for(lambda: observe.is_watched("local"))
    assert leases.acquire("watch:local", ttl_s=5) is None


def test_who_watches_knows_so_without_asking(watching, monkeypatch):

    def knows_for_longer_than_what_was_read() -> bool:
        until, _known = observe._watched.get("local", (0.0, False))
        return until > time.monotonic() + observe._WATCHED_CACHE_S

    assert wait_for(knows_for_longer_than_what_was_read)
    with monkeypatch.context() as patched:
        patched.setattr(observe, "Lease", None)  # nothing is read of it
        threading.Event().wait(1.5 * observe._WATCHED_CACHE_S)
        assert observe.is_watched("local")
    watching.stop()
    watching.join(60)
    assert not observe.is_watched("local")


def test_a_silent_watch_is_known_to_be_dead(watching):
    assert wait_for(lambda: watching._held is not None)
    assert not watching.is_dead

    def dead_once_it_was_silent():
        watching.last_beat -= observe.DEAD_AFTER_S + 1
        return watching.is_dead  # unless it beat just then

    assert wait_for(dead_once_it_was_silent)


def test_e7_a_watch_that_tries_again_and_again_is_not_dead(transactional_db):
    services.ensure_local_cluster()
    driver = registry.driver_for("local")
    driver.fail("watch", "unreachable", times=1)
    watcher = observe.Watcher("local", lambda kind, pk: None)
    watcher.last_beat -= observe.DEAD_AFTER_S + 1
    assert watcher._once(0.5) <= observe.RETRY_MAX_S
    assert time.monotonic() - watcher.last_beat < observe.DEAD_AFTER_S


def test_e7_what_runs_is_said_to_be_old_when_the_watch_gives_up(transactional_db, monkeypatch):
    services.ensure_local_cluster()
    registry.driver_for("local").fail("watch", "unreachable", times=observe.SILENT_AFTER)
    heard = []
    monkeypatch.setattr(bus, "publish", lambda topics, _said: heard.extend(topics))
    as_is = {"next_reconcile_at": None, "observed_generation": 1, "launch": 1}
    runs = Thing.objects.create(phase=Phase.RUNNING, **as_is)
    others = [
        Thing.objects.create(phase=Phase.STARTING, **as_is),
        Thing.objects.create(phase=Phase.RUNNING, **{**as_is, "observed_generation": 0}),
        Thing.objects.create(phase=Phase.RUNNING, desired="stopped", **as_is),
        Thing.objects.create(phase=Phase.RUNNING, cluster_key="other", **as_is),
        Thing.objects.create(phase=Phase.RUNNING, lease_until=now() + timedelta(60), **as_is),
    ]
    watcher = observe.Watcher("local", lambda kind, pk: None)
    watcher._once(0.5)
    runs.refresh_from_db()
    assert runs.reason == ""  # a connection was cut, which happens
    watcher._once(0.5)
    runs.refresh_from_db()
    assert (runs.phase, runs.reason) == (Phase.RUNNING, Reason.UNREACHABLE)
    assert runs.message
    assert f"thing:{runs.uid}" in heard
    assert not {f"thing:{other.uid}" for other in others} & set(heard)
    for other in others:
        other.refresh_from_db()
        assert other.reason == ""


def test_an_unreachable_machine_is_watched_again_when_it_is_back(transactional_db):
    services.ensure_local_cluster()
    driver = registry.driver_for("local")
    driver.fail("watch", "unreachable", times=1)
    watcher = observe.Watcher("local", lambda kind, pk: None)
    watcher.start()
    try:
        assert wait_for(lambda: driver.calls("watch") >= 3)
    finally:
        watcher.stop()
        watcher.join(60)


def test_a_cluster_that_an_operator_changed_is_watched_anew(transactional_db):
    """What is followed depends on its options (a queue): not on a restart of the worker."""
    services.ensure_local_cluster()
    before = registry.driver_for("local")
    watcher = observe.Watcher("local", lambda kind, pk: None)
    watcher.start()
    try:
        assert wait_for(lambda: before.calls("watch") >= 1)
        registry.forget("local")
        after = registry.driver_for("local")
        assert after is not before
        assert wait_for(lambda: after.calls("watch") > before.calls("watch"))
    finally:
        watcher.stop()
        watcher.join(60)


class TestRoutes:
    def test_a_restarted_proxy_gets_its_routes_back_at_the_next_look(
        self, make_thing, settle, router
    ):
        thing = settle(make_thing())
        keeper = routes.Keeper()
        keeper.tick()
        router.restart()
        assert router.list() == {}
        keeper.tick()
        assert list(router.list()) == [f"/thing-{thing.uid}"]

    def test_a_route_that_nobody_wants_is_dropped_and_a_wrong_one_put_right(
        self, make_thing, settle, router
    ):
        from runtime.routers.base import RouteEntry

        thing = settle(make_thing())
        key = f"/thing-{thing.uid}"
        right = router.list()[key]
        router.put(RouteEntry("/stranger", "http://127.0.0.1:1", str(thing.uid)))
        router.put(RouteEntry(key, "http://127.0.0.1:2", str(thing.uid)))
        assert routes.resync(router) == routes.Repair(put=1, dropped=1)
        assert router.list() == {key: right}
        assert routes.resync(router) == routes.Repair()

    def test_many_routes_are_put_back_side_by_side(self, db, router):
        from uuid import uuid4

        Route.objects.bulk_create(
            Route(key=f"/r{i}", uid=uuid4(), target="http://127.0.0.1:9") for i in range(60)
        )
        assert routes.resync(router).put == 60

    def test_a_quiet_proxy_is_only_asked_for_its_epoch(
        self, make_thing, settle, router, django_assert_num_queries
    ):
        settle(make_thing())
        keeper = routes.Keeper()
        keeper.tick()
        with django_assert_num_queries(0):
            keeper.tick()

    def test_a_proxy_that_does_not_answer_is_counted_and_tried_again(self, db, router):
        keeper = routes.Keeper()
        router.down = True
        assert keeper.tick() == 1
        router.down = False
        assert keeper.tick() == 0


def test_replicas_are_kept_as_they_were_told_and_a_lone_workload_keeps_none(make_thing):
    thing, alone = make_thing(next_reconcile_at=None), make_thing(next_reconcile_at=None)
    replicas = (
        ReplicaSeen(0, "worker", Seen.READY, node="n1", pod="p-0", started_at=5.0),
        ReplicaSeen(1, "worker", Seen.EXITED, exit_code=3, reason="exit", ended_at=9.0),
    )
    told = seen(thing, Seen.READY, 5, replicas=replicas)
    observe.store("local", [told, seen(alone, Seen.READY, 6)], full=True)
    row = ObservedWorkload.objects.get(uid=thing.uid)
    assert observe.observation_of(row) == told
    assert "replicas" not in ObservedWorkload.objects.get(uid=alone.uid).data
    again = [replace(told, version=7), seen(alone, Seen.READY, 8)]  # numbered anew: no news
    assert observe.store("local", again, full=True) == []
    assert ObservedWorkload.objects.get(uid=thing.uid).version == 5


def test_a_replicas_own_news_wakes_only_a_kind_that_reads_replicas(make_thing, monkeypatch):
    thing = make_thing(next_reconcile_at=None)

    def told(version, second):
        each = (ReplicaSeen(0, seen=Seen.READY), ReplicaSeen(1, seen=second))
        return observe.store(
            "local", [seen(thing, Seen.STARTING, version, replicas=each)], full=False
        )

    told(1, Seen.CREATED)
    assert told(2, Seen.STARTING) == []
    monkeypatch.setattr(ThingReconciler, "reads_replicas", True)
    assert told(3, Seen.READY) == [("thing", thing.pk)]
