"""The program that runs notebooks and smoke runs, as it is handed over: hostile files and scripts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from benchmarks.lib import poll
from jobs.programs import runner
from tests.jobs.test_real_notebooks import notebook
from tests.support.portal import environments

pytestmark = [pytest.mark.real, pytest.mark.timeout(120)]
SMOKE = ("smoke", "20", "0", "--")


def start(folder: Path, *words: str, python: str = sys.executable, **env: str) -> Any:
    return subprocess.Popen(
        [python, "-c", runner(), *words],
        cwd=folder,
        env={**os.environ, **env},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


@pytest.fixture
def lab() -> str:
    found = environments() / "jupyterlab/bin/python"
    if not found.exists():
        pytest.skip("the JupyterLab environment is not built (make run or make test builds it)")
    return str(found)


def test_a_cell_that_prints_100_mb_keeps_8_of_them_and_the_rest_of_the_notebook(
    lab: str, tmp_path: Path
) -> None:
    cells = ("for n in range(1000): print('x' * 100_000)", "'afterwards'")
    (tmp_path / "big.ipynb").write_text(json.dumps(notebook(*cells)))
    ran = start(tmp_path, "notebook", "big.ipynb", python=lab)
    said, _ = ran.communicate(timeout=90)
    assert ran.returncode == 0
    assert len(said) > 100_000_000  # its log is the log's own matter
    kept = tmp_path / "big.run-1.ipynb"
    assert 8_000_000 < kept.stat().st_size < 10_000_000
    first, second = json.loads(kept.read_text())["cells"]
    assert "More was left out of the result" in "".join(first["outputs"][-1]["text"])
    assert second["outputs"][0]["data"]["text/plain"] == ["'afterwards'"]


def test_a_cell_that_never_ends_is_ended_by_a_signal_with_what_there_is(
    lab: str, tmp_path: Path
) -> None:
    cells = ("print('first')", "while True: pass")
    (tmp_path / "on.ipynb").write_text(json.dumps(notebook(*cells)))
    ran = start(tmp_path, "notebook", "on.ipynb", python=lab)
    for line in ran.stdout:
        if "cell 2 of 2" in line:
            break
    ran.send_signal(signal.SIGTERM)
    said, _ = ran.communicate(timeout=30)
    assert ran.returncode == 128 + signal.SIGTERM, said
    assert "It was ended in cell 2" in said
    kept = json.loads((tmp_path / "on.run-1.ipynb").read_text())
    assert kept["cells"][0]["outputs"][0]["text"] == ["first\n"]


def smoke(folder: Path, script: str, *args: str, seconds: str = "20", gpus: str = "0") -> Any:
    (folder / "run.py").write_text(script)
    words = ("smoke", seconds, gpus, "--", sys.executable, "run.py", *args)
    ran = start(folder, *words, BERTH_SMOKE_RUN="1")
    said, _ = ran.communicate(timeout=60)
    return ran.returncode, said


def test_who_forks_and_leaves_is_not_waited_for_and_ends_with_it(tmp_path: Path) -> None:
    script = "import subprocess\nsubprocess.Popen(['sleep', '8642'], start_new_session=True)\n"
    began = time.monotonic()
    code, said = smoke(tmp_path, script, seconds="50")
    assert (code, time.monotonic() - began < 45) == (0, True)
    assert "and left processes behind" in said
    poll(lambda: not _runs("sleep 8642"), within_s=30)  # it was killed, and goes in a moment


def _runs(words: str) -> bytes:
    return subprocess.run(["pgrep", "-f", words], check=False, capture_output=True).stdout


def test_a_smoke_run_may_tell_of_itself_as_its_run_does(tmp_path: Path) -> None:
    """What the goodput page says to write must not fail the smoke run; it is of no run."""
    script = "import os\nprint('{}', file=open(os.environ['BERTH_EVENTS'], 'a'))\n"
    code, said = smoke(tmp_path, script)
    assert (code, "passed" in said) == (0, True)


def test_who_ignores_sigterm_has_passed_and_is_killed(tmp_path: Path) -> None:
    script = (
        "import signal, time\nsignal.signal(15, signal.SIG_IGN)\nprint('on')\ntime.sleep(900)\n"
    )
    code, said = smoke(tmp_path, script, seconds="1")
    assert (code, "passed: it still ran after 1 s" in said) == (0, True)


@pytest.mark.parametrize(
    ("gpus", "line", "code"),
    [
        ("1", "raise RuntimeError('Found no NVIDIA driver on your system')", 0),
        ("1", "raise RuntimeError('no such file')", 1),
        ("0", "raise RuntimeError('Found no NVIDIA driver on your system')", 1),
    ],
)
def test_who_fails_for_want_of_a_gpu_only_has_passed_where_its_job_asks_for_one(
    gpus: str, line: str, code: int, tmp_path: Path
) -> None:
    found, said = smoke(tmp_path, line, gpus=gpus)
    assert found == code, said


def test_only_the_program_itself_is_looked_for_as_a_file(tmp_path: Path) -> None:
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text("print('trained')")
    (tmp_path / "bad.py").write_text("def f(:")
    for words, code in (
        (["sh", "-c", "cd src && python3 train.py"], 0),
        (["python3", "-c", "pass", "--config=conf/a.py"], 0),
        (["python3", "not-there.py"], 66),
        (["python3", "bad.py"], 65),
    ):
        done = subprocess.run(
            [sys.executable, "-c", runner(), "smoke", "20", "0", "--", *words],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert done.returncode == code, (words, done.stdout, done.stderr)


def test_a_script_that_exits_well_with_a_failed_child_is_believed(tmp_path: Path) -> None:
    """Nobody but it knows what its children are for: its own exit code is what counts."""
    code, said = smoke(tmp_path, "import subprocess\nsubprocess.run(['false'])\n")
    assert (code, "passed in" in said) == (0, True)
