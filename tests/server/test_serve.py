"""Each process by itself, as containers start it: PostgreSQL and Redis, any order, one migration."""

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from portal.server import installation as secrets_made
from portal.server.paths import UNLIKE
from tests.support.portal import ROOT, free_ports

SERVE = [sys.executable, "-m", "portal.server", "serve"]
WITHIN_S = 180  # how long a machine may be busy with other work before something is said to hang


class Installation:
    """Processes on a database of their own; everything ends with ``close``."""

    def __init__(self, env: dict[str, str]) -> None:
        self.env = env
        self.processes: list[subprocess.Popen[bytes]] = []

    def start(self, *words: str, **env: str) -> "subprocess.Popen[bytes]":
        process = subprocess.Popen(
            [*SERVE, *words],
            cwd=ROOT,
            env={**self.env, **env},
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.processes.append(process)
        return process

    def close(self) -> None:
        for process in self.processes:
            if process.poll() is None:
                process.kill()
            process.wait()
            if process.stdout:
                process.stdout.close()


@pytest.fixture
def installation(tmp_path: Path, fresh_postgres: str) -> Iterator[Installation]:
    """Nothing is there yet."""
    yield from on(fresh_postgres, tmp_path)


@pytest.fixture
def migrated(tmp_path: Path, migrated_postgres: str) -> Iterator[Installation]:
    """The same, and nearly all that its first migration would compute for is done."""
    yield from on(migrated_postgres, tmp_path)


def on(database: str, folder: Path) -> Iterator[Installation]:
    redis = os.environ.get("BERTH_TEST_REDIS")
    if not redis:
        pytest.skip("BERTH_TEST_REDIS is not set")
    port = free_ports(8)
    plain = {k: v for k, v in os.environ.items() if not k.startswith(("BERTH_", "DJANGO_"))}
    one = Installation(
        {
            **plain,
            **secrets_made.made(),
            "BERTH_VAR": str(folder / "var"),
            "BERTH_DATABASE_URL": database,
            "BERTH_REDIS_URL": redis,
            "BERTH_PORT": str(port),
            "BERTH_PUBLIC_URL": f"http://localhost:{port}",
            "BERTH_HEALTH_PORT": str(port + 7),
            "BERTH_ADMIN_PASSWORD": "a password that the operator chose",
        }
    )
    try:
        yield one
    finally:
        one.close()


def answers(url: str, status: int = 200) -> httpx.Response:
    end = time.monotonic() + WITHIN_S
    last: Any = None
    while time.monotonic() < end:
        with suppress(httpx.HTTPError):
            last = httpx.get(url, trust_env=False, timeout=30)
            if last.status_code == status:
                return last
        time.sleep(0.1)
    raise AssertionError(f"{url} did not answer {status}: {last and last.text}")


@pytest.mark.real
@pytest.mark.postgres
@pytest.mark.redis
def test_processes_started_in_any_order_wait_for_one_migration_and_drain_at_the_end(
    installation: Installation,
) -> None:
    web, worker = installation.start("web"), installation.start("worker")
    first, second = installation.start("migrate"), installation.start("migrate")
    assert (first.wait(WITHIN_S), second.wait(WITHIN_S)) == (0, 0)
    url = installation.env["BERTH_PUBLIC_URL"]
    ready = answers(f"{url}/readyz").json()
    assert ready["checks"]["database"] == ready["checks"]["migrations"] == "ok"
    answers(f"http://127.0.0.1:{installation.env['BERTH_HEALTH_PORT']}/readyz")
    answers(f"http://127.0.0.1:{int(url.rpartition(':')[2]) + 2}/hub/api")
    assert installation.start("check").wait(WITHIN_S) == 0
    with httpx.Client(base_url=url, trust_env=False, timeout=60) as browser:
        page = browser.get("/accounts/login/")
        sent = browser.post(
            "/accounts/login/",
            data={
                "login": "admin",
                "password": installation.env["BERTH_ADMIN_PASSWORD"],
                "csrfmiddlewaretoken": browser.cookies["berth_csrf"],
            },
        )
        assert (page.status_code, sent.status_code) == (200, 302), sent.text[:500]
    for process in (web, worker):
        process.terminate()
    assert (web.wait(WITHIN_S), worker.wait(WITHIN_S)) == (0, 0)
    out = web.stdout.read() if web.stdout else b""
    lines = [json.loads(line) for line in out.splitlines()]
    assert lines, "logs are JSON on standard output"


@pytest.mark.real
@pytest.mark.postgres
@pytest.mark.redis
@pytest.mark.long("the same of SQLite: server/test_installation.py")
def test_an_empty_database_beside_a_record_is_not_migrated_and_others_secrets_start_nothing(
    migrated: Installation,
) -> None:
    assert migrated.start("migrate").wait(WITHIN_S) == 0
    others = {"BERTH_SECRET_KEY": "another installation's " * 3}
    assert migrated.start("web", **others).wait(WITHIN_S) == UNLIKE
    assert migrated.start("migrate", **others).wait(WITHIN_S) == UNLIKE
    import psycopg

    with psycopg.connect(migrated.env["BERTH_DATABASE_URL"], autocommit=True) as database:
        database.execute("DROP SCHEMA public CASCADE")
        database.execute("CREATE SCHEMA public")
        assert migrated.start("migrate").wait(WITHIN_S) == UNLIKE
        asked = "SELECT count(*) FROM information_schema.tables WHERE table_schema = 'public'"
        assert database.execute(asked).fetchone() == (0,)


def test_the_secret_of_the_keys_records_which_installation_it_is(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any
) -> None:
    kept: dict[str, str] = {"BERTH_SECRET_KEY": "b2xk"}

    def ask(method: str, path: str, body: Any = None) -> tuple[int, dict[str, Any]]:
        assert path.endswith("/namespaces/berth/secrets/berth-secrets")
        if method == "PATCH":
            kept.update(body["data"])
        return 200, {"data": kept}

    (tmp_path / "namespace").write_text("berth")
    monkeypatch.setattr(secrets_made, "ACCOUNT", tmp_path)
    monkeypatch.setattr(secrets_made, "_ask", ask)
    record = secrets_made.SecretRecord("berth-secrets")
    assert record.read() == ""
    record.write("which-one")
    assert record.read() == "which-one"
    assert kept["BERTH_SECRET_KEY"] == "b2xk"


@pytest.mark.real
@pytest.mark.postgres
@pytest.mark.redis
def test_web_goes_on_answering_while_the_load_balancer_looks_away(
    migrated: Installation,
) -> None:
    assert migrated.start("migrate").wait(WITHIN_S) == 0
    web = migrated.start("web", BERTH_DRAIN_SECONDS="15")
    url = f"{migrated.env['BERTH_PUBLIC_URL']}/livez"
    answers(url)
    web.terminate()
    time.sleep(1.5)
    assert web.poll() is None
    assert httpx.get(url, trust_env=False, timeout=30).status_code == 200
    assert web.wait(WITHIN_S) == 0


def test_generated_secrets_are_lines_for_an_environment_file_and_differ_each_time() -> None:
    done = [
        subprocess.run([*SERVE, "secrets"], cwd=ROOT, capture_output=True, text=True, check=True)
        for _ in range(2)
    ]
    first, second = (dict(one.stdout_lines) for one in map(Lines, done))
    assert {"BERTH_SECRET_KEY", "BERTH_PROXY_TOKEN", "POSTGRES_PASSWORD"} <= first.keys()
    assert all(first[name] != second[name] for name in first)


class Lines:
    def __init__(self, done: "subprocess.CompletedProcess[str]") -> None:
        self.stdout_lines = [line.split("=", 1) for line in done.stdout.splitlines()]


@pytest.mark.parametrize(
    ("have", "written"),
    [(None, "POST"), ({"BERTH_SECRET_KEY": "b2xk"}, "PATCH"), ("everything", None)],
)
def test_a_generated_secret_in_the_cluster_is_only_added_to(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Any, have: Any, written: str | None
) -> None:
    """The API server here is a stub of three answers; the chart's test has the real one."""
    calls: list[tuple[str, dict[str, Any]]] = []
    if have == "everything":
        have = dict.fromkeys([*secrets_made.made(), "BERTH_SSH_HOST_KEY"], "b2xk")

    def ask(method: str, path: str, body: Any = None) -> tuple[int, dict[str, Any]]:
        if method != "GET":
            calls.append((method, body))
            return 200, {}
        return (404, {}) if have is None else (200, {"data": have})

    (tmp_path / "namespace").write_text("berth")
    monkeypatch.setattr(secrets_made, "ACCOUNT", tmp_path)
    monkeypatch.setattr(secrets_made, "_ask", ask)
    assert secrets_made.into_secret("berth") == 0
    assert [method for method, _ in calls] == ([written] if written else [])
    if written == "PATCH":
        assert "BERTH_SECRET_KEY" not in calls[0][1]["data"]


def test_the_workers_probes_name_the_duty_that_shows_no_sign_of_life() -> None:
    from portal.server import worker

    silent: list[str] = []
    server = worker.start_probes("127.0.0.1", 0, lambda: silent)
    url = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        assert httpx.get(f"{url}/livez", trust_env=False, timeout=30).status_code == 200
        silent.append("routes")
        answer = httpx.get(f"{url}/readyz", trust_env=False, timeout=30)
        assert (answer.status_code, "routes" in answer.text) == (503, True)
        assert httpx.get(f"{url}/metrics", trust_env=False, timeout=30).status_code == 404
    finally:
        server.shutdown()
        server.server_close()


def test_a_duty_that_hangs_in_one_turn_becomes_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    from portal.server import loops

    held = threading.Event()
    hang: Callable[[], object] = held.wait
    loop = loops.Loop("stuck", hang, 1.0)
    loop.start()
    try:
        assert not loop.is_silent
        monkeypatch.setattr(loops, "SILENT_S", 0.05)
        end = time.monotonic() + 60
        while not loop.is_silent:
            assert time.monotonic() < end
            time.sleep(0.05)
    finally:
        loop.stop()
        held.set()
        loop.join(2)


def test_a_duty_that_sleeps_for_hours_is_not_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    from portal.server import loops

    monkeypatch.setattr(loops, "SILENT_S", 0.05)
    acted = threading.Event()
    loop = loops.Loop("rare", acted.set, 3600.0)
    loop.start()
    try:
        assert acted.wait(60)
        time.sleep(0.2)
        assert not loop.is_silent
    finally:
        loop.stop()
        loop.join(2)


def test_a_duty_that_nobody_waits_for_begins_later_and_ends_at_once() -> None:
    from portal.server import loops

    acted = threading.Event()
    late = loops.Loop("late", acted.set, 60.0, first_s=0.3)
    never = loops.Loop("never", acted.clear, 60.0, first_s=3600.0)
    begun = time.monotonic()
    late.start()
    never.start()
    try:
        assert acted.wait(60)
        assert time.monotonic() - begun >= 0.3
    finally:
        late.stop()
        never.stop()
        begun = time.monotonic()
        late.join(60)
        never.join(60)
    assert time.monotonic() - begun < 30
    assert acted.is_set()


def test_a_duty_that_sleeps_keeps_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seventeen duties that kept theirs left none of the pool's twelve for the engine."""
    from portal.server import loops

    order: list[str] = []
    slept = threading.Event()

    def let_go() -> None:
        order.append("let go")
        if len(order) == 3:
            slept.set()

    def act() -> None:
        order.append("act")
        raise ValueError

    monkeypatch.setattr(loops, "close_old_connections", let_go)
    loop = loops.Loop("short", act, 60.0)
    loop.start()
    try:
        assert slept.wait(60)
        assert order == ["let go", "act", "let go"]
    finally:
        loop.stop()
        loop.join(2)


@pytest.mark.parametrize("when", ["start", "celery", "stop"])
def test_a_worker_that_is_told_while_it_begins_drains_to_its_end(
    when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from celery.worker import state

    from portal.server import duties

    worker = duties.Worker()
    done = []

    def duty(name: str) -> None:
        if name == when:
            signal.raise_signal(signal.SIGTERM)
        done.append(name)

    for name in ("start", "celery", "stop"):
        monkeypatch.setattr(worker, name, lambda name=name: duty(name))
    monkeypatch.setattr(state, "should_stop", None)
    before = signal.getsignal(signal.SIGTERM)
    try:
        assert worker.run() == 0
    finally:
        signal.signal(signal.SIGTERM, before)
    assert done == [
        name for name in ("start", "celery", "stop") if (when, name) != ("start", "celery")
    ]
    with pytest.raises(state.WorkerShutdown):  # what Celery asks each time round
        state.maybe_shutdown()


def test_the_command_knows_every_process_that_can_be_served() -> None:
    from portal.server.main import SERVED
    from portal.server.serve import PROCESSES

    assert set(SERVED) == {*PROCESSES, "migrate", "secrets"}
