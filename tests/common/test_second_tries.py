"""What is tried again by the run of all tests is tried under the same conditions."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.portal import ROOT

# The first try ends with its clock run out, as the clock itself ends one.
TRIED = """
import signal
tries = []
def test_it():
    tries.append(signal.getitimer(signal.ITIMER_REAL)[0])
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert len(tries) == 2
    assert min(tries) > 0, tries
"""
ALONE = ("-p", "no:cacheprovider", "-p", "no:django", "-p", "tests.support.lanes", "-c", os.devnull)


@pytest.mark.slow  # a run of pytest of its own
def test_a_second_try_has_a_clock_of_its_own(tmp_path: Path) -> None:
    folder = tmp_path / "tests"
    folder.mkdir()
    (folder / "test_tried.py").write_text(TRIED)
    outside = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    clock = ("--timeout", "900", "--timeout-method", "signal", "--reruns", "1")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *ALONE, *clock, "--rootdir", tmp_path, folder],
        cwd=tmp_path,
        env={**outside, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 rerun" in done.stdout
