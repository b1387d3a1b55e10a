"""What a program tells of itself: its own words, read with limits, whatever is in the file."""

from __future__ import annotations

import json
import math
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from usage.told import LINE, Told, feed, read_anew, steps_of, told_of

T0 = 1_800_000_000_000


def line(**said: Any) -> bytes:
    """Return one event; what ends with ``_time`` is in seconds of the launch."""
    named = {k: T0 / 1000 + v if k.endswith("_time") else v for k, v in said.items()}
    return json.dumps({"job_name": "train", **named}).encode() + b"\n"


def step(number: int, at: float) -> bytes:
    return line(step_count=number, step_start_time=at)


def fed(*lines: bytes, kept: Any = None, until: int = 3600) -> dict[str, Any]:
    return feed(kept or {}, b"".join(lines), begin=T0, until=T0 + until * 1000)


def test_g9_the_words_of_ml_goodput_measurement_are_understood() -> None:
    found = fed(
        line(job_start_time=1),
        line(tpu_init_start_time=1),
        line(tpu_init_end_time=4),
        line(training_prep_start_time=4),
        line(training_prep_end_time=6),
        line(data_loading_start_time=6),
        line(data_loading_end_time=7),
        step(0, 7),
        step(1, 9),
        line(custom_badput_event_start_time=9, custom_badput_event_type="eval"),
        line(custom_badput_event_end_time=10, custom_badput_event_type="eval"),
        step(2, 12),
        line(
            event_type="save",
            step=2,
            checkpoint_manager_blocking_start_time=13,
            checkpoint_manager_blocking_duration_secs=0.5,
        ),
        line(checkpoint_restore_start_time=20),
        line(checkpoint_restore_end_time=21),
        line(job_end_time=22),
    )
    spans = [((a - T0) / 1000, (b - T0) / 1000, cause) for a, b, cause in told_of(found).spans]
    assert spans == [
        (1, 4, "accelerator"),
        (4, 6, "prepare"),
        (6, 7, "data"),
        (9, 10, "other"),
        (13, 13.5, "checkpoint"),
        (20, 21, "restore"),
    ]
    (start,) = told_of(found).starts
    assert (start.begin, start.began(1), start.began(3)) == (T0 + 1000, T0 + 9000, None)
    told = steps_of(found)
    assert told is not None
    assert (told.count, told.mean) == (3, (2000 + 2000 + 8500) / 3)
    assert found["unused"] == 0


def test_g9_steps_begin_anew_with_or_without_a_word() -> None:
    found = fed(*(step(n, n) for n in range(5)), step(3, 10), step(4, 11), line(job_start_time=20))
    starts = [[at for _step, at in start.steps] for start in told_of(found).starts]
    assert [len(steps) for steps in starts] == [5, 2, 0]
    assert told_of(found).starts[0].began(3) == T0 + 3000


def test_how_far_it_is_told_again_of_the_same_step_begins_nothing_anew() -> None:
    words = [
        line(step_count=n, step_start_time=at, progress=p)
        for n, at, p in ((10, 1, 0.5), (20, 3, 0.9), (20, 5, 0.95), (20, 7, 1))
    ]
    found = fed(*words)
    assert found["progress"] == [1.0, 20, 0, []]
    assert (len(found["starts"]), found["unused"]) == (1, 0)


def test_why_something_failed_is_kept_in_few_words_and_nothing_else_is() -> None:
    wrong = [["no number", "3"], ["negative", -1], "text", ["short"], {"a": 1}, ["beyond", 9]]
    for said, kept in (
        ([["too wide", 3], ["w" * 500, 2]], [["too wide", 3], ["w" * 200, 2]]),
        ([["\0a\ud800", 1], [["x"], 2]], [["?a?", 1]]),
        (wrong, []),
        ([[f"{n}", n] for n in range(9)], [[f"{n}", n] for n in range(5)]),
        ("text", []),
    ):
        told = line(step_count=4, step_start_time=1, progress=0.5, failed=3, failed_because=said)
        assert fed(told)["progress"] == [0.5, 4, 3, kept]


def test_a_start_at_the_step_that_was_told_last_counts_also_where_progress_is_told() -> None:
    """The time that it was away is no step that took so long."""
    before = [line(step_count=n, step_start_time=n, progress=n / 100) for n in range(10)]
    waits = [line(step_count=9, step_start_time=9 + n, progress=0.1) for n in range(2, 60, 2)]
    anew = [line(step_count=9 + n, step_start_time=377 + n, progress=0.2) for n in range(3)]
    found = fed(*before, *waits, *anew)
    assert [start.begin - T0 for start in told_of(found).starts] == [0, 377_000]
    told = steps_of(found)
    assert told is not None
    assert (told.count, told.slowest, found["unused"]) == (11, [], 0)


def test_g9_what_stands_out_among_steps_is_named() -> None:
    at, lines = 0.0, []
    for number in range(100):
        lines.append(step(number, at))
        at += 40.0 if number == 70 else 2.0
    told = steps_of(fed(*lines))
    assert told is not None
    assert 1900 < told.usual < 2100
    assert told.slowest == [(70, 40_000)]


