"""What is written while a state is followed."""

from datetime import UTC, datetime, timedelta

import time_machine
from berth_cli import following
from berth_cli.following import Told, so_far

AT = datetime(2026, 11, 21, 6, 0, tzinfo=UTC)


def test_the_time_so_far_is_in_words():
    with time_machine.travel(AT, tick=False):
        assert so_far((AT - timedelta(seconds=80)).isoformat()) == "1 min 20 s"
        assert so_far("2026-11-21T05:59:55Z") == "5 s"
        assert so_far((AT + timedelta(seconds=3)).isoformat()) == "0 s"


def follow(monkeypatch, capsys, *, terminal):
    monkeypatch.setattr(following.sys.stderr, "isatty", lambda: terminal, raising=False)
    since = AT.isoformat()
    with time_machine.travel(AT, tick=False) as clock, Told() as told:
        told.tell("starting")
        for _second in range(3):
            clock.shift(1)
            told.tell("starting: Pulling the image (4.2 GiB).", counts_since=since)
        told.tell("running")
    return capsys.readouterr().err


def test_a_terminal_shows_the_time_go_by_in_one_line(monkeypatch, capsys):
    said = follow(monkeypatch, capsys, terminal=True)
    assert said.count("\n") == 3  # three states, whatever the time
    assert "(4.2 GiB). 1 s\r" in said
    assert "(4.2 GiB). 3 s\nrunning\n" in said


def test_a_file_gets_one_line_for_each_change(monkeypatch, capsys):
    said = follow(monkeypatch, capsys, terminal=False)
    assert said.splitlines() == ["starting", "starting: Pulling the image (4.2 GiB).", "running"]


def test_a_bar_grows_in_its_line(monkeypatch, capsys):
    monkeypatch.setattr(following.sys.stderr, "isatty", lambda: True, raising=False)
    with Told(in_place=True) as told:
        for line in ("listing", "#.", "##"):
            told.tell(line)
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert said.endswith("\x1b[K##\n")
