"""E13: twenty equal requests at once with one key make one thing and get one answer."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
ONCE = {"answers": {"201": 20}, "bodies": 1, "projects": 1, "members": 1, "keys": 1}


def press(url: str) -> object:
    done = subprocess.run(
        [sys.executable, "-m", "tests.projects.double"],
        cwd=ROOT,
        env={**os.environ, "BERTH_TEST_DATABASE_URL": url},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return json.loads(done.stdout.splitlines()[-1])


def test_e13_twenty_equal_presses_at_once_make_one_project_on_sqlite(migrated_sqlite: str) -> None:
    assert press(migrated_sqlite) == ONCE


@pytest.mark.postgres
def test_e13_twenty_equal_presses_at_once_make_one_project_on_postgresql(
    migrated_postgres: str,
) -> None:
    assert press(migrated_postgres) == ONCE
