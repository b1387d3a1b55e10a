"""What is tried again by the run of all tests is tried under the same conditions."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from threading import Timer

import pytest

from tests.support.portal import ROOT, Portal

# Only `make test-long` tries a second time.
pytestmark = pytest.mark.long("runs of pytest of their own")

# The first try ends with its clock run out, as the clock itself ends one.
OUT_OF_TIME = """
import signal
tries = []
def test_it():
    tries.append(signal.getitimer(signal.ITIMER_REAL)[0])
    signal.setitimer(signal.ITIMER_REAL, 0)
    assert len(tries) == 2
    assert min(tries) > 0, tries
"""
HALF_MADE = """
from pathlib import Path
import pytest
tries = []
@pytest.fixture(scope="module")
def late():
    tries.append("late")
    assert len(tries) == 2
@pytest.fixture(scope="module")
def chosen(request):
    return request.getfixturevalue("late")
@pytest.fixture(scope="module")
def opened():
    yield
    Path("closed").write_text(str(len(tries)))
def test_it(chosen, opened):
    pass
def test_another(opened):
    assert not Path("closed").exists()
"""
PLUGINS = ("tests.support.lanes", "tests.support.second_tries")
ALONE = ("-p", "no:cacheprovider", "-p", "no:django", "-c", os.devnull)
TWICE = ("--timeout", "900", "--timeout-method", "signal", "--reruns", "1")


def tried(folder: Path, text: str) -> subprocess.CompletedProcess[str]:
    """Run the test of that text, which fails once."""
    made = folder / "tests"
    made.mkdir()
    (made / "test_tried.py").write_text(text)
    outside = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    plugins = [word for name in PLUGINS for word in ("-p", name)]
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *ALONE, *plugins, *TWICE, "--rootdir", folder, made],
        cwd=folder,
        env={**outside, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert "1 rerun" in done.stdout, done.stdout + done.stderr
    return done


def test_a_second_try_has_a_clock_of_its_own(tmp_path: Path) -> None:
    done = tried(tmp_path, OUT_OF_TIME)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_second_try_makes_what_failed_and_ends_what_it_made(tmp_path: Path) -> None:
    """Also what a fixture asks for by its name, and what only the second try came to."""
    done = tried(tmp_path, HALF_MADE)
    assert done.returncode == 0, done.stdout + done.stderr
    assert (tmp_path / "closed").read_text() == "2"


def test_a_second_try_is_not_given_the_first_ones_answer_by_the_portals_shell(
    tmp_path: Path,
) -> None:
    def end(*_: object) -> None:
        raise TimeoutError

    portal = Portal(var=tmp_path)
    before = signal.signal(signal.SIGUSR1, end)
    try:
        assert portal.shell("answer = 'one'") == "one"
        Timer(0.5, os.kill, (os.getpid(), signal.SIGUSR1)).start()
        with pytest.raises(TimeoutError):
            portal.shell("import time; time.sleep(20); answer = 'late'")
        assert portal.shell("answer = 'two'") == "two"
    finally:
        signal.signal(signal.SIGUSR1, before)
        portal.close()
