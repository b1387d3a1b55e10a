"""Each benchmark works: run in its least size, whose figures say nothing and are kept nowhere."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from benchmarks.run import ALL, CLUSTER, LOADS
from tests.support.portal import ROOT, environments

pytestmark = [
    pytest.mark.long("the benchmarks' own programs; each measures what tests prove elsewhere"),
    pytest.mark.real,
    pytest.mark.timeout(900),
]


@pytest.mark.parametrize(
    "name", [*ALL, *LOADS, *(pytest.param(name, marks=pytest.mark.cluster) for name in CLUSTER)]
)
def test_it_prints_a_figure_and_keeps_none(name: str) -> None:
    kept = (ROOT / "benchmarks/results.json").read_bytes()
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.run", "--small", name],
        cwd=ROOT,
        env={**os.environ, "BERTH_ENVIRONMENTS_DIR": str(environments())},
        capture_output=True,
        text=True,
        timeout=840,
        check=False,
    )
    assert done.returncode == 0, (done.stdout + done.stderr)[-3000:]
    assert "rounds" in done.stdout
    assert (ROOT / "benchmarks/results.json").read_bytes() == kept
