"""What readers are told: means are exact, and unknown is left out."""

from datetime import timedelta
from typing import Any
from uuid import UUID

import pytest
import time_machine

from common.ids import new_uid
from metrics.models import Quiet
from metrics.rollups import HOUR, MINUTE, roll_up
from metrics.selectors import latest, means, quiet_since, series
from tests.metrics.conftest import NOON

pytestmark = pytest.mark.django_db


def test_the_newest_reading_of_each_is_told_and_an_old_one_is_not(note: Any, uid: UUID) -> None:
    other, old = new_uid(), new_uid()
    note(NOON - timedelta(seconds=20), cpu_milli=1)
    note(NOON - timedelta(seconds=10), cpu_milli=2, gpu_utilisation=None)
    note(NOON - timedelta(seconds=5), device="GPU-1", gpu_utilisation=9)
    note(NOON, uid=other, cpu_milli=3, simulated=True)
    note(NOON - timedelta(minutes=3), uid=old, cpu_milli=4)
    with time_machine.travel(NOON, tick=False):
        found = latest([uid, other, old])
    assert {one: reading.cpu_milli for one, reading in found.items()} == {uid: 2, other: 3}
    assert (found[uid].gpu_utilisation, found[other].simulated) == (None, True)


def test_a_series_is_the_mean_of_each_step_with_gaps_where_nothing_was_known(
    note: Any, uid: UUID
) -> None:
    for at, value in ((0, 10), (10, 20), (20, None), (30, None), (90, 5)):
        note(NOON + timedelta(seconds=at), cpu_milli=value, memory_mib=1)
    with time_machine.travel(NOON + timedelta(minutes=2), tick=False):
        (spans,) = series([uid], NOON, timedelta(seconds=30), ("cpu_milli",)).values()
        assert series([new_uid()], NOON, timedelta(seconds=30)) == {}
    seen = [((s.at - NOON).total_seconds(), s.mean("cpu_milli")) for s in spans]
    assert seen == [(0, 15.0), (30, None), (90, 5.0)]
    assert set(spans[0].figures) == {"cpu_milli"}


@pytest.mark.parametrize(
    ("days_later", "step", "expected"),
    [
        (0.05, timedelta(seconds=10), [(0, 0.0), (10, 30.0), (70, 90.0)]),
        (0.05, timedelta(minutes=1), [(0, 15.0), (60, 90.0)]),
        (1, timedelta(seconds=10), [(0, 15.0), (60, 90.0)]),  # no finer than it is kept
        (1, timedelta(minutes=5), [(0, 40.0)]),  # of three, not of two means
        (20, timedelta(minutes=1), [(0, 40.0)]),
        (20, timedelta(days=1), [(-12 * 3600, 40.0)]),
    ],
)
def test_older_figures_come_from_roll_ups_with_exact_means(
    note: Any, uid: UUID, days_later: float, step: timedelta, expected: list[tuple[float, float]]
) -> None:
    for at, value in ((0, 0), (10, 30), (70, 90)):
        note(NOON + timedelta(seconds=at), cpu_milli=value)
    roll_up(MINUTE)
    roll_up(HOUR)
    with time_machine.travel(NOON + timedelta(days=days_later), tick=False):
        (spans,) = series([uid], NOON, step).values()
        assert means([uid, new_uid()], NOON, "cpu_milli") == {uid: 40.0}
        assert means([uid], NOON, "gpu_utilisation") == {}
    assert [((s.at - NOON).total_seconds(), s.mean("cpu_milli")) for s in spans] == expected
    low, high = spans[-1].figures["cpu_milli"].low, spans[0].figures["cpu_milli"].low
    assert (high, low) == (0.0, 90.0 if len(spans) > 1 else 0.0)


def test_a_series_of_one_device_and_of_many_workloads(
    note: Any, uid: UUID, django_assert_num_queries: Any
) -> None:
    other = new_uid()
    note(NOON, device="GPU-1", gpu_utilisation=40, shared=True)
    note(NOON, gpu_utilisation=50)
    note(NOON, uid=other, gpu_utilisation=60)
    with time_machine.travel(NOON + timedelta(minutes=1), tick=False):
        with django_assert_num_queries(1):
            found = series([uid, other], NOON, timedelta(seconds=10))
        device = series([uid], NOON, timedelta(seconds=10), device="GPU-1")[uid]
    assert {one: spans[0].mean("gpu_utilisation") for one, spans in found.items()} == {
        uid: 50.0,
        other: 60.0,
    }
    assert (device[0].mean("gpu_utilisation"), device[0].shared) == (40.0, True)


def test_what_was_not_measured_lately_is_not_said_to_be_quiet(uid: UUID) -> None:
    other = new_uid()
    Quiet.objects.create(uid=uid, known_at=NOON, since=NOON - timedelta(hours=1))
    Quiet.objects.create(uid=other, known_at=NOON - timedelta(minutes=4), since=NOON)
    with time_machine.travel(NOON + timedelta(minutes=1), tick=False):
        assert quiet_since([uid, other]) == {uid: NOON - timedelta(hours=1)}
