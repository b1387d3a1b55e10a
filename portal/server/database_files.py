"""The database as files: where SQLite's is, a consistent copy of it, PostgreSQL's own programs."""

import contextlib
import os
import shutil
import sqlite3
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

from portal.server.paths import Paths, Refusal

COPIES_KEPT = 3  # before upgrades


def vendor() -> str:
    from django.db import connection

    return connection.vendor


def sqlite_path() -> Path:
    from django.db import connection

    return Path(connection.settings_dict["NAME"])


def copy_sqlite(source: Path, target: Path) -> None:
    """A copy as of one moment, with writers at work. Root leaves no file of its own behind."""
    if not source.exists():
        message = f"There is no database at {source}; has Berth been started here once?"
        raise Refusal(message)
    content = target.with_suffix(".tmp")
    content.touch(mode=0o600)
    owner = source.stat()
    if os.geteuid() == 0:
        os.chown(content, owner.st_uid, owner.st_gid)
    with (
        acting_as(owner),
        contextlib.closing(sqlite3.connect(source, timeout=30)) as old,
        contextlib.closing(sqlite3.connect(content)) as new,
    ):
        old.backup(new)
    content.rename(target)


@contextlib.contextmanager
def acting_as(owner: os.stat_result) -> Iterator[None]:
    """SQLite makes helper files beside the database; they must belong to its owner."""
    if os.geteuid() != 0 or owner.st_uid == 0:
        yield
        return
    os.setegid(owner.st_gid)
    os.seteuid(owner.st_uid)
    try:
        yield
    finally:
        os.seteuid(0)
        os.setegid(0)


def copy_before_upgrade(places: Paths) -> Path:
    """Keeps the database as it was before a migration, and the newest few of such copies."""
    folder = places.var / "backups"
    folder.mkdir(mode=0o700, exist_ok=True)
    stamp = datetime.now(UTC).strftime("%Y%m%d-%H%M%S")
    target = folder / f"before-upgrade-{stamp}.sqlite3"
    copy_sqlite(sqlite_path(), target)
    for old in sorted(folder.glob("before-upgrade-*.sqlite3"))[:-COPIES_KEPT]:
        old.unlink()
    return target


def postgresql(program: str, *options: str) -> None:
    from django.db import connection

    found = shutil.which(program)
    if not found:
        message = f"{program} is not on this machine; install PostgreSQL's client programs."
        raise Refusal(message)
    given = connection.settings_dict
    words = [found, "--dbname", given["NAME"], *options]
    for option, key in (("--host", "HOST"), ("--port", "PORT"), ("--username", "USER")):
        if given[key]:
            words += [option, str(given[key])]
    env = {**os.environ, "PGPASSWORD": given["PASSWORD"] or ""}
    done = subprocess.run(words, env=env, capture_output=True, text=True, check=False)
    if done.returncode:
        message = f"{program} failed: {done.stderr.strip()[-500:]}"
        raise Refusal(message)


def belong(path: Path, example: os.stat_result) -> None:
    """Root restores for the user that runs the portal."""
    if os.geteuid() == 0:
        os.chown(path, example.st_uid, example.st_gid)
