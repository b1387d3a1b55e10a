"""Rolling windows of GPU-hours: exact sums, when there is room again, when they end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from budgets.policies import HOUR, SLOPE_DAYS, Use, Window, apart, hours, micros, units

NOW = datetime(2026, 11, 26, 12, 0, tzinfo=UTC)
T = micros(NOW)
H = 3_600_000_000  # of microseconds


def use(start: float, end: float | None, gpus: float = 1, uid: str = "a", launch: int = 1) -> Use:
    """Hours from now, the past below 0."""
    until = None if end is None else T + int(end * H)
    return Use(uid, launch, T + int(start * H), until, int(gpus * 1000))


def window(*uses: Use, days: int = 1, at: datetime = NOW) -> Window:
    return Window.of(uses, days, at)


@pytest.mark.parametrize(
    ("uses", "spent"),
    [
        ([], 0),
        ([use(-2, -1)], 1),
        ([use(-2, None)], 2),
        ([use(-2, None, gpus=8)], 16),
        ([use(-2, None, gpus=0.4)], Decimal("0.8")),  # a kind that weighs less
        ([use(-25, -23)], 1),  # half of it is out of the window
        ([use(-30, -24)], 0),
        ([use(-48, None)], 24),
        ([use(-1, 5)], 1),  # its end is written in the future: a clock was set back
        ([use(1, None)], 0),  # so was its start
        ([use(-3, -1, uid="a"), use(-2, -1, uid="b", gpus=2)], 4),
    ],
)
def test_what_is_spent_is_what_was_held_in_the_window(uses: list[Use], spent: Decimal) -> None:
    assert hours(window(*uses).spent) == spent


@pytest.mark.parametrize(
    ("launches", "spent"),
    [
        ([use(-4, -2), use(-2, None, launch=2)], 4),
        ([use(-4, -1), use(-2, None, launch=2)], 4),  # told an hour too late that it had ended
        ([use(-4, None), use(-2, None, launch=2)], 4),  # never told
        ([use(-2, -1), use(-4, None, launch=2)], 4),  # the clock was set back in between
    ],
)
def test_no_second_of_one_workload_counts_in_two_launches(launches: list[Use], spent: int) -> None:
    assert hours(window(*launches).spent) == spent


moments = st.integers(min_value=T - 100 * H, max_value=T + 5 * H)
piece = st.tuples(
    st.sampled_from("ab"), st.integers(1, 4), moments, st.none() | moments, st.integers(0, 8000)
)


@given(st.lists(piece, max_size=8, unique_by=lambda one: (one[0], one[1])))
def test_a_second_is_never_counted_twice(
    pieces: list[tuple[str, int, int, int | None, int]],
) -> None:
    uses = [Use(uid, n, start, end, rate) for uid, n, start, end, rate in pieces]
    found = apart(uses)
    for uid in "ab":
        spans = sorted((u.start, u.end or T + 10 * H) for u in found if u.uid == uid)
        assert all(a[1] <= b[0] for a, b in pairwise(spans))
    there = window(*uses, days=2)
    by_parts = sum(there.between(T - n * H, T - (n - 1) * H) for n in range(1, 49))
    assert there.spent == by_parts
    most = sum(max((u.rate for u in uses if u.uid == uid), default=0) for uid in "ab")
    assert 0 <= there.spent <= most * 48 * H


@given(
    st.lists(piece, max_size=6, unique_by=lambda one: (one[0], one[1])),
    st.integers(0, 100 * HOUR),
    st.booleans(),
)
def test_the_date_that_is_told_is_right(
    pieces: list[tuple[str, int, int, int | None, int]], room: int, goes_on: bool
) -> None:
    """Then, and not a moment before, no more than that is spent."""
    uses = [
        Use(uid, n, start, end if goes_on or end is not None else T, rate)
        for uid, n, start, end, rate in pieces
        if start <= T and (end is None or end <= T)
    ]
    at = window(*uses).frees(room, goes_on=goes_on)

    def spent(then: int) -> int:
        return Window.of(uses, 1, NOW + timedelta(microseconds=then - T)).spent

    if at is None:
        assert goes_on
        assert spent(T + 40 * 24 * H) > room
        return
    assert spent(micros(at)) <= room
    if micros(at) > T:
        assert spent(micros(at) - 1) > room


def test_there_is_room_when_the_old_has_fallen_out() -> None:
    there = window(use(-23, -20), use(-10, -5, uid="b"))
    assert there.spent == 8 * HOUR
    assert there.frees(8 * HOUR, goes_on=True) == NOW
    assert there.frees(6 * HOUR, goes_on=True) == NOW + timedelta(hours=3)
    assert there.frees(0, goes_on=True) == NOW + timedelta(hours=19)
    assert there.frees(-1, goes_on=True) is None


def test_what_runs_on_and_on_never_leaves_room() -> None:
    there = window(use(-2, None))
    assert there.frees(HOUR, goes_on=True) is None
    assert there.frees(HOUR, goes_on=False) == NOW + timedelta(hours=23)


def test_the_end_is_told_by_the_last_days() -> None:
    daily = [use(-24 * n - 5, -24 * n - 1, uid=f"d{n}") for n in range(7)]  # 4 a day
    found = window(*daily, days=30).forecast(units(Decimal(40)))
    assert found.days == SLOPE_DAYS
    assert found.at is not None
    assert found.earliest == found.at == found.latest
    assert timedelta(days=2, hours=23) < found.at - NOW < timedelta(days=3, hours=1)


def test_the_end_is_a_range_where_days_differ() -> None:
    daily = [use(-24 * n - 1 - n, -24 * n - 1, uid=f"d{n}") for n in range(7)]  # fewer lately
    found = window(*daily, days=60).forecast(units(Decimal(60)))
    assert found.earliest is not None
    assert found.at is not None
    assert found.latest is not None
    assert NOW < found.earliest < found.at < found.latest


def test_what_falls_out_as_fast_as_it_comes_in_is_never_spent() -> None:
    daily = [use(-24 * n - 5, -24 * n - 1, uid=f"d{n}") for n in range(7)]
    found = window(*daily, days=7).forecast(units(Decimal(33)))
    assert (found.at, found.earliest, found.latest) == (None, None, None)
    assert found.days == SLOPE_DAYS


def test_nothing_used_has_no_end_and_what_is_spent_ended_now() -> None:
    assert window().forecast(HOUR).days == 0
    assert window(use(-2, -1)).forecast(HOUR).at == NOW
    assert window(use(-9 * 24, -8 * 24), days=30).forecast(units(Decimal(100))).days == 0
