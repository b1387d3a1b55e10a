"""The steps of a start as people read them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from common.clock import now
from runtime.protocol import Phase
from work.models import Step
from work.ui import timeline

ROOT = Path(__file__).resolve().parents[2]
NOTED = re.compile(r"(?:state|self)\.note\(\s*\"([\w-]+)\"")


def test_every_step_that_the_engine_notes_has_words() -> None:
    files = [*ROOT.glob("runtime/*.py"), *ROOT.glob("*/reconciler.py")]
    noted = {word for file in files for word in NOTED.findall(file.read_text())}
    assert {"accepted", "waiting", "placed", "running"} <= noted
    assert [word for word in sorted(noted) if timeline.step_word(word) == word] == []


@pytest.mark.parametrize("word", ["queued", "waiting"])
def test_what_changes_while_it_lasts_is_not_told_as_it_was_first(word: str, monkeypatch) -> None:
    steps = [Step(word=word, message="0 of about 650 MiB", at=now())]
    monkeypatch.setattr(timeline, "steps_of", lambda _row: steps)
    row = type("Row", (), {"cluster_key": timeline.ONE_MACHINE})()
    (line,) = timeline.timeline(row, Phase.PENDING, ())
    assert (line.state, line.message) == ("now", "")
