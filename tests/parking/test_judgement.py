"""What is idle, what is not, and what nobody knows; what follows, and when."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from parking.judgement import (
    Because,
    Course,
    Do,
    Hours,
    Notice,
    Quiet,
    Rule,
    Signs,
    Span,
    disturbed,
    due,
    follow,
    judge,
    reached,
)

AT = datetime(2026, 3, 4, 12, tzinfo=UTC)  # a Wednesday
MINUTE = timedelta(minutes=1)
RULE = Rule(minutes=75, notice=15, least=15, act="park", extension=120, extensions=2)


def minutes(*figures, end=AT - MINUTE):
    """One span a minute, the last of which ends at ``end``."""
    begin = end - len(figures) * MINUTE
    return [
        Span(begin + n * MINUTE, MINUTE, *(one if isinstance(one, tuple) else (one, 10)))
        for n, one in enumerate(figures)
    ]


def signs(*figures, gpus=1, rule=RULE, **said):
    course = follow(rule, minutes(*figures), gpus=gpus)
    least = {"ready_at": AT - timedelta(days=1), "kernels": 0, "answered": True, "used_at": None}
    return Signs(course=course, **{**least, **said})


def test_ninety_quiet_minutes_are_idle_since_the_first_of_them():
    found = judge(signs(*[0] * 90), AT)
    assert (found.since, found.because) == (AT - 91 * MINUTE, None)


@pytest.mark.parametrize(
    ("figures", "said", "because"),
    [
        ([0] * 90, {"kernels": 1}, Because.KERNEL),  # busy, and prints nothing
        ([*[0] * 89, 60], {}, Because.GPU),
        ([*[0] * 89, (0, 900)], {}, Because.CPU),  # a terminal's job, a download, data loading
        ([0] * 90, {"used_at": AT - timedelta(seconds=20)}, Because.USED),  # SSH, a transfer
        ([0] * 90, {"answered": False}, Because.NO_KERNELS),
        ([0] * 90, {"ready_at": None}, Because.STARTING),
        ([], {}, Because.NO_FIGURES),
        ([(None, 10)] * 90, {}, Because.NO_FIGURES),  # no exporter tells of its GPUs
        ([(0, None)] * 90, {}, Because.NO_FIGURES),
        ([(None, 900)] * 90, {}, Because.CPU),  # what shows use does so alone
        ([*[0] * 80, *[(None, None)] * 10], {}, Because.NO_FIGURES),  # it went away
    ],
)
def test_what_is_in_use_or_not_known_is_not_idle(figures, said, because):
    found = judge(signs(*figures, **said), AT)
    assert (found.since, found.because) == (None, because)


def test_a_sign_of_life_begins_the_stretch_anew():
    used = AT - 10 * MINUTE
    assert judge(signs(*[0] * 90, used_at=used), AT).since == used
    ready = AT - 5 * MINUTE
    assert judge(signs(*[0] * 90, ready_at=ready), AT).since == ready


def test_work_without_a_server_is_judged_by_its_figures_alone():
    assert judge(signs(*[0] * 90, kernels=None, answered=False), AT).since is not None


@pytest.mark.parametrize(("gap", "begins"), [(2, 0), (3, 0), (4, 44)])
def test_a_time_of_which_nobody_knows_ends_a_stretch(gap, begins):
    spans = minutes(*[0] * 90)
    kept = spans[:40] + spans[40 + gap :]
    quiet = follow(RULE, kept, gpus=1).quiet
    assert quiet is not None
    assert quiet.since == spans[begins].at


def test_one_look_after_another_comes_to_the_same_as_one_look():
    spans = minutes(*[0] * 30, 80, *[0] * 30)
    whole = follow(RULE, spans, gpus=1)
    quiet = None
    for n in range(0, len(spans), 7):
        quiet = follow(RULE, spans[max(0, n - 3) : n + 7], quiet, gpus=1).quiet
    assert quiet == whole.quiet


@pytest.mark.parametrize(
    ("rule", "span", "found"),
    [
        ({"memory_below": 1000}, Span(AT, MINUTE, 0, 10, 4000), Because.MEMORY),
        ({"memory_below": 1000}, Span(AT, MINUTE, 0, 10, None), Because.NO_FIGURES),
        ({"network_below": 1e5}, Span(AT, MINUTE, 0, 10, None, 2e6), Because.NETWORK),
        ({"network_below": 1e5}, Span(AT, MINUTE, 0, 10, None, None), None),
        ({"gpu_below": 30.0}, Span(AT, MINUTE, 20, 10), None),
        ({"gpu_below": 30.0}, Span(AT, MINUTE, 30, 10), Because.GPU),
        ({}, Span(AT, MINUTE, float("nan"), 10), Because.NO_FIGURES),
    ],
)
def test_a_rule_says_what_is_quiet(rule, span, found):
    assert disturbed(Rule(60, 15, 15, "park", **rule), span, gpus=1) == found


def test_figures_of_a_clock_that_went_back_say_nothing():
    later = Course(Quiet(AT, AT + timedelta(hours=1)))
    known = Signs(AT - timedelta(days=1), later, 0, answered=True)
    assert judge(known, AT).because == Because.NO_FIGURES


def test_its_owner_is_told_and_then_it_follows():
    since = AT - 60 * MINUTE
    assert due(RULE, since, Notice(), AT - MINUTE).do == Do.WAIT
    told = due(RULE, since, Notice(), AT)
    assert (told.do, told.at) == (Do.WARN, AT + 15 * MINUTE)
    notice = Notice(warned_at=AT)
    assert due(RULE, since, notice, AT + 14 * MINUTE).do == Do.WAIT
    assert due(RULE, since, notice, AT + 15 * MINUTE).do == Do.ACT


def test_nobody_is_acted_upon_sooner_than_the_notice_says():
    long_ago = AT - timedelta(days=2)
    assert due(RULE, long_ago, Notice(), AT).at == AT + 15 * MINUTE
    assert due(RULE, long_ago, Notice(warned_at=AT), AT + 14 * MINUTE).do == Do.WAIT


def test_an_extension_puts_it_off_and_warns_again():
    since, until = AT - 60 * MINUTE, AT + timedelta(hours=2)
    put_off = Notice(extended_until=until)
    assert due(RULE, since, put_off, AT + MINUTE) == (Do.WAIT, until)
    assert due(RULE, since, put_off, until - 15 * MINUTE).do == Do.WARN
    again = Notice(until - 15 * MINUTE, until)
    assert due(RULE, since, again, until).do == Do.ACT


OFFICE = Hours("12345", 9, 18, ZoneInfo("Asia/Tokyo"))


@pytest.mark.parametrize(
    ("since", "count", "at"),
    [
        ("2026-03-04T08:00+09:00", 60, "2026-03-04T10:00+09:00"),
        ("2026-03-04T17:30+09:00", 60, "2026-03-05T09:30+09:00"),
        ("2026-03-06T17:30+09:00", 60, "2026-03-09T09:30+09:00"),  # over the weekend
    ],
)
def test_only_the_hours_that_count_count(since, count, at):
    found = reached(datetime.fromisoformat(since), count, OFFICE)
    assert found == datetime.fromisoformat(at)


figure = st.one_of(st.none(), st.sampled_from([0.0, 3.0, 5.0, 80.0]))
course = st.lists(
    st.tuples(figure, st.one_of(st.none(), st.sampled_from([5, 50, 900]))), max_size=60
)


@given(course)
def test_an_idle_minute_is_one_that_was_measured_and_quiet(figures):
    """Whatever is missing or busy: no stretch reaches over it."""
    spans = minutes(*figures)
    quiet = follow(RULE, spans, gpus=1).quiet
    if quiet is None:
        return
    inside = [span for span in spans if quiet.since <= span.at < quiet.until]
    assert all((s.gpu is None or s.gpu < 5) and (s.cpu is None or s.cpu < 50) for s in inside)
    missing = [span.gpu is None or span.cpu is None for span in inside]
    assert not any(all(missing[n : n + 4]) for n in range(len(missing) - 3))
    assert not missing[0]


@given(course, st.integers(0, 3))
def test_missing_data_makes_nothing_idle_sooner(figures, lost):
    spans = minutes(*figures)
    blind = [
        span._replace(gpu=None) if n % (lost + 2) == 0 and span.gpu is not None else span
        for n, span in enumerate(spans)
    ]
    known, unknown = follow(RULE, spans, gpus=1).quiet, follow(RULE, blind, gpus=1).quiet
    busy_hidden = any(
        was.gpu is not None and was.gpu >= 5
        for was, is_ in zip(spans, blind, strict=True)
        if was != is_
    )
    if unknown is not None and not busy_hidden:
        assert known is not None
        assert known.since <= unknown.since


@given(st.integers(0, 300), st.integers(0, 300), st.integers(0, 2), st.integers(1, 120))
def test_a_warning_comes_before_all_and_leaves_its_time(idle, later, extended, step):
    """However a worker is late: from the warning on there is at least the notice."""
    since, at, notice, warned = AT - idle * MINUTE, AT, Notice(), None
    for n in range(60):
        found = due(RULE, since, notice, at)
        if found.do == Do.WARN:
            notice, warned = Notice(at, notice.extended_until), at
            if extended:
                extended -= 1
                notice = Notice(None, max(at, found.at) + timedelta(minutes=120))
                warned = None
        elif found.do == Do.ACT:
            assert warned is not None
            assert at - warned >= timedelta(minutes=RULE.least)
            assert at - since >= timedelta(minutes=RULE.minutes)
            return
        at += step * MINUTE if n else later * MINUTE
