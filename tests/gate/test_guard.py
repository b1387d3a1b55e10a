"""Asking again whether open streams may stay open, when asking itself goes wrong."""

from __future__ import annotations

from typing import Any

import pytest
from django.db import OperationalError

from gate import guard
from gate.access import Demand, Target
from gate.callers import Caller
from gate.guard import Guard, Stream
from gate.ssh import server

ALICE, BOB = Caller(1, "alice"), Caller(2, "bob")


def target(short_id: str) -> Target:
    known = {"short_id": short_id, "uid": short_id, "is_running": True}
    values: dict[str, Any] = {name: known.get(name) for name in Target.__dataclass_fields__}
    return Target(**values)


@pytest.fixture
async def two(transactional_db: None, monkeypatch: Any) -> tuple[Guard, Stream, Stream, list[Any]]:
    """A guard with two streams; whatever is put into the list is raised for the first."""
    faults: list[Any] = []

    def asked(caller: Caller, short_id: str, _demand: Demand) -> Target:
        if caller == ALICE and faults:
            raise faults.pop(0)
        if caller == BOB and short_id == "gone":
            raise guard.BerthError("No longer.", code="forbidden")
        return target(short_id)

    monkeypatch.setattr(guard, "target_of", asked)
    one = Guard()
    first = Stream("logs", ALICE, target("a"), Demand.LOGS)
    second = Stream("logs", BOB, target("gone"), Demand.LOGS)
    one.streams |= {first, second}
    return one, first, second, faults


async def test_a3_what_goes_wrong_for_one_stream_does_not_keep_others_open(two: Any) -> None:
    one, first, second, faults = two
    faults += [ValueError("odd row"), ValueError("odd row")]
    await one._recheck(None)
    assert second.code == "forbidden"
    assert not first.over.is_set()
    await one._recheck(None)
    assert (first.code, first.over.is_set()) == ("unasked", True)


async def test_one_round_without_an_answer_is_forgiven(two: Any) -> None:
    one, first, _second, faults = two
    for _ in range(3):
        faults.append(ValueError("odd row"))
        await one._recheck(None)
        await one._recheck(None)
    assert not first.over.is_set()


async def test_while_the_database_is_away_nobody_is_cut(two: Any) -> None:
    one, first, _second, faults = two
    faults += [OperationalError("away")] * 4
    for _ in range(4):
        await one._recheck(None)
    assert not first.over.is_set()


def test_a3_nor_does_it_keep_ssh_connections_of_others(monkeypatch: Any) -> None:
    faults: dict[str, Exception] = {"odd": ValueError("odd row")}

    def asked(_caller: Caller, short_id: str, _demand: Demand) -> Target:
        if short_id in faults:
            raise faults[short_id]
        if short_id == "gone":
            raise guard.BerthError("No longer.", code="forbidden")
        return target(short_id)

    monkeypatch.setattr(server, "target_of", asked)
    pairs = [(ALICE, "odd"), (ALICE, "fine"), (BOB, "gone")]
    assert server.refusals(pairs) == {(BOB, "gone"): "No longer."}
    faults["odd"] = OperationalError("away")
    with pytest.raises(OperationalError):
        server.refusals(pairs)


async def test_a_terminal_in_which_something_moves_is_use_and_ssh_while_it_is_open(
    two: Any, monkeypatch: Any
) -> None:
    one, _first, second, _faults = two
    noted: list[Any] = []
    monkeypatch.setattr(guard, "note_used", noted.append)
    monkeypatch.setattr(guard, "later", lambda _key, note: note())
    terminal = Stream("terminal", ALICE, target("t"), Demand.OPEN)
    quiet = Stream("terminal", ALICE, target("q"), Demand.OPEN)
    silent = Stream("ssh", ALICE, target("s"), Demand.OPEN)  # what runs in it may print nothing
    quiet.moved -= 60
    silent.moved -= 60
    one.streams |= {terminal, quiet, silent, second}
    await one._recheck(None)
    assert noted == [["s", "t"]]
