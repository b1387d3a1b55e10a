"""Migrated and empty databases, made once and copied: a migration of all apps takes twenty CPU seconds.

A copy is a head start, nothing more. Whoever gets one migrates it as before, which finds nothing
left to do or does what is missing.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import psycopg
import pytest

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "var" / "test-databases"
# All other settings have its apps and few of their own: theirs begins as a copy of it.
BASE = "portal.settings.dev"
# A database without the guard of the audit log can't be a copy of one with it otherwise.
MIGRATE = """
import django
django.setup()
from django.conf import settings
from django.core.management import call_command
from django.db import connection
from events import guard
call_command("migrate", run_syncdb=True, skip_checks=True, verbosity=0)
if not getattr(settings, "BERTH_AUDIT_GUARD", True):
    guard.remove(connection)
"""
WITHIN_S = 600
# what a migrated database follows from; a change of any makes it again
SOURCES = (
    "*/migrations/*.py",
    "events/guard.py",
    "portal/settings/*.py",
    "requirements/*.txt",
    "tests/engineapp/*.py",
    "tests/work/tiny/**/*.py",
)


def head_start(target: Path, settings: str) -> None:
    """Leave at ``target`` an SQLite file migrated under ``settings``, where there is none yet."""
    if target.exists():
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    fresh = target.with_name(f"{target.name}.{uuid.uuid4().hex}.new")
    try:
        for last in (False, True):
            try:
                shutil.copyfile(kept(settings), fresh)
                break
            except FileNotFoundError:  # another run, of other sources, put its own in the place
                if last:
                    raise
        fresh.replace(target)  # a copy that was cut off would be kept for the next run
    finally:
        fresh.unlink(missing_ok=True)


def beginning(folder: Path) -> None:
    """Leave the database of a portal of the developers' settings in its folder."""
    head_start(folder / "berth.sqlite3", "portal.settings.dev")


@contextmanager
def postgres_database(settings: str = "") -> Iterator[str]:
    """Give the URL of a database of its own, dropped afterwards; empty without ``settings``."""
    url = os.environ.get("BERTH_TEST_POSTGRES", "")
    if not url:
        pytest.skip("no PostgreSQL: BERTH_TEST_POSTGRES is not set")
    name = f"berth_{uuid.uuid4().hex[:12]}"
    with psycopg.connect(url, autocommit=True) as admin:
        _create(admin, url, name, settings)
        try:
            yield _beside(url, name)
        finally:
            admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)')


def _create(admin: psycopg.Connection, url: str, name: str, settings: str) -> None:
    for last in (False, True):
        origin = f' TEMPLATE "{_template(admin, url, settings)}"' if settings else ""
        try:
            admin.execute(f'CREATE DATABASE "{name}"{origin}')
        except psycopg.errors.InvalidCatalogName:  # a run of other sources dropped it meanwhile
            if last:
                raise
        else:
            return


def _beside(url: str, name: str) -> str:
    return f"{url.rpartition('/')[0]}/{name}"


def _template(admin: psycopg.Connection, url: str, settings: str) -> str:
    name = f"berth_{settings.replace('.', '_')}_{_fingerprint(settings)}"
    with _alone(f"postgres-{settings}"):
        there = admin.execute("SELECT 1 FROM pg_database WHERE datname = %s", (name,)).fetchone()
        if not there:
            fresh = f"{name}_new"
            admin.execute(f'DROP DATABASE IF EXISTS "{fresh}" WITH (FORCE)')
            is_kept = _dump(settings).exists() or settings == BASE
            origin = "" if is_kept else f' TEMPLATE "{_template(admin, url, BASE)}"'
            admin.execute(f'CREATE DATABASE "{fresh}"{origin}')
            _fill(_beside(url, fresh), settings)
            _drop_older(admin, settings)
            admin.execute(f'ALTER DATABASE "{fresh}" RENAME TO "{name}"')
    return name


def _dump(settings: str) -> Path:
    """Return where what PostgreSQL holds of a migrated one is kept: each run has a new server."""
    return KEPT / f"{settings}-{_fingerprint(settings)}.sql"


def _fill(url: str, settings: str) -> None:
    """Migrate it, or put in what was kept of one that was migrated."""
    made = _dump(settings)
    tools = shutil.which("pg_dump") and shutil.which("psql")
    if made.exists():
        _run("psql", "-q", "-X", "-v", "ON_ERROR_STOP=1", "-o", os.devnull, "-f", str(made), url)
        return
    with tempfile.TemporaryDirectory(prefix="berth-migrated-") as folder:
        _migrate(folder, settings, url)
    if tools:
        fresh = made.with_suffix(".new")
        _run("pg_dump", "-f", str(fresh), url)
        for old in KEPT.glob(f"{settings}-*.sql"):
            old.unlink(missing_ok=True)
        fresh.replace(made)


def _run(*command: str) -> None:
    done = subprocess.run(command, capture_output=True, text=True, timeout=WITHIN_S, check=False)
    assert done.returncode == 0, done.stderr[-4000:]


def _drop_older(admin: psycopg.Connection, settings: str) -> None:
    """Templates of other sources; one that is being copied just now stays for the next time."""
    pattern = f"^berth_{settings.replace('.', '_')}_[0-9a-f]{{16}}$"
    rows = admin.execute("SELECT datname FROM pg_database WHERE datname ~ %s", (pattern,))
    for (name,) in rows.fetchall():
        with suppress(psycopg.errors.ObjectInUse):
            admin.execute(f'DROP DATABASE IF EXISTS "{name}"')


def kept(settings: str) -> Path:
    """Return the file that is copied; made here, or waited for while another process makes it."""
    made = KEPT / f"{settings}-{_fingerprint(settings)}.sqlite3"
    if not made.exists():
        with _alone(settings):
            if not made.exists():
                _make(made, settings)
    return made


@contextmanager
def _alone(name: str) -> Iterator[None]:
    KEPT.mkdir(parents=True, exist_ok=True)
    with (KEPT / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _migrate(folder: str, settings: str, url: str = "") -> None:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("BERTH_", "DJANGO_"))}
    env |= {
        "BERTH_VAR": folder,
        "DJANGO_SETTINGS_MODULE": settings,
        "BERTH_SECRET_KEY": "only-for-a-database-that-is-empty-when-it-is-copied",
        # the settings of the tests and those of a server each know one of them
        "BERTH_DATABASE_URL": url,
        "BERTH_TEST_DATABASE_URL": url,
    }
    done = subprocess.run(
        [sys.executable, "-c", MIGRATE],
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-4000:]


def _make(made: Path, settings: str) -> None:
    with tempfile.TemporaryDirectory(prefix="berth-migrated-") as folder:
        if settings != BASE:
            shutil.copyfile(kept(BASE), Path(folder) / "berth.sqlite3")
        _migrate(folder, settings)
        fresh = made.with_suffix(".new")
        fresh.unlink(missing_ok=True)
        with closing(sqlite3.connect(Path(folder) / "berth.sqlite3")) as database:
            database.execute("VACUUM INTO ?", (str(fresh),))  # one file, nothing left in a WAL
        for old in KEPT.glob(f"{settings}-*.sqlite3"):
            old.unlink(missing_ok=True)
        fresh.replace(made)


def _fingerprint(settings: str) -> str:
    found = hashlib.sha256(f"{settings} {sys.version}".encode())
    for pattern in SOURCES:
        for path in sorted(ROOT.glob(pattern)):
            found.update(path.read_bytes())
    return found.hexdigest()[:16]
