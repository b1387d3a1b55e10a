"""What a run's time came to: parts without a gap, and no second is told twice."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from usage.goodput import CAUSES, Goodput, Held, parts
from usage.ledger import MINUTE

T0 = 480_000 * 60 * MINUTE


def held(asked: float, begin: float, end: float, *marks: tuple[float, str], **more: Any) -> Held:
    """In minutes."""

    def at(minute: float) -> int:
        return T0 + round(minute * MINUTE)

    return Held(
        more.pop("launch", 1), at(asked), at(begin), at(end), [(at(m), w) for m, w in marks], **more
    )


def sums(*run: Held, use: Any = None, checkpoints: Any = (), gpus: int = 1) -> dict[str, float]:
    """In minutes."""
    saved = [(T0 + a * MINUTE, T0 + b * MINUTE) for a, b in checkpoints]
    known = {T0 + minute * MINUTE: rate for minute, rate in (use or {}).items()}
    found = Goodput(gpus, True, list(parts(run, known, saved, busy=5.0)), True, bool(known))
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


WORDS = st.sampled_from(["start", "pull", "run", "down", "lost", "wait", "stop"])
MINUTES = st.floats(-30, 300, allow_nan=False)
HELD = st.builds(
    lambda asked, wait, length, marks, taken, n: held(
        asked, asked + wait, asked + wait + length, *marks, taken=taken, launch=n
    ),
    st.floats(0, 100),
    st.floats(0, 50),
    st.floats(-5, 200),
    st.lists(st.tuples(MINUTES, WORDS), max_size=6),
    st.booleans(),
    st.integers(1, 3),
)


@given(
    st.lists(HELD, min_size=1, max_size=3),
    st.dictionaries(st.integers(0, 300), st.floats(-1, 120), max_size=20),
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 20)), max_size=3),
)
def test_g9_parts_have_no_gap_and_add_up_to_the_wall_time(
    run: list[Held], use: dict[int, float], saved: list[tuple[int, int]]
) -> None:
    known = {T0 + minute * MINUTE: rate for minute, rate in use.items()}
    checkpoints = [(T0 + at * MINUTE, T0 + (at + length) * MINUTE) for at, length in saved]
    found = list(parts(run, known, checkpoints, busy=5.0))
    at = run[0].asked
    for part in found:
        assert part.begin == at < part.end
        assert part.cause in CAUSES
        at = part.end
    assert Goodput(2, True, found, True, True).wall == at - run[0].asked
    assert at >= max(one.end for one in run)
