"""What a run's time came to: parts without a gap, and no second is told twice."""

from __future__ import annotations

import gzip
import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from usage.goodput import CAUSES, TOLD, Goodput, Held, parts
from usage.ledger import MINUTE
from usage.told import Start, Steps, Told

T0 = 480_000 * 60 * MINUTE


def held(asked: float, begin: float, end: float, *marks: tuple[float, str], **more: Any) -> Held:
    """In minutes."""

    def at(minute: float) -> int:
        return T0 + round(minute * MINUTE)

    return Held(
        more.pop("launch", 1), at(asked), at(begin), at(end), [(at(m), w) for m, w in marks], **more
    )


def told(spans: Any = (), starts: Any = ()) -> Told:
    """In minutes; of a start its begin and its steps, number → minute."""
    return Told(
        [(T0 + a * MINUTE, T0 + b * MINUTE, cause) for a, b, cause in spans],
        [
            Start(T0 + begin * MINUTE, [(step, T0 + at * MINUTE) for step, at in steps.items()])
            for begin, steps in starts
        ],
    )


def sums(
    *run: Held, use: Any = None, checkpoints: Any = (), smoke: Any = (), **said: Any
) -> dict[str, float]:
    """In minutes."""
    known = {T0 + minute * MINUTE: rate for minute, rate in (use or {}).items()}
    spans = [*((a, b, "checkpoint") for a, b in checkpoints), *said.pop("spans", ())]
    smoked = [(T0 + a * MINUTE, T0 + b * MINUTE) for a, b in smoke]
    cut = parts(run, known, told(spans, **said), busy=5.0, smoke=smoked)
    found = Goodput({1: 1}, list(cut), True, bool(known))
    return {cause: length / MINUTE for cause, length in found.sums.items()}


RUN = ((12, "pull"), (18, "start"), (20, "run"), (40, "stop"))


def test_g9_each_part_of_a_run_has_its_name() -> None:
    use = dict.fromkeys(range(20, 40), 80.0) | {30: 0.0, 31: 1.0}
    found = sums(held(0, 10, 41, *RUN), use=use, checkpoints=[(25, 26)])
    assert found == {
        "queue": 10,
        "start": 4,
        "pull": 6,
        "run": 17,
        "checkpoint": 1,
        "idle": 2,
        "end": 1,
    }


def test_g9_a_restart_that_goes_on_with_the_next_step_did_nothing_again() -> None:
    """Though its program says no word of its start."""
    lost = held(0, 0, 60, (0, "run"), (20, "down"), (25, "run"))
    every = {n: n for n in range(1, 20)}
    again = {20 + n: 26 + n for n in range(30)}
    assert sums(lost, starts=[(1, every | again)]) == {"prepare": 2, "run": 53, "restart": 5}
    later = {n: 10 + n for n in range(16, 50)}  # from step 16 on
    assert sums(lost, starts=[(1, every), (26, later)])["repeated"] == 4


def test_g9_what_is_kept_of_a_run_is_what_it_was() -> None:
    told_ = Steps(3, 2.5, 2.0, [(2, 9)])
    cut = list(parts([held(0, 10, 41, *RUN)], {}, told(), busy=5.0))
    found = Goodput({1: 2}, cut, True, False, told_)
    kept = Goodput.unpacked(found.packed())
    assert (kept.parts, kept.sums, kept.sizes) == (found.parts, found.sums, {1: 2})
    assert (kept.is_over, kept.measured, kept.has_gpus) == (True, False, True)
    assert kept.steps is not None
    assert (kept.steps.count, [tuple(one) for one in kept.steps.slowest]) == (3, [(2, 9)])


