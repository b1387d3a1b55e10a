"""The rows of workspaces and loads of before came into the table of all work, whole."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from tests.support.django_shell import DjangoShell

# of the migrations that move rows: after its rows were copied, and near its end
MOMENTS = [
    *(("notebooks", "0008_workload", step) for step in (1, 20, -2)),
    *(("loaders", "0008_workload", step) for step in (1, 20, -3)),
    ("notebooks", "0009_of_a_workload", -3),
]


def moved(folder: Path, url: str) -> None:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("BERTH_", "DJANGO_"))}
    env |= {
        "BERTH_VAR": str(folder),
        "BERTH_TEST_DATABASE_URL": url,
        "DJANGO_SETTINGS_MODULE": "portal.settings.test",
    }
    shell, kept = DjangoShell(env, folder / "moved.log"), folder / "rows.json"

    def run(act: str, *words: object) -> None:
        shell.run(f"from tests.work import moving\nanswer = moving.{act}{words!r}")

    try:
        run("before", str(kept))
        for app, name, step in MOMENTS:
            with pytest.raises(RuntimeError, match=f"ended with {-signal.SIGKILL}"):
                run("killed", app, name, step)
        run("after", str(kept))
    finally:
        shell.close()


@pytest.mark.timeout(600)
@pytest.mark.slow
@pytest.mark.long("cut off after each step; on_postgresql moves the same rows whole")
def test_rows_of_before_are_moved_whole_however_often_it_is_cut_off(tmp_path: Path) -> None:
    moved(tmp_path, f"sqlite:///{tmp_path}/moved.sqlite3")


@pytest.mark.timeout(600)
@pytest.mark.postgres
def test_rows_of_before_are_moved_whole_on_postgresql(tmp_path: Path, fresh_postgres: str) -> None:
    moved(tmp_path, fresh_postgres)
