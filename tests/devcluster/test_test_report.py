"""The report of ``make test-long`` says what ran, what failed and why something was left out."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tools import test_report

TESTS = """
import pytest

def test_good(): ...
def test_bad(): assert False
@pytest.mark.skip(reason="no GPU here")
def test_left_out(): ...
"""


def test_it_has_counts_reasons_and_what_failed(tmp_path: Path) -> None:
    (tmp_path / "test_some.py").write_text(TESTS)
    words = ["-q", "-p", "no:cacheprovider", "-p", "no:django", "--junitxml=results.xml"]
    subprocess.run(
        [sys.executable, "-m", "pytest", *words], cwd=tmp_path, capture_output=True, check=False
    )
    page = tmp_path / "report.md"
    test_report.write(tmp_path / "results.xml", page, {"gpu": "no NVIDIA GPU"}, "3 s")
    said = page.read_text()
    for line in ("| passed | 1 |", "| failed | 1 |", "| skipped | 1 |", "| time | 3 s |"):
        assert line in said
    for line in ("- 1: no GPU here", "- `test_some::test_bad`", "`gpu`: no NVIDIA GPU"):
        assert line in said
    assert "commit" in said