@pytest.mark.parametrize(("gpus", "has_gpus", "whole"), [(2, True, 82), (1, False, 41)])
def test_g9_what_a_version_before_kept_is_read(gpus: int, has_gpus: bool, whole: int) -> None:
    cut = list(parts([held(0, 10, 41, *RUN)], {}, told(), busy=5.0))
    pieces = [[one.end - one.begin, CAUSES.index(one.cause), one.launch] for one in cut]
    said = [CAUSES, cut[0].begin, pieces, gpus, has_gpus, True, None]
    kept = Goodput.unpacked(gzip.compress(json.dumps(said).encode()))
    assert (kept.parts, kept.gpus, kept.has_gpus) == (cut, gpus, has_gpus)
    assert (kept.whole, kept.measured) == (whole * MINUTE, True)


@pytest.mark.parametrize("sizes", [{1: 4, 2: 2}, {1: 0, 2: 0}])
def test_g9_what_is_kept_is_read_by_a_version_before(sizes: dict[int, int]) -> None:
    """It takes seven, the fifth as whether there are GPUs."""
    run = [
        held(0, 0, 30, (0, "run"), lost=True, taken=True),
        held(30, 35, 75, (35, "run"), launch=2),
    ]
    cut = list(parts(run, {}, told(), busy=5.0))
    found = Goodput(sizes, cut, True, False)
    kept = json.loads(gzip.decompress(found.packed()))
    _causes, _at, pieces, gpus, has_gpus, _measured, _steps = kept
    assert (len(pieces), gpus, bool(has_gpus)) == (len(cut), sizes[2] or 1, any(sizes.values()))
    again = Goodput.unpacked(found.packed())
    assert (again.weighed, again.has_gpus) == (found.weighed, found.has_gpus)


def test_g9_each_launch_counts_with_its_own_gpus() -> None:
    """Four for half an hour, then two: of 200 GPU-minutes 80 were productive."""
    first = held(0, 0, 30, (0, "run"), lost=True, taken=True, gpus=4)
    again = held(30, 35, 75, (35, "run"), launch=2, gpus=2)
    spans = told([(9, 10, "checkpoint")])
    cut = list(parts([first, again], {}, spans, busy=5.0))
    found = Goodput({1: 4, 2: 2}, cut, True, False)
    weighed = {cause: length / MINUTE for cause, length in found.weighed.items()}
    assert weighed == {
        "run": 9 * 4 + 40 * 2,
        "checkpoint": 4,
        "repeated": 20 * 4,
        "restart": 5 * 2,
    }
    assert found.whole / MINUTE == 30 * 4 + 45 * 2
    assert found.ratio == 116 / 210
    assert found.greatest_loss == "repeated"
    assert (found.gpus, found.fewest, found.most) == (2, 2, 4)


def test_g9_what_a_restart_does_again_is_not_productive() -> None:
    lost = held(0, 0, 60, (0, "run"), (20, "lost"), (25, "run"))
    assert sums(lost) == {"repeated": 20, "restart": 5, "run": 35}
    assert sums(lost, checkpoints=[(14, 15)]) == {
        "run": 14 + 35,
        "checkpoint": 1,
        "repeated": 5,
        "restart": 5,
    }
    crashed = held(0, 0, 30, (0, "run"), (10, "down"), (12, "run"), (20, "down"), (22, "run"))
    assert sums(crashed) == {"repeated": 18, "restart": 4, "run": 8}


def test_g9_a_run_that_lost_its_place_goes_on_as_another_launch() -> None:
    first = held(0, 2, 30, (3, "run"), taken=True)
    again = held(30, 50, 90, (52, "run"), launch=2)
    assert sums(first, again) == {
        "queue": 2,
        "start": 1,
        "repeated": 27,
        "suspended": 20,
        "restart": 2,
        "run": 38,
    }
    # its cluster takes the place and lets the same launch wait
    evicted = held(0, 0, 60, (1, "run"), (20, "lost"), (21, "wait"), (40, "lost"), (42, "run"))
    assert sums(evicted) == {
        "start": 1,
        "repeated": 19,
        "restart": 1 + 2,
        "suspended": 19,
        "run": 18,
    }
    waits = held(0, 0, 60, (1, "run"), (20, "wait"), (40, "lost"), (42, "run"))
    assert sums(waits) == {"start": 1, "repeated": 19, "suspended": 20, "restart": 2, "run": 18}


