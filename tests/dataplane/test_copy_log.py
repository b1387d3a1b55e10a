"""What a run says in its log: enough to see why, bounded, and nothing secret."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from dataplane.copy.problems import Code
from dataplane.copy.progress import EACH, LINE, WAITING, Log, Progress
from dataplane.copy.report import Watch
from tests.support.copying import ROOT, Copying
from tests.support.hostile_store import HostileS3

SECRET = "the-canary-of-this-store"


class Pipe:
    """Where lines go: all of them at the end, or nobody takes any."""

    def __init__(self) -> None:
        self.reading, self.writing = os.pipe()

    def text(self) -> str:
        os.close(self.writing)
        with os.fdopen(self.reading, "rb") as file:
            return file.read().decode()


def said(log: Log, pipe: Pipe) -> list[str]:
    log.end()
    return [line.partition(" ")[2] for line in pipe.text().splitlines()]


def test_what_happens_a_million_times_is_told_a_few_times_and_counted() -> None:
    pipe = Pipe()
    progress = Progress(log=Log(pipe.writing))
    for number in range(2_000):
        progress.fails(f"key-{number}", Code.DENIED, "no")
    progress.fails("other", Code.CHECKSUM, "the bytes differ")
    progress.log.start(tuple)
    lines = said(progress.log, pipe)
    assert len(lines) == EACH + 2 + 1
    assert lines[0] == "key-0: denied: no"
    assert lines[-2].startswith("key-999: denied: no (this was number 1,000;")
    assert lines[-1] == "other: checksum: the bytes differ"
    assert progress.failed == 2_001


def test_a_line_is_one_line_without_control_characters_and_not_long() -> None:
    pipe = Pipe()
    log = Log(pipe.writing)
    log.say("a\nfaked: line\x1b[2J" + "x" * 5_000)
    log.start(tuple)
    (line,) = said(log, pipe)
    assert line.startswith("a\\nfaked: line\\x1b[2J")
    assert len(line) == LINE + 1


def test_nothing_secret_is_said_whoever_tries() -> None:
    pipe = Pipe()
    log = Log(pipe.writing)
    log.start(tuple, [SECRET, "first line of it\nsecond line of it", "short", ""])
    log.say(f"Authorization: {SECRET}, second line of it, short")
    assert said(log, pipe) == ["Authorization: …, …, short"]


def test_a_pipe_that_nobody_empties_holds_up_nothing() -> None:
    pipe = Pipe()
    log = Log(pipe.writing)
    log.start(tuple)
    begun = time.monotonic()
    for number in range(20 * WAITING):
        log.say(f"{number}" * 20)
    log.end()
    assert time.monotonic() - begun < 10
    assert threading.active_count() < 50
    assert len(log._lines) <= WAITING
    os.close(pipe.reading)


def test_how_far_it_is_is_told_now_and_then() -> None:
    progress = Progress()
    watch = Watch(progress)
    progress.phase = "listing"
    assert list(watch.lines()) == ["now listing"]
    assert list(watch.lines()) == []
    progress.phase, progress.listed, progress.found = "copying", True, 4
    assert list(watch.lines()) == ["now copying", "the listing is complete: 4 files, 0 bytes"]
    watch._told -= 11
    (line,) = watch.lines()
    assert line.startswith("0 of 4 files, 0 bytes of 0 bytes, ")


@pytest.fixture
def keyed(copying: Copying) -> Copying:
    """The same with a key whose secret nothing may say."""
    keys = {"anonymous": False, "access_key": "AK", "secret_key": SECRET, "session_token": SECRET}
    copying.store = {**copying.store, **keys}
    return copying


def test_a_run_says_what_it_does_what_was_tried_again_and_how_it_ended(
    keyed: Copying, hostile: HostileS3
) -> None:
    for n in range(60):
        hostile.put(f"{n:03d}", b"x")
    hostile.put("../up", b"bad")
    hostile.be_busy(times=25)
    done = keyed.run()
    assert done.code == 3, done.output
    for text in (
        "run 1: copy, from s3-compatible bucket bucket",
        "asked by a credential",
        "lanes for large objects, no limit of bandwidth",
        "a page of the listing: 61 objects",
        "the store asks for fewer calls: ",
        "a call is tried again in ",
        "../up: bad-key: ",
        "found 61, copied 60, unchanged 0, skipped 1, failed 0, deleted 0; ",
    ):
        assert text in done.output
    last, before = done.output.splitlines()[-1:-3:-1]
    assert " partial: 60 files copied (60 bytes)" in last
    assert " checked by: " in before
    assert SECRET not in done.output


def test_a_second_run_says_what_it_goes_on_with(copying: Copying, hostile: HostileS3) -> None:
    hostile.put("large", b"x" * (24 << 20))
    copying.others = {"bandwidth_bytes_s": 4 << 20}
    assert copying.run(kill_when=lambda report: report["bytes"]["read"] > 6 << 20).code < 0
    copying.others = {}
    done = copying.run()
    assert "an earlier run left 1 files half done: they are gone on with" in done.output
    assert "done: 1 files copied" in done.output


def test_a_fault_of_the_program_leaves_its_trace_and_no_secret(
    keyed: Copying, tmp_path: Path
) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "sitecustomize.py").write_text(_BROKEN)
    keyed.env = {"PYTHONPATH": f"{broken}:{ROOT}"}
    done = keyed.run()
    assert (done.code, done.final["code"]) == (4, "internal")
    assert "ZeroDivisionError: asked with …" in done.output
    assert SECRET not in done.output


_BROKEN = f"""
import dataplane.copy.run as run

def broken(plan, *rest):
    raise ZeroDivisionError("asked with {SECRET}")

run._carry_out = broken
"""
