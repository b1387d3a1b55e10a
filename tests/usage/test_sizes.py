"""What changes its size within a launch is counted by what it had from when to when."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from types import SimpleNamespace
from typing import Any
from uuid import uuid4

import pytest
import time_machine
from django.db import connection, transaction
from django.db.models import signals
from django.test.utils import CaptureQueriesContext
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from budgets.models import Budget
from budgets.selectors import Books
from clusters.models import Flavor
from runtime.protocol import Phase
from runtime.reconcilers import Outcome, Transition
from runtime.spec import Resources
from usage import closing, selectors, showback
from usage.export import HEAD, csv_rows
from usage.ledger import HELD, HOUR, millis
from usage.listeners import keep_intervals
from usage.models import Interval
from usage.selectors import Range

pytestmark = pytest.mark.django_db

BEGAN = datetime(2026, 3, 2, 9, 0, tzinfo=UTC)
# Seconds until the next look, and since when each replica that is there then has its place: by so
# much of that time; None: the driver did not tell.
LOOKS = st.lists(
    st.tuples(
        st.integers(1, 4000),
        st.lists(st.none() | st.floats(0, 1, exclude_max=True), min_size=1, max_size=5),
    ),
    min_size=1,
    max_size=8,
)


def row_of(project: Any, alice: Any) -> Any:
    size = Resources(cpu_milli=500, memory_mib=1024, gpus=2, gpu_flavor="H100")
    whose = {"project": project, "owner": alice, "cluster_key": "c", "KIND": "endpoint"}
    columns = {"uid": uuid4(), "launch": 1, "replicas": 1, "resources": size, "owner_id": alice.pk}
    return SimpleNamespace(**whose, **columns, reason="", external_ref={}, started_at=None)


def look(row: Any, phase: Phase, at: datetime, held: list[datetime | None] = []) -> None:  # noqa: B006
    ref = {"launch": row.launch, "placed_at": BEGAN.timestamp()}
    with time_machine.travel(at, tick=False):
        outcome = Outcome(phase, external_ref=ref, held=held)
        keep_intervals(Transition(row, Phase.RUNNING, phase, outcome, gone=False, seen=row))


def live(row: Any, looks: list[Any]) -> tuple[datetime, float]:
    """Let it run through ``looks``; return when it ended, and its replica-seconds."""
    look(row, Phase.RUNNING, BEGAN, [None])
    at, there, total = BEGAN, [BEGAN], 0.0
    for seconds, replicas in looks:
        before, at = at, at + timedelta(seconds=seconds)
        more = replicas[len(there) :]
        since = [at if part is None else before + timedelta(seconds=round(part * seconds, 3))
                 for part in more]  # fmt: skip
        total += seconds * len(there) + sum((at - one).total_seconds() for one in since)
        there = [*there, *since][: len(replicas)]
        told = [None if p is None else one for p, one in zip(more, since, strict=True)]
        look(row, Phase.RUNNING, at, [*([BEGAN] * (len(replicas) - len(told))), *told])
    at += timedelta(seconds=10)
    look(row, Phase.STOPPED, at)
    return at, total + 10 * len(there)


@settings(
    max_examples=40,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(looks=LOOKS)
def test_all_that_reads_hours_has_the_sum_of_replicas_over_time(project, alice, looks) -> None:
    """Report, showback, budget and ledger, whatever comes and goes whenever it is seen."""
    with transaction.atomic():
        Flavor.objects.get_or_create(name="H100", defaults={"label": "H100", "price_per_hour": 3})
        row = row_of(project, alice)
        ended, replica_s = live(row, looks)
        parts = list(Interval.objects.filter(uid=row.uid).order_by("part"))
        assert [one.part for one in parts] == list(range(len(parts)))
        assert (parts[0].started_at, parts[-1].ended_at) == (BEGAN, ended)
        for one, after in pairwise(parts):
            assert one.ended_at == after.started_at > one.started_at
        hours = replica_s / 3600
        span = Range(BEGAN - timedelta(days=1), ended + timedelta(days=1))
        with time_machine.travel(ended + timedelta(hours=2), tick=False):
            report = selectors.report(parts, span)
            assert report.total.gpu_hours == pytest.approx(2 * hours, abs=1e-6)
            assert report.total.cpu_hours == pytest.approx(hours / 2, abs=1e-6)
            assert report.total.memory_gib_hours == pytest.approx(hours, abs=1e-6)
            assert report.total.launches == 1
            mine = Interval.objects.filter(uid=row.uid)
            (line,) = showback.lines(mine, span)
            assert float(line.gpu_hours) == pytest.approx(2 * hours, abs=1e-6)
            budget = Budget.objects.create(project=project, hours=10**6)
            (meter,) = Books.of([budget]).meters
            assert float(meter.spent) == pytest.approx(2 * hours, abs=1e-6)
            attached = hour = 0
            while millis(BEGAN) + hour * HOUR < millis(ended):
                begin = BEGAN + timedelta(hours=hour)
                rows = closing.rows_of_hour(begin, begin + timedelta(hours=1))
                (amounts,) = rows.values()
                assert amounts["attached"] == sum(amounts[cause] for cause in HELD)
                assert not amounts["crash"]
                attached, hour = attached + amounts["attached"], hour + 1
            assert attached / HOUR == pytest.approx(2 * hours, abs=0.001)
        transaction.set_rollback(True)


def test_gpus_of_this_machine_stay_what_was_given_while_processors_follow(project, alice) -> None:
    row = row_of(project, alice)
    ref = {"launch": 1, "placed_at": BEGAN.timestamp(), "devices": ["GPU-1", "GPU-2"]}
    for minutes, held in ((0, [None]), (10, [None, None]), (20, [None])):
        at = BEGAN + timedelta(minutes=minutes)
        with time_machine.travel(at, tick=False):
            outcome = Outcome(Phase.RUNNING, external_ref=ref, held=held)
            keep_intervals(
                Transition(row, Phase.RUNNING, Phase.RUNNING, outcome, gone=False, seen=row)
            )
    rows = Interval.objects.order_by("part").values_list("gpus", "cpu_milli")
    assert list(rows) == [(2, 500), (2, 1000), (2, 500)]


def test_what_is_open_tells_since_it_began_and_a_launch_counts_once(project, alice) -> None:
    row = row_of(project, alice)
    look(row, Phase.RUNNING, BEGAN, [None])
    look(row, Phase.RUNNING, BEGAN + timedelta(hours=1), [None, None, None])
    with time_machine.travel(BEGAN + timedelta(hours=2), tick=False):
        held = selectors.held_now(Interval.objects.all())
        assert (held.workloads, held.gpus, held.gpu_hours) == (1, 6, pytest.approx(8))
        half = Range(BEGAN + timedelta(minutes=30), BEGAN + timedelta(hours=2))
        for span in (half, Range(BEGAN, half.until), Range(BEGAN + timedelta(hours=1), half.until)):
            found = selectors.report(selectors.everywhere(span), span)
            assert (found.total.launches, found.total.running) == (1, 1)


def test_what_is_held_is_told_without_reading_each_size_that_it_had(project, alice) -> None:
    row = row_of(project, alice)
    for launch in (1, 2):  # each has two GPUs and four by turns
        row.launch = launch
        for minutes in range(0, 60, 10):
            at = BEGAN + timedelta(hours=launch - 1, minutes=minutes)
            look(row, Phase.RUNNING, at, [None] * (1 + minutes // 10 % 2))
    made: list[Any] = []
    note = lambda instance, **_said: made.append(instance)  # noqa: E731
    signals.post_init.connect(note, sender=Interval)
    try:
        at = BEGAN + timedelta(hours=2)
        with time_machine.travel(at, tick=False), CaptureQueriesContext(connection) as asked:
            held = selectors.held_now(Interval.objects.all())
    finally:
        signals.post_init.disconnect(note, sender=Interval)
    span, mine = Range(BEGAN, at), Interval.objects.filter(launch=2)
    whole = sum(selectors.hours_within(one, span, at) * one.gpus for one in mine)
    assert (held.workloads, held.gpus, held.gpu_hours) == (1, 4, pytest.approx(whole))
    assert (len(asked), len(made)) == (1, 0)


def test_the_csv_tells_the_sizes_of_a_launch_apart(project, alice) -> None:
    row, span = row_of(project, alice), Range(BEGAN, BEGAN + timedelta(hours=2))
    look(row, Phase.RUNNING, BEGAN, [None])
    look(row, Phase.RUNNING, BEGAN + timedelta(hours=1), [None, None])
    told = [dict(zip(HEAD, one, strict=True)) for one in csv_rows(Interval.objects.all(), span)]
    assert [(one["launch"], one["part"], one["gpus"]) for one in told] == [(1, 0, 2), (1, 1, 4)]
    assert HEAD[-1] == "part"  # whoever reads the columns by their place finds the others


def test_a_size_of_a_launch_that_goes_on_is_summed_by_days(project, alice) -> None:
    """However often an endpoint scales, a decision reads days."""
    from budgets import days
    from budgets.models import Uncounted

    row = row_of(project, alice)
    budget = Budget.objects.create(project=project, hours=10**6)
    for minutes in range(0, 600, 5):
        look(row, Phase.RUNNING, BEGAN + timedelta(minutes=minutes), [None] * (1 + minutes % 2 * 2))
    for hours in (10, 12, 14):  # what was written must be an hour old
        with time_machine.travel(BEGAN + timedelta(hours=hours), tick=False):
            days.roll()
    with time_machine.travel(BEGAN + timedelta(hours=14), tick=False):
        assert Uncounted.objects.count() == 1  # what it is now
        (meter,) = Books.of([budget]).meters
        (report,) = [selectors.report(Interval.objects.all(), Range(BEGAN, BEGAN.replace(day=3)))]
        assert float(meter.spent) == pytest.approx(report.total.gpu_hours, abs=1e-6)
