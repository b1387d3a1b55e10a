"""C12: many at once for the last GPU; exactly as many win as there are, the rest get the limit."""

import json
import os
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


def race(url: str, limit: int) -> dict[str, Any]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.quotas.race", str(limit)],
        cwd=ROOT,
        env={**os.environ, "BERTH_TEST_DATABASE_URL": url},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return dict(json.loads(done.stdout.splitlines()[-1]))


@pytest.mark.parametrize("limit", [1, 7])
def test_c12_fifty_at_once_for_the_last_gpus_on_sqlite(tmp_path: Path, limit: int) -> None:
    result = race(f"sqlite:///{tmp_path}/race.sqlite3", limit)
    assert result == {
        "won": limit,
        "refused": 50 - limit,
        "reserved": limit,
        "vendor": "sqlite",
    }


@pytest.mark.postgres
@pytest.mark.parametrize("limit", [1, 7])
def test_c12_fifty_at_once_for_the_last_gpus_on_postgresql(fresh_postgres: str, limit: int) -> None:
    result = race(fresh_postgres, limit)
    assert result == {
        "won": limit,
        "refused": 50 - limit,
        "reserved": limit,
        "vendor": "postgresql",
    }


@pytest.fixture
def fresh_postgres() -> Any:
    """The URL of an empty database that is dropped afterwards."""
    url = os.environ.get("BERTH_TEST_POSTGRES", "")
    if not url:
        pytest.skip("no PostgreSQL: BERTH_TEST_POSTGRES is not set")
    import psycopg

    name = f"berth_race_{uuid.uuid4().hex[:8]}"
    base, _, _ = url.rpartition("/")
    with psycopg.connect(url, autocommit=True) as admin:
        admin.execute(f'CREATE DATABASE "{name}"')
        try:
            yield f"{base}/{name}"
        finally:
            admin.execute(f'DROP DATABASE "{name}" WITH (FORCE)')
