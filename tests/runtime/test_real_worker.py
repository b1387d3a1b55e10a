"""The process ``worker`` itself: woken by messages, killed, ended, cut from its broker."""

import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PATIENCE_S = 60  # with a machine that is busy
# A living worker may be looking at a row at any moment, so "leased" says nothing here.
RUNNING = {"phase": "running", "seen": "ready", "route": True, "starts": [1]}


@pytest.fixture
def worker(portal, tmp_path):
    """Start workers; what still runs at the end is killed, by pid."""
    started = []

    def start(*, ready="ready.", **env):
        log = tmp_path / f"worker-{len(started)}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                [sys.executable, "-W", "ignore", "-m", "portal.server.worker"],
                cwd=ROOT,
                env={**portal.env, **env},
                stdout=out,
                stderr=out,
            )
        process.log = log
        started.append(process)
        until(lambda: ready in log.read_text() or process.poll() is not None)
        return process

    yield start
    for process in started:
        if process.poll() is None:
            process.kill()
            process.wait()


def until(check):
    end = time.monotonic() + PATIENCE_S
    while not check():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.05)


def only(audits, **expected):
    for found in audits:
        assert {k: found[k] for k in expected} == expected


@pytest.mark.real
def test_a_wake_up_reaches_the_worker_and_stop_follows(portal, worker):
    portal.migrate()
    worker()
    (pk,) = portal.scenario("launch")
    only(portal.scenario("wait", "running"), **RUNNING)
    portal.scenario("intend", pk, "stopped")
    only(portal.scenario("wait", "stopped"), phase="stopped", seen="exited", claims=0)


@pytest.mark.real
def test_e3_work_that_was_asked_for_while_no_worker_ran_is_found(portal, worker):
    portal.migrate()
    portal.scenario("launch", 3)  # nobody hears it
    worker()
    only(portal.scenario("wait", "running"), **RUNNING)


@pytest.mark.real
@pytest.mark.parametrize("point", ["ensured", "applied"])
def test_e1_a_killed_worker_is_followed_by_another_one(portal, worker, point):
    portal.migrate()
    victim = worker(BERTH_KILLPOINT=point)
    portal.scenario("launch")
    assert victim.wait(PATIENCE_S) == -signal.SIGKILL
    worker()
    only(portal.scenario("wait", "running"), **RUNNING)


@pytest.mark.real
def test_e20_sigterm_ends_the_step_that_runs_and_leaves_the_rest(portal, worker):
    portal.migrate()
    old = worker()
    portal.scenario("launch", 30)
    old.terminate()
    assert old.wait(PATIENCE_S) == 0
    assert '"drained": true' in old.log.read_text()
    worker()
    only(portal.scenario("wait", "running"), **RUNNING)


@pytest.mark.real
@pytest.mark.parametrize("ready", ["beat: Starting", "worker.ready"])
def test_e20_sigterm_before_celery_listens_drains_too(portal, worker, ready):
    portal.migrate()
    young = worker(ready=ready)
    young.terminate()
    assert young.wait(PATIENCE_S) == 0
    assert '"drained": true' in young.log.read_text()


BEGUN = """
import sys
import django
django.setup()
from portal.celery import prepare_broker
from portal.server.duties import Worker
prepare_broker()
worker = Worker()
worker._told_early()  # it ends as soon as it would listen
worker.celery()
found = [name in sys.modules for name in ("celery.worker.consumer", "portal.urls")]
print(*found, file=sys.__stdout__)  # Celery has taken the other one for its log
"""


@pytest.mark.real
def test_a_worker_reads_no_pages_before_it_works(portal):
    """They are a third of what its start computes, beside the first look at what went meanwhile."""
    portal.env["DJANGO_SETTINGS_MODULE"] = "portal.settings.dev"  # the others have no pages
    assert portal.run("-W", "ignore", "-c", BEGUN).split() == ["True", "False"]


LOADED = """
import gc
from portal.server import preflight
turns = []
gc.callbacks.append(lambda phase, _: turns.append(phase))
preflight.setup()
print(len(turns) < 10, gc.get_freeze_count() > 50_000)
"""


@pytest.mark.real
def test_the_collector_waits_while_a_process_loads_all_of_berth(portal):
    portal.env["DJANGO_SETTINGS_MODULE"] = "portal.settings.dev"
    assert portal.run("-W", "ignore", "-c", LOADED).split() == ["True", "True"]


@pytest.mark.real
def test_celery_on_the_embedded_broker_wakes_and_leaves_strange_messages(portal, worker):
    portal.env["BERTH_TEST_NO_BUS"] = "1"
    portal.migrate()
    one = worker()
    portal.scenario("old")
    portal.scenario("launch")
    only(portal.scenario("wait", "running"), **RUNNING)
    until(lambda: "task.payload_ignored" in one.log.read_text())  # E14
    assert "runtime.reconcile_one" in one.log.read_text()
    assert one.poll() is None


@pytest.mark.redis
def test_celery_on_redis_wakes_and_leaves_strange_messages(portal, worker, redis_url):
    import redis

    redis.Redis.from_url(redis_url).flushdb()
    portal.env["BERTH_REDIS_URL"] = redis_url
    portal.migrate()
    one = worker()
    portal.scenario("old")
    portal.scenario("launch", 5)
    only(portal.scenario("wait", "running"), **RUNNING)
    until(lambda: "task.payload_ignored" in one.log.read_text())
    assert "runtime.reconcile_one" in one.log.read_text()


@pytest.mark.redis
def test_e4_a_redis_that_is_emptied_before_and_beside_a_worker_loses_no_work(
    portal, worker, redis_url
):
    import redis

    store = redis.Redis.from_url(redis_url)
    store.flushall()
    portal.env["BERTH_REDIS_URL"] = redis_url
    portal.migrate()
    portal.scenario("launch", 3)
    assert store.llen("default"), "nobody hears of it yet, so it lies in the queue"
    store.flushall()
    one = worker()
    only(portal.scenario("wait", "running"), **RUNNING)
    store.flushall()
    portal.scenario("launch", 3)
    only(portal.scenario("wait", "running"), **RUNNING)
    assert one.poll() is None


@pytest.mark.real
def test_e5_a_redis_that_hangs_bounds_the_request_and_the_sweep_does_the_work(portal, worker):
    with socket.socket() as deaf:  # accepts and never answers
        deaf.bind(("127.0.0.1", 0))
        deaf.listen(64)
        portal.migrate()
        portal.env["BERTH_REDIS_URL"] = f"redis://127.0.0.1:{deaf.getsockname()[1]}/0"

        def took():
            before = time.monotonic()
            portal.scenario("launch", 0)
            start = time.monotonic() - before  # of Python, on a machine that may be busy
            before = time.monotonic()
            portal.scenario("launch", 5)
            return time.monotonic() - before - start

        assert any(took() < 6 for _ in range(3)), "five launches; only the first one may wait"
        worker(ready="worker.ready")
        only(portal.scenario("wait", "running"), **RUNNING)


@pytest.mark.postgres
def test_e6_a_restart_of_postgresql_delays_and_loses_nothing(postgres_portal, worker):
    import psycopg

    postgres_portal.migrate()
    one = worker()
    postgres_portal.scenario("launch", 5)
    url = postgres_portal.env["BERTH_DATABASE_URL"]
    with psycopg.connect(url, autocommit=True) as admin:
        for _ in range(3):  # what a restart does to every connection
            admin.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            time.sleep(0.2)
    postgres_portal.scenario("launch", 5)
    only(postgres_portal.scenario("wait", "running"), **RUNNING)
    assert one.poll() is None
