"""E13 with real threads: a form pressed many times at once makes one workspace, and nothing starts
on a volume that is being put back.
"""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def race(url: str, program: str = "race", *words: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", f"tests.notebooks.{program}", *words],
        cwd=ROOT,
        env={**os.environ, "BERTH_TEST_DATABASE_URL": url},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(json.loads(done.stdout.splitlines()[-1]))


ONE = {"answered": 12, "same": 1, "rows": 1, "homes": 1, "shared": 1, "reserved": 1}


def test_e13_twelve_presses_at_once_make_one_workspace_on_sqlite(migrated_sqlite: str) -> None:
    assert race(migrated_sqlite) == {**ONE, "vendor": "sqlite"}


@pytest.mark.postgres
def test_e13_twelve_presses_at_once_make_one_workspace_on_postgresql(
    migrated_postgres: str,
) -> None:
    assert race(migrated_postgres) == {**ONE, "vendor": "postgresql"}


APART = {"answered": 12, "same": 12, "rows": 12, "homes": 1, "shared": 1, "reserved": 12}


def test_twelve_launches_without_a_name_all_find_one_on_sqlite(migrated_sqlite: str) -> None:
    assert race(migrated_sqlite, "race", "apart") == {**APART, "vendor": "sqlite"}


@pytest.mark.postgres
def test_twelve_launches_without_a_name_all_find_one_on_postgresql(
    migrated_postgres: str,
) -> None:
    assert race(migrated_postgres, "race", "apart") == {**APART, "vendor": "postgresql"}


REFUSED = {"launch": "volume-restoring", "rows": 0}


def test_e13_no_launch_slips_past_a_restore_on_sqlite(migrated_sqlite: str) -> None:
    assert race(migrated_sqlite, "race_restore") == {**REFUSED, "vendor": "sqlite"}


@pytest.mark.postgres
def test_e13_no_launch_slips_past_a_restore_on_postgresql(migrated_postgres: str) -> None:
    assert race(migrated_postgres, "race_restore") == {**REFUSED, "vendor": "postgresql"}
