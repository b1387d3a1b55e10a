"""What many do at once, with real threads and on a database of its own that no other test sees.

A module that plays such a race has ``main(*words)``, which returns what became of it.  On SQLite it
runs in a fork of one Django that is started for all of them, on PostgreSQL as a program.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tests.support.django_shell import DjangoShell
from tests.support.migrated import ROOT, head_start

WITHIN_S = 200


class Races:
    """Those on SQLite."""

    def __init__(self, folder: Path, settings: str) -> None:
        self._file = folder / "race.sqlite3"
        self._settings = settings
        env = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": settings,
            "BERTH_TEST_DATABASE_URL": f"sqlite:///{self._file}",
        }
        self._shell = DjangoShell(env, folder / "race.log")

    def run(self, module: str, *words: str) -> Any:
        for end in ("", "-wal", "-shm"):
            self._file.with_name(self._file.name + end).unlink(missing_ok=True)
        head_start(self._file, self._settings)
        return self._shell.run(f"from {module} import main\nanswer = main(*{words!r})")

    def close(self) -> None:
        self._shell.close()


def race_on(url: str, module: str, *words: str) -> Any:
    """Play it as a program against the database at ``url``."""
    done = subprocess.run(
        [sys.executable, "-m", module, *words],
        cwd=ROOT,
        env={**os.environ, "BERTH_TEST_DATABASE_URL": url},
        capture_output=True,
        text=True,
        timeout=WITHIN_S,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])
