"""C12: many at once for the last GPU; exactly as many win as there are, the rest get the limit."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[2]


LIMITS = (1, 7)


def race(url: str) -> list[dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-m", "tests.quotas.race", *map(str, LIMITS)],
        cwd=ROOT,
        env={**os.environ, "BERTH_TEST_DATABASE_URL": url},
        capture_output=True,
        text=True,
        timeout=200,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def expected(vendor: str) -> list[dict[str, Any]]:
    return [{"won": n, "refused": 50 - n, "reserved": n, "vendor": vendor} for n in LIMITS]


def test_c12_fifty_at_once_for_the_last_gpus_on_sqlite(migrated_sqlite: str) -> None:
    assert race(migrated_sqlite) == expected("sqlite")


@pytest.mark.postgres
def test_c12_fifty_at_once_for_the_last_gpus_on_postgresql(migrated_postgres: str) -> None:
    assert race(migrated_postgres) == expected("postgresql")
