"""The cluster of a run of tests ends with the run, at whatever point that is ended."""

import sys
import time
from pathlib import Path

import psutil
import pytest

from tools import suite_cluster

# As ``devcluster up``: it waits for a compiler.
BUILDS = "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]], capture_output=True)"
COMPILES = (
    "import os, time, pathlib; pathlib.Path({file!r}).write_text(str(os.getpid())); time.sleep(99)"
)


def test_a_run_that_is_ended_leaves_no_compiler_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "compiler"
    command = [sys.executable, "-c", BUILDS, COMPILES.format(file=str(file))]
    monkeypatch.setattr(suite_cluster, "command_of", lambda *_words: command)
    cluster = suite_cluster.Cluster(tmp_path, {"cluster": "not here"})
    cluster.start()
    compiler = appeared(file)
    cluster.stop()
    assert has_ended(compiler)


def appeared(file: Path) -> psutil.Process:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        if file.exists() and (text := file.read_text()):
            return psutil.Process(int(text))
        time.sleep(0.02)
    raise AssertionError("nothing was started")


def has_ended(process: psutil.Process) -> bool:
    deadline = time.monotonic() + 5
    while time.monotonic() < deadline:
        if not process.is_running() or process.status() == psutil.STATUS_ZOMBIE:
            return True
        time.sleep(0.02)
    process.kill()
    return False
