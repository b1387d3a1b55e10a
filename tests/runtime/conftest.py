import os
import subprocess
import sys
from pathlib import Path

import pytest

from clusters import registry
from common.clock import now
from runtime import hints
from runtime.models import Installation
from tests.engineapp.models import Note, Thing
from tests.support.django_shell import DjangoShell
from tests.support.driving import run_due
from tests.support.migrated import head_start, postgres_database
from tools.provision_tests import Services

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(autouse=True)
def _fresh_world():
    registry.reset()
    yield
    registry.reset()


@pytest.fixture
def own(db):
    """This installation."""
    return Installation.objects.get_or_create()[0]


@pytest.fixture
def driver(own):
    """The fake machine."""
    return registry.driver_for("local")


@pytest.fixture
def router(db):
    return registry.router()


@pytest.fixture
def make_thing(db):
    def make(**values):
        values.setdefault("next_reconcile_at", now())
        return Thing.objects.create(**values)

    return make


@pytest.fixture
def want():
    """Change intent as a service does."""

    def change(thing, desired, **values):
        from django.db.models import F

        if desired == "running" and "launch" not in values:
            values["launch"] = F("launch") + 1
        Thing.objects.filter(pk=thing.pk).update(
            desired=desired, generation=F("generation") + 1, **values
        )
        hints.hint(thing)
        thing.refresh_from_db()
        return thing

    return change


@pytest.fixture
def settle():
    """Run the engine until quiet and look again."""

    def run(*things):
        run_due()
        for thing in things:
            thing.refresh_from_db()
        return things[0] if len(things) == 1 else things

    return run


@pytest.fixture
def words():
    """The timeline of a launch."""

    def read(thing, launch=1):
        notes = Note.objects.filter(thing=thing, launch=launch).order_by("id")
        return list(notes.values_list("word", flat=True))

    return read


@pytest.fixture
def portal(tmp_path):
    """Environment of a portal of its own; run(*args) runs Python in it."""

    class Portal:
        shell = None
        env = {
            **{k: v for k, v in os.environ.items() if not k.startswith("BERTH_")},
            "DJANGO_SETTINGS_MODULE": "tests.engineapp.settings",
            "BERTH_VAR": str(tmp_path),
            "BERTH_SECRET_KEY": "a-key-for-tests-that-is-long-enough-to-be-one",
            "BERTH_LOCAL_DRIVER": "fake",
            "BERTH_ROUTER": "fake",
            "BERTH_FAKE_WORLD": str(tmp_path / "world"),
        }

        def run(self, *args, timeout=500):
            done = subprocess.run(
                [sys.executable, *args],
                cwd=ROOT,
                env=self.env,
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
            )
            assert done.returncode == 0, done.stderr[-4000:]
            return done.stdout

        def migrate(self):
            if "BERTH_DATABASE_URL" in self.env:
                self.run("manage.py", "migrate", "--run-syncdb", "-v0")
                return
            head_start(tmp_path / "berth.sqlite3", self.env["DJANGO_SETTINGS_MODULE"])

        def scenario(self, name, *args):
            """Run an act in a fork of one started Django: a start costs more than most acts."""
            if self.shell is not None and self.shell.env != self.env:
                self.close()
            if self.shell is None:
                self.shell = DjangoShell(self.env, tmp_path / "shell.log")
            words = [str(one) for one in args]
            code = f"from tests.engineapp.scenario import ACTS\nanswer = ACTS[{name!r}](*{words!r})"
            return self.shell.run(code)

        def close(self):
            if self.shell is not None:
                self.shell.close()
                self.shell = None

    made = Portal()
    yield made
    made.close()


@pytest.fixture
def postgres_portal(portal):
    """The same with a PostgreSQL database that is dropped afterwards."""
    with postgres_database(portal.env["DJANGO_SETTINGS_MODULE"]) as url:
        portal.env["BERTH_DATABASE_URL"] = url
        yield portal


@pytest.fixture(scope="session")
def redis_url(tmp_path_factory):
    """A server of these tests' own: a worker anywhere on a shared one would hear what they send."""
    if not os.environ.get("BERTH_TEST_REDIS"):
        pytest.skip("no Redis: BERTH_TEST_REDIS is not set")
    services = Services(tmp_path_factory.mktemp("services"))
    try:
        yield services.redis(services.folder / "redis")
    finally:
        services.stop()
