"""Celery only wakes: its messages may be lost, doubled, old, or impossible to send."""

import time
from types import SimpleNamespace

import pytest
import redis
from celery import current_app

from common import tasks as base
from common.clock import now
from runtime import bus, hints, tasks
from runtime.bus import EngineEar
from runtime.protocol import Phase
from tests.engineapp.models import Thing


@pytest.fixture(autouse=True)
def _rested(monkeypatch):
    monkeypatch.setattr(base, "_rest_until", 0.0)


@pytest.fixture
def sent(monkeypatch):
    """What would have reached the broker."""
    out = []
    monkeypatch.setattr(
        "celery.app.task.Task.apply_async",
        lambda self, args=None, kwargs=None, **options: out.append((self.name, args)),
    )
    return out


def test_e3_a_message_goes_out_after_the_commit_only(db, sent, django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks(execute=True):
        tasks.reconcile_one.delay("thing", 1)
        assert sent == []
    assert sent == [("runtime.reconcile_one", ("thing", 1))]


def test_e3_sending_before_the_commit_is_refused(db):
    with pytest.raises(RuntimeError, match="before the commit"):
        tasks.reconcile_one.apply_async(args=("thing", 1))


def test_e3_a_hint_marks_the_row_due_and_wakes_after_the_commit(
    make_thing, sent, django_capture_on_commit_callbacks
):
    thing = make_thing(next_reconcile_at=None)
    with django_capture_on_commit_callbacks(execute=True):
        hints.hint(thing)
    thing.refresh_from_db()
    assert thing.next_reconcile_at <= now()
    assert sent == [("runtime.reconcile_one", ("thing", thing.pk))]


def test_e5_a_broken_broker_costs_nothing_and_is_left_in_peace_for_a_while(
    db, monkeypatch, django_capture_on_commit_callbacks
):
    tries = []

    def broken(self, *args, **kwargs):
        tries.append(1)
        message = "no broker"
        raise ConnectionError(message)

    monkeypatch.setattr("celery.app.task.Task.apply_async", broken)
    monkeypatch.setattr(base, "time", SimpleNamespace(monotonic=lambda: 1000.0))
    with django_capture_on_commit_callbacks(execute=True):
        for _ in range(5):
            tasks.wake("thing", 1)
    assert len(tries) == 1


def test_e3_a_lost_message_is_made_good_by_the_sweep(make_thing):
    thing = make_thing()
    tasks.sweep.run()
    thing.refresh_from_db()
    assert thing.phase == Phase.RUNNING


def test_e2_a_doubled_or_late_message_has_one_effect(make_thing, driver):
    thing = make_thing()
    for _ in range(3):
        tasks.reconcile_one.run("thing", thing.pk)
    assert driver.calls("ensure") == 1
    assert Thing.objects.get().phase == Phase.RUNNING


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((), {}),
        (("thing",), {}),
        (("no-such-kind", 1), {}),
        (("thing", "seven"), {}),
        (("thing", None), {}),
        ((["thing"], 1), {}),
        (("thing", 999_999), {}),
        ((), {"kind": "thing", "pk": 999_999, "of_the_future": True}),
    ],
)
def test_e14_a_payload_of_another_version_is_left_to_the_sweep(db, args, kwargs):
    tasks.reconcile_one.run(*args, **kwargs)


def test_e14_new_arguments_by_name_are_understood(make_thing):
    thing = make_thing()
    tasks.reconcile_one.run(kind="thing", pk=thing.pk, hint="later version")
    assert Thing.objects.get().phase == Phase.RUNNING


def until(holds):
    """Wait for what another thread does."""
    end = time.monotonic() + 60
    while not holds() and time.monotonic() < end:
        time.sleep(0.01)


def test_on_one_machine_a_wake_up_goes_straight_to_the_worker(
    db, tmp_path, settings, monkeypatch, sent
):
    settings.BERTH_BUS, settings.BERTH_BUS_DIR = "unix", tmp_path
    heard = []
    ear = EngineEar(lambda kind, pk: heard.append((kind, pk)))
    ear.start()
    try:
        tasks.wake("thing", 7)
        until(lambda: heard)
    finally:
        ear.stop()
    assert heard == [("thing", 7)]
    assert sent == []
    assert list(tmp_path.iterdir()) == []


@pytest.mark.redis
def test_over_redis_a_wake_up_goes_to_a_worker_whoever_else_listens(
    db, settings, sent, redis_url, django_capture_on_commit_callbacks
):
    """Open pages and the gate listen too; they were counted, and no worker heard of it."""
    settings.BERTH_BUS, settings.BERTH_REDIS_URL = "redis", redis_url
    page = redis.Redis.from_url(redis_url).pubsub()
    page.subscribe("berth:bus")
    assert page.get_message(timeout=30)["type"] == "subscribe"
    try:
        by_celery = [("runtime.reconcile_one", ("thing", 6))]
        with django_capture_on_commit_callbacks(execute=True):
            tasks.wake("thing", 6)
        assert sent == by_celery  # no worker listens
        heard = []
        ear = EngineEar(lambda kind, pk: heard.append((kind, pk)))
        ear.start()
        try:
            until(lambda: bus.send([bus.ENGINE_TOPIC], {"kind": "thing", "pk": 7}))
            with django_capture_on_commit_callbacks(execute=True):
                tasks.wake("thing", 8)
            until(lambda: len(heard) == 2)
        finally:
            ear.stop()
        ear._thread.join(60)
        assert not ear._thread.is_alive()
        assert heard == [("thing", 7), ("thing", 8)]
        assert sent == by_celery
    finally:
        page.close()


def test_every_task_of_the_portal_has_the_careful_base():
    current_app.loader.import_default_modules()
    ours = [t for name, t in current_app.tasks.items() if not name.startswith("celery.")]
    assert ours
    assert all(isinstance(t, base.CommittedTask) for t in ours)
