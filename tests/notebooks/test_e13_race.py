"""E13 with real threads: a form pressed many times at once makes one workspace."""

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def race(url: str) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.notebooks.race"],
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


def test_e13_twelve_presses_at_once_make_one_workspace_on_sqlite(tmp_path: Path) -> None:
    assert race(f"sqlite:///{tmp_path}/race.sqlite3") == {**ONE, "vendor": "sqlite"}


@pytest.mark.postgres
def test_e13_twelve_presses_at_once_make_one_workspace_on_postgresql() -> None:
    url = os.environ.get("BERTH_TEST_POSTGRES", "")
    if not url:
        pytest.skip("no PostgreSQL: BERTH_TEST_POSTGRES is not set")
    import psycopg

    name = f"berth_e13_{uuid.uuid4().hex[:8]}"
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(f'CREATE DATABASE "{name}"')
        try:
            answer = race(f"{url.rpartition('/')[0]}/{name}")
        finally:
            admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
    assert answer == {**ONE, "vendor": "postgresql"}