def test_g9_steps_that_a_program_told_say_what_a_restart_did_again() -> None:
    lost = held(0, 0, 60, (0, "run"), (30, "lost"), (35, "run"))
    first, again = (1, {0: 5, 10: 15, 20: 25}), (36, {12: 38, 30: 56})
    # ten steps in ten minutes: step 12 began at minute 17
    found = sums(lost, starts=[first, again])
    assert found == {"prepare": 5 + 3, "run": 12 + 22, "repeated": 13, "restart": 5}
    saved = sums(lost, starts=[first, again], spans=[(16, 17, "checkpoint"), (36, 38, "restore")])
    assert saved == {
        "prepare": 5 + 1,
        "run": 11 + 22,
        "checkpoint": 1,
        "restore": 2,
        "repeated": 13,
        "restart": 5,
    }
    # what goes on with the next step did nothing again; and who began anew in the middle is told
    assert "repeated" not in sums(lost, starts=[first, (36, {21: 38})])
    inside = held(0, 0, 60, (0, "run"))
    assert sums(inside, starts=[first, again])["repeated"] == 36 - 17
    # until the next start has told a step, nobody knows: as without
    assert sums(lost, starts=[first])["repeated"] == 25


def test_g9_a_smoke_run_is_told_apart_from_the_wait() -> None:
    assert sums(held(0, 10, 20, (11, "run")), smoke=[(1, 3)]) == {
        "queue": 8,
        "smoke": 2,
        "start": 1,
        "run": 9,
    }


WORDS = st.sampled_from(["start", "pull", "run", "down", "lost", "wait", "stop"])
MINUTES = st.floats(-30, 300, allow_nan=False)
HELD = st.builds(
    lambda asked, wait, length, marks, taken, n, gpus: held(
        asked, asked + wait, asked + wait + length, *marks, taken=taken, launch=n, gpus=gpus
    ),
    st.floats(0, 100),
    st.floats(0, 50),
    st.floats(-5, 200),
    st.lists(st.tuples(MINUTES, WORDS), max_size=6),
    st.booleans(),
    st.integers(1, 3),
    st.integers(0, 8),
)


@given(
    st.lists(HELD, min_size=1, max_size=3, unique_by=lambda one: one.launch),
    st.dictionaries(st.integers(0, 300), st.floats(-1, 120), max_size=20),
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 200), st.sampled_from(TOLD))),
    st.lists(
        st.tuples(st.integers(0, 200), st.dictionaries(st.integers(0, 9), st.integers(0, 250))),
        max_size=4,
    ),
    st.lists(st.tuples(st.integers(0, 100), st.integers(0, 100)), max_size=2),
)
def test_g9_parts_have_no_gap_and_add_up_to_the_time_of_each_launch_times_its_gpus(
    run: list[Held], use: dict[int, float], spans: Any, starts: Any, smoke: Any
) -> None:
    known = {T0 + minute * MINUTE: rate for minute, rate in use.items()}
    smoked = [(T0 + a * MINUTE, T0 + b * MINUTE) for a, b in smoke]
    found = list(parts(run, known, told(spans, starts), busy=5.0, smoke=smoked))
    at = run[0].asked
    for part in found:
        assert part.begin == at < part.end
        assert part.cause in CAUSES
        at = part.end
    whole, until = 0, run[0].asked
    for one in run:
        ended = max(until, one.begin, one.end)
        whole, until = whole + (ended - until) * (one.gpus or 1), ended
    told_of = Goodput({one.launch: one.gpus for one in run}, found, True, True)
    assert (told_of.wall, told_of.whole) == (at - run[0].asked, whole)
    assert sum(told_of.weighed.values()) == whole
    kept = Goodput.unpacked(told_of.packed())
    assert kept.sizes == (told_of.sizes if told_of.has_gpus else {})
    assert replace(kept, sizes=told_of.sizes) == told_of
    assert at >= max(one.end for one in run)