def test_g9_a_million_steps_are_kept_in_little() -> None:
    count = 30_000
    found: dict[str, Any] = {}
    for first in range(0, count, 5000):
        numbers = range(first, first + 5000)
        lines = (
            part
            for n in numbers
            for part in (
                step(n, n / 10),
                line(data_loading_start_time=n / 10),
                line(data_loading_end_time=n / 10 + 0.02),
            )
        )
        found = fed(*lines, kept=found)
    assert len(json.dumps(found)) < 60_000
    told = steps_of(found)
    assert told is not None
    assert told.count == count - 1
    assert abs(told.mean - 80) < 1
    (start,) = told_of(found).starts
    assert start.began(12_345) == T0 + 1_234_500
    loading = sum(end - begin for begin, end, _cause in told_of(found).spans)
    assert abs(loading - count * 20) < 100
    assert found["width"] <= 120_000  # where they stand is known to two minutes


HOSTILE = [
    b"{" * 3000 + b'"step_start_time"\n',
    b'{"step_start_time": 1e999, "step_count": 1}\n',
    b'{"step_start_time": NaN, "step_count": 1}\n',
    b'{"step_start_time": "now", "step_count": 1}\n',
    b'{"step_start_time": true, "step_count": 1}\n',
    b'{"step_start_time": ' + b"9" * 400 + b', "step_count": 1}\n',
    b'{"event_type": "save", "checkpoint_manager_blocking_start_time": []}\n',
    b'["step_count"]\n',
    b"\xff\xfe\x00{\n",
    line(job_start_time=-6),
    line(job_start_time=1e9),
    line(step_count=-1, step_start_time=5),
    line(step_count=1.5, step_start_time=5),
    line(step_count=True, step_start_time=5),
    line(data_loading_end_time=5),
    line(
        event_type="save",
        checkpoint_manager_blocking_start_time=5,
        checkpoint_manager_blocking_duration_secs=math.inf,
    ),
]


def test_g9_hostile_lines_and_lying_clocks_are_counted_and_change_nothing() -> None:
    found = fed(*HOSTILE, b'{"step_start_time": 1' + b" " * LINE + b"}\n", b"plain text\n")
    assert told_of(found) == Told([], [])
    assert steps_of(found) is None
    assert found["unused"] == len(HOSTILE) - 2  # what is no event at all is nobody's mistake
    back = fed(step(1, 50), step(2, 40), step(2, 60))
    assert (back["unused"], back["count"]) == (1, 1)


def test_g9_a_step_whose_clock_was_ahead_spoils_no_other() -> None:
    ahead = [step(0, 10), step(1, 11), step(2, 300), *(step(n, 10 + n) for n in range(3, 8))]
    found = fed(*ahead)
    (start,) = told_of(found).starts
    assert (start.began(1), start.began(7)) == (T0 + 11_000, T0 + 17_000)
    told = steps_of(found)
    assert told is not None
    assert (found["unused"], told.count) == (1, 6)  # 0, the one that was ahead, 3 to 6
    late = fed(*(step(n, 58 + n) for n in range(5)), until=60)  # as it is read, 2 s ahead
    assert [at for _n, at in told_of(late).starts[0].steps] == [
        T0 + 1000 * n for n in range(58, 63)
    ]


def hostile_steps(count: int) -> list[bytes]:
    """Another start after every 250 steps, with the largest numbers; what takes most room."""
    large = (1 << 53) - 1000
    lines = []
    for n in range(count):
        if not n % 250:
            lines.append(line(job_start_time=n / 100))
        lines += [
            step(large + n % 250, n / 100),
            line(checkpoint_restore_start_time=n / 100),
            line(checkpoint_restore_end_time=n / 100 + 0.001 * (n % 7)),
        ]
    return lines


def test_g9_hostile_events_hold_no_more_than_64_kib() -> None:
    found = fed(*hostile_steps(60_000))
    assert len(json.dumps(found)) < 64 * 1024
    assert len(told_of(found).starts) == 100
    assert found["count"] == 60_000 - 240  # the last of a start has no end


def test_g9_lines_that_are_read_again_count_once() -> None:
    lines = [line(job_start_time=1), *(step(n, 10 + n) for n in range(5))]
    once = fed(*lines)
    twice = fed(*lines, step(5, 15), kept=read_anew(once))
    assert twice["count"] == 5
    assert len(twice["starts"]) == 1


@given(
    st.lists(
        st.one_of(
            st.sampled_from(HOSTILE),
            st.binary(max_size=200),
            st.builds(step, st.integers(-1, 9), st.floats(-10, 4000, allow_nan=False)),
        ),
        max_size=30,
    )
)
def test_g9_any_bytes_give_spans_and_starts_within_the_launch(lines: list[bytes]) -> None:
    found = told_of(json.loads(json.dumps(fed(*lines))))
    low, high = T0, T0 + 3_605_000  # 5 s are let pass for another clock; parts end with their run
    assert all(low <= begin <= end <= high for begin, end, _cause in found.spans)
    for start in found.starts:
        times = [at for _step, at in start.steps]
        assert times == sorted(times)
        assert all(low <= at <= high for at in (start.begin, *times))
