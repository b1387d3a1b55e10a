"""Every second of every device has one cause and one owner, whatever is restarted or repeated."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
import time_machine
from hypothesis import given
from hypothesis import strategies as st

from metrics.models import FIELDS, MinuteSample
from runtime.protocol import Phase
from runtime.reconcilers import Outcome, Transition
from tests.usage.test_intervals import work
from usage import closing, ratios
from usage.ledger import FREE, HELD, HOUR, MINUTE, Dims, Hold, Supply, Want, ledger
from usage.listeners import keep_intervals
from usage.models import (
    CapacityHour,
    Grain,
    Interval,
    LateFact,
    LedgerDay,
    LedgerHour,
    LedgerProgress,
    Mark,
    Wait,
)
from usage.ratios import Scope

OWNER = Dims("local", "h100", UUID(int=1), "vision", UUID(int=2), "alice", "workspace")
T0 = 480_000 * HOUR  # an hour's begin


def hold(begin: int, end: int, *marks: tuple[int, str], gpus: int = 2, **extra: Any) -> Hold:
    return Hold(
        OWNER,
        UUID(int=9),
        gpus,
        T0 + begin,
        T0 + end,
        tuple((T0 + a, w) for a, w in marks),
        **extra,
    )


def of(rows: dict[Dims, Any], dims: Dims = OWNER) -> dict[str, float]:
    """In GPU-minutes."""
    return {name: value / MINUTE for name, value in rows[dims].items() if value}


def test_each_part_of_a_launch_has_its_cause() -> None:
    use = {T0 + n * MINUTE: rate for n, rate in [(20, 50.0), (21, 100.0), (22, 0.0), (23, 4.9)]}
    one = hold(
        10 * MINUTE,
        40 * MINUTE,
        (12 * MINUTE, "pull"),
        (18 * MINUTE, "start"),
        (20 * MINUTE, "run"),
        (25 * MINUTE, "down"),
        (30 * MINUTE, "run"),
        (38 * MINUTE, "stop"),
    )
    rows = ledger(T0, [one], [], {one.uid: use}, [], busy=5.0)
    found = of(rows)
    assert found == {
        "attached": 60,
        "pull": 12,
        "start": 8,
        "computing": pytest.approx(3),
        "underused": pytest.approx(1),
        "idle": 4,
        "unknown": 2 + 16,
        "crash": 10,
        "stop": 4,
        "measured": 8,
        "utilised": pytest.approx(3.098, abs=0.01),
    }


def test_what_is_computed_again_is_lost_and_older_work_is_taken_as_saved() -> None:
    use = {T0 + n * MINUTE: 80.0 for n in range(60)}
    lost = hold(0, 50 * MINUTE, (0, "run"), gpus=1, taken=True)
    assert of(ledger(T0, [lost], [], {lost.uid: use}, [], busy=5.0))["repeated"] == 50
    again = hold(0, HOUR, (0, "run"), (20 * MINUTE, "lost"), (25 * MINUTE, "run"), gpus=1)
    found = of(ledger(T0, [again], [], {again.uid: use}, [], busy=5.0))
    assert (found["repeated"], found["computing"]) == (25, pytest.approx(28))
    long = hold(0, 24 * HOUR + 30 * MINUTE, (0, "run"), gpus=1, taken=True)
    found = of(ledger(T0, [long], [], {long.uid: use}, [], busy=5.0))
    assert (found["repeated"], found["computing"]) == (30, pytest.approx(24))


def test_what_never_was_ready_crashed() -> None:
    found = of(ledger(T0, [hold(0, 6 * MINUTE, failed=True)], [], {}, [], busy=5.0))
    assert found == {"attached": 12, "crash": 12}


def test_what_nobody_held_has_a_cause_too() -> None:
    there = Supply("local", "h100", total=10, out=2, others=1, fragmented=3, held_back=1)
    rows = ledger(T0, [hold(0, HOUR)], [Want(OWNER, 4, T0, T0 + HOUR)], {}, [there], busy=5.0)
    assert of(rows, Dims("local", "h100")) == {
        "supply": 600,
        "fragmented": 180,
        "held_back": 60,
        "unasked": 240,
        "out": 120,
        "others": 60,
    }
    assert of(rows)["waiting"] == 240


WORDS = st.sampled_from(["start", "pull", "run", "down", "lost", "wait", "stop"])
MOMENT = st.integers(-2 * HOUR, 3 * HOUR)
HOLDS = st.builds(
    lambda begin, length, marks, gpus, failed, taken, n: Hold(
        OWNER._replace(kind=f"k{n % 2}"),
        UUID(int=n),
        gpus,
        T0 + begin,
        T0 + begin + length,
        tuple((T0 + at, word) for at, word in marks),  # in any order: clocks step
        failed,
        taken,
    ),
    MOMENT,
    st.integers(0, 3 * HOUR),
    st.lists(st.tuples(MOMENT, WORDS), max_size=8),
    st.integers(1, 8),
    st.booleans(),
    st.booleans(),
    st.integers(0, 3),
)
USE = st.dictionaries(
    st.integers(0, 59).map(lambda n: T0 + n * MINUTE),
    st.floats(-1e9, 1e9) | st.just(float("nan")),
    max_size=60,
)
SUPPLY = st.builds(Supply, st.just("local"), st.just("h100"), *([st.floats(0, 100)] * 5))


@given(
    st.lists(HOLDS, max_size=6),
    st.dictionaries(st.integers(0, 3).map(lambda n: UUID(int=n)), USE),
    SUPPLY,
)
def test_causes_add_up_to_wall_time_times_gpus(
    holds: list[Hold], use: dict[UUID, dict[int, float]], supply: Supply
) -> None:
    rows = ledger(T0, holds, [], use, [supply], busy=5.0)
    wall = sum(max(0, min(h.end, T0 + HOUR) - max(h.begin, T0)) * h.gpus for h in holds)
    attached = sum(row["attached"] for row in rows.values())
    assert attached + sum(row["waiting"] for row in rows.values()) == wall
    for row in rows.values():
        assert row["attached"] == sum(row[cause] for cause in HELD)
        assert all(row[name] >= 0 for name in (*HELD, *FREE))
        assert 0 <= row["utilised"] <= row["measured"] <= row["attached"]
    free = rows[Dims("local", "h100")]
    kept = free["fragmented"] + free["held_back"] + free["unasked"]
    assert free["supply"] == attached + kept
    assert free["supply"] >= round(supply.total * HOUR)


@given(HOLDS, USE)
def test_an_hour_is_the_sum_of_its_parts_and_the_next_hour_goes_on(
    one: Hold, use: dict[int, float]
) -> None:
    """Cutting a launch in two at any hour loses and doubles nothing."""
    whole = sum(
        row["attached"] + row["waiting"]
        for n in range(-3, 7)
        for row in ledger(T0 + n * HOUR, [one], [], {one.uid: use}, [], busy=5.0).values()
    )
    assert whole == (one.end - one.begin) * one.gpus


# --- the listener, told by a real clock that steps, then the duty --------------------------------

NOON = datetime(2026, 11, 2, 12, 0, tzinfo=UTC)
pytestmark = pytest.mark.django_db


def told(row: Any, at: float, phase: Phase, ref: dict[str, Any], **more: Any) -> None:
    """``at``: minutes after noon."""
    row.reason = more.pop("reason", "")
    with time_machine.travel(NOON + timedelta(minutes=at), tick=False):
        outcome = Outcome(phase, external_ref=ref, updates=more)
        keep_intervals(Transition(row, Phase.PENDING, phase, outcome, False, row))


def minute(at: float) -> float:
    return (NOON + timedelta(minutes=at)).timestamp()


def measured(uid: UUID, first: int, last: int, rate: float) -> None:
    counts: dict[str, Any] = {f"{name}_count": 0 for name in FIELDS}
    MinuteSample.objects.bulk_create(
        MinuteSample(
            **counts | {"gpu_utilisation_count": 2, "gpu_utilisation_sum": 2 * rate},
            uid=uid,
            at=NOON + timedelta(minutes=n),
            samples=2,
            shared=0,
            simulated=0,
        )
        for n in range(first, last)
    )


def close(at: float) -> int:
    with time_machine.travel(NOON + timedelta(minutes=at), tick=False):
        return closing.close_due(most=100)


def sums(**only: Any) -> dict[str, float]:
    """GPU-minutes of all hours."""
    rows = LedgerHour.objects.filter(**only)
    names = ("supply", "waiting", "attached", "measured", *HELD, *FREE)
    found = {name: sum(getattr(row, name) for row in rows) / 60 for name in names}
    return {name: round(value, 6) for name, value in found.items() if value}


def test_a_day_in_the_life_of_a_launch(project: Any, alice: Any) -> None:
    row = work(project, alice, asked_at=NOON + timedelta(minutes=5))
    told(row, 6, Phase.PENDING, {}, reason="queued")
    placed = {"launch": 1, "placed_at": minute(20), "devices": ["GPU-1", "GPU-2"]}
    told(row, 20, Phase.STARTING, placed, reason="placed")
    told(row, 21, Phase.STARTING, placed, reason="pulling")
    told(row, 25, Phase.STARTING, placed, reason="placed")
    for _ in range(2):  # repeated
        told(row, 27, Phase.RUNNING, placed)
    measured(row.uid, 30, 70, 50.0)
    told(row, 80, Phase.STOPPING, placed, reason="user")
    told(row, 81, Phase.STOPPED, {**placed, "exit": {"at": minute(82)}}, reason="user")
    wait = Wait.objects.get()
    assert (wait.began_at, wait.ended_at) == (
        NOON + timedelta(minutes=5),
        NOON + timedelta(minutes=20),
    )
    assert (wait.placed, wait.reason) == (True, "queued")
    only = Interval.objects.get()
    assert [word for _at, word in only.marks] == ["pull", "start", "run", "stop"]
    assert only.ready_at == NOON + timedelta(minutes=27)
    close(140)
    assert sums() == {
        "waiting": 30,
        "attached": 122,
        "measured": 80,
        "computing": 40,
        "underused": 40,
        "unknown": 2 * (53 - 40),
        "pull": 8,
        "start": 6,
        "stop": 2,
    }
    before = list(LedgerHour.objects.order_by("hour").values_list("hour", *HELD))
    LedgerProgress.objects.update(until=NOON)  # a worker was killed, the next one repeats
    close(140)
    assert list(LedgerHour.objects.order_by("hour").values_list("hour", *HELD)) == before
    for grain in Grain:
        assert sum(r.attached for r in LedgerDay.objects.filter(grain=grain)) == 122 * 60
    assert LedgerDay.objects.get(grain=Grain.OWNER).owner_name == "alice"


def test_what_is_learned_late_is_written_anew(project: Any, alice: Any) -> None:
    """The portal was down: when it went is known only afterwards."""
    row = work(project, alice, asked_at=NOON)
    placed = {"launch": 1, "placed_at": minute(0)}
    told(row, 0, Phase.RUNNING, placed)
    close(250)
    assert sums()["attached"] == 2 * 240
    told(row, 260, Phase.FAILED, {**placed, "exit": {"at": minute(90)}}, reason="vanished")
    close(310)
    assert sums()["attached"] == 2 * 90
    assert not LateFact.objects.exists()
    assert close(310) == 0


def test_what_was_taken_away_is_found_to_be_lost_later(project: Any, alice: Any) -> None:
    row = work(project, alice, asked_at=NOON)
    placed = {"launch": 1, "placed_at": minute(0)}
    told(row, 0, Phase.RUNNING, placed)
    measured(row.uid, 0, 120, 100.0)
    close(130)
    assert sums()["computing"] == 2 * 120
    told(row, 130, Phase.PENDING, {}, reason="preempted", launch=2)
    again = work(project, alice, launch=2, asked_at=NOON)
    told(again, 150, Phase.RUNNING, {"launch": 2, "placed_at": minute(150)})
    close(200)
    found = sums()
    assert found["repeated"] == 2 * 120
    assert found["waiting"] == 2 * 20
    assert found["attached"] == 2 * (130 + 30)


def test_what_a_cluster_holds_back_after_it_was_handed_over_waits_and_holds_nothing(
    project: Any, alice: Any
) -> None:
    """Its queue has not let it in, and later takes its place from it."""
    row = work(project, alice, asked_at=NOON)
    handed = {"launch": 1, "placed_at": minute(0)}
    told(row, 0, Phase.STARTING, handed, reason="placed")
    told(row, 1, Phase.PENDING, {**handed, "line": {"queue": "q"}}, reason="queued")
    assert ratios.at_present(Scope())[0].waiting == 2
    told(row, 21, Phase.STARTING, handed, reason="placed")
    told(row, 23, Phase.RUNNING, handed)
    assert ratios.at_present(Scope())[0].attached == 2
    measured(row.uid, 23, 43, 100.0)
    told(row, 43, Phase.PENDING, {**handed, "line": {"queue": "q"}}, reason="queued")
    told(row, 50, Phase.STARTING, handed, reason="placed")
    told(row, 52, Phase.RUNNING, handed)
    told(row, 55, Phase.STOPPED, {**handed, "exit": {"at": minute(55)}})
    close(80)
    assert sums() == {
        "waiting": 2 * (20 + 7),
        "attached": 2 * (1 + 2 + 20 + 2 + 3),
        "measured": 2 * 20,
        "start": 2 * 3,
        "repeated": 2 * (20 + 2),
        "unknown": 2 * 3,
    }


def test_a_wish_that_is_withdrawn_waited_until_then(project: Any, alice: Any) -> None:
    row = work(project, alice, asked_at=NOON)
    told(row, 1, Phase.PENDING, {}, reason="queued")
    told(row, 40, Phase.STOPPED, {}, reason="user")
    told(row, 50, Phase.STOPPED, {}, reason="user")
    close(80)
    assert sums() == {"waiting": 80}
    assert not Wait.objects.get().placed


def test_a_clock_that_steps_back_loses_and_doubles_nothing(project: Any, alice: Any) -> None:
    row = work(project, alice, asked_at=NOON + timedelta(minutes=10))
    told(row, 5, Phase.PENDING, {}, reason="queued")  # it was set back since it was asked for
    placed = {"launch": 1, "placed_at": minute(8)}
    told(row, 8, Phase.STARTING, placed, reason="placed")
    told(row, 30, Phase.RUNNING, placed)
    told(row, 20, Phase.STOPPING, placed)
    told(row, 21, Phase.STOPPED, {**placed, "exit": {"at": minute(40)}})
    close(80)
    only = Interval.objects.get()
    assert only.placed_at is not None
    assert only.ended_at is not None
    found = sums()
    assert found["attached"] == 2 * (only.ended_at - only.placed_at).total_seconds() / 60
    assert found["attached"] == sum(found.get(cause, 0) for cause in HELD)


def test_hours_that_a_clock_wrote_that_was_a_day_ahead_are_written_anew(
    project: Any, alice: Any
) -> None:
    row = work(project, alice, asked_at=NOON)
    placed = {"launch": 1, "placed_at": minute(10)}
    told(row, 10, Phase.STARTING, placed, reason="placed")
    told(row, 12, Phase.RUNNING, placed)
    close(24 * 60 + 80)  # for a moment
    close(85)
    told(row, 90, Phase.STOPPED, {**placed, "exit": {"at": minute(90)}})
    close(24 * 60 + 80)  # now it is
    assert sums()["attached"] == 2 * 80


def test_supply_that_nobody_looked_at_is_as_it_was_seen_before(db: None) -> None:
    CapacityHour.objects.create(
        cluster_key="local", flavor="h100-80", hour=NOON, samples=2, supply=16, held_back=2, out=2
    )
    close(130)
    assert sums(hour=NOON) == {"supply": 480, "unasked": 420, "held_back": 60, "out": 60}
    assert sums(hour=NOON + timedelta(hours=1)) == {"supply": 480, "unasked": 480, "out": 60}


def test_marks_of_one_that_comes_and_goes_for_ever_are_bounded(project: Any, alice: Any) -> None:
    row = work(project, alice)
    placed = {"launch": 1, "placed_at": minute(0), "pod": {"times": 0}}
    for n in range(150):
        told(row, n, Phase.RUNNING, placed)
        told(row, n + 0.5, Phase.STARTING, placed, reason="tried-again")
    told(row, 200, Phase.STOPPING, placed)
    marks = Interval.objects.get().marks
    assert len(marks) < 210
    assert [word for _at, word in marks[-2:]] == [Mark.DOWN, Mark.STOP]
