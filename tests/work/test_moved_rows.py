"""The rows of workspaces and loads of before came into the table of all work, whole."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.portal import ROOT

Program = Callable[..., int]
# of the migrations that move rows: after its rows were copied, and near its end
MOMENTS = [
    *(("notebooks", "0008_workload", step) for step in (1, 20, -2)),
    *(("loaders", "0008_workload", step) for step in (1, 20, -3)),
    ("notebooks", "0009_of_a_workload", -3),
]


def program(folder: Path, url: str) -> Program:
    env = {k: v for k, v in os.environ.items() if not k.startswith(("BERTH_", "DJANGO_"))}
    env |= {
        "BERTH_VAR": str(folder),
        "BERTH_TEST_DATABASE_URL": url,
        "DJANGO_SETTINGS_MODULE": "portal.settings.test",
    }

    def run(*words: str) -> int:
        done = subprocess.run(
            [sys.executable, "-W", "ignore", "-m", "tests.work.moving", *words],
            cwd=ROOT,
            env=env,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode in {0, -signal.SIGKILL}, done.stderr[-4000:]
        return done.returncode

    return run


def moved(run: Program, kept: Path) -> None:
    assert run("before", str(kept)) == 0
    for app, name, step in MOMENTS:
        assert run("killed", app, name, str(step)) == -signal.SIGKILL
    assert run("after", str(kept)) == 0


@pytest.mark.timeout(600)
@pytest.mark.slow
@pytest.mark.long("cut off after each step; on_postgresql moves the same rows whole")
def test_rows_of_before_are_moved_whole_however_often_it_is_cut_off(tmp_path: Path) -> None:
    moved(program(tmp_path, f"sqlite:///{tmp_path}/moved.sqlite3"), tmp_path / "rows.json")


@pytest.mark.timeout(600)
@pytest.mark.postgres
def test_rows_of_before_are_moved_whole_on_postgresql(tmp_path: Path, fresh_postgres: str) -> None:
    moved(program(tmp_path, fresh_postgres), tmp_path / "rows.json")
