"""Roll-ups are exact: each sample counts once, whatever is killed, repeated or moves the clock."""

from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import groupby
from typing import Any
from uuid import UUID

import pytest
import time_machine
from django.db.models import Sum
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.django import TestCase

from common.ids import new_uid
from metrics import rollups
from metrics.models import HourSample, MinuteSample, Progress, Quiet, Sample
from metrics.rollups import HOUR, MINUTE, forget_old, roll_up
from tests.metrics.conftest import NOON

pytestmark = pytest.mark.django_db


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


def of_minutes() -> dict[tuple[int, str], tuple[Any, ...]]:
    return {
        (round((row.at - NOON).total_seconds() / 60), row.device): (
            row.cpu_milli_count,
            row.cpu_milli_sum,
            row.cpu_milli_min,
            row.cpu_milli_max,
        )
        for row in MinuteSample.objects.all()
    }


def test_a_minute_holds_count_sum_lowest_and_highest_of_each_figure(note: Any) -> None:
    for at, value in ((0, 100), (10, None), (59.9, 300), (60, 7)):
        note(NOON + seconds(at), cpu_milli=value, memory_mib=5)
    assert roll_up(MINUTE) == 4
    assert of_minutes() == {(0, ""): (2, 400.0, 100.0, 300.0), (1, ""): (1, 7.0, 7.0, 7.0)}
    row = MinuteSample.objects.get(at=NOON)
    assert (row.samples, row.memory_mib_count, row.memory_mib_sum) == (3, 3, 15.0)


def test_what_nobody_measured_stays_unknown_and_is_never_0(note: Any) -> None:
    note(NOON, gpu_utilisation=None)
    roll_up(MINUTE)
    row = MinuteSample.objects.get()
    assert (row.gpu_utilisation_count, row.gpu_utilisation_sum) == (0, None)
    assert (row.gpu_utilisation_min, row.gpu_utilisation_max) == (None, None)
    note(NOON + seconds(20), gpu_utilisation=40)
    note(NOON + seconds(30), gpu_utilisation=0)
    roll_up(MINUTE)
    note(NOON + seconds(40), gpu_utilisation=None)
    roll_up(MINUTE)
    row = MinuteSample.objects.get()
    assert (row.samples, row.gpu_utilisation_count, row.gpu_utilisation_sum) == (4, 2, 40.0)
    assert (row.gpu_utilisation_min, row.gpu_utilisation_max) == (0.0, 40.0)


def test_devices_of_one_workload_are_kept_apart_and_marked(note: Any) -> None:
    note(NOON, device="GPU-1", gpu_utilisation=10, shared=True)
    note(NOON, device="GPU-2", gpu_utilisation=30, simulated=True)
    note(NOON, gpu_utilisation=20, shared=True, simulated=True)
    for tier in (MINUTE, HOUR):
        roll_up(tier)
        rows = tier.model._default_manager.order_by("device")
        columns = ("device", "gpu_utilisation_sum", "shared", "simulated")
        assert list(rows.values_list(*columns)) == [
            ("", 20.0, 1, 1),
            ("GPU-1", 10.0, 1, 0),
            ("GPU-2", 30.0, 0, 1),
        ]


def test_done_again_nothing_changes(note: Any) -> None:
    note(NOON, cpu_milli=100)
    assert (roll_up(MINUTE), roll_up(MINUTE), roll_up(HOUR), roll_up(HOUR)) == (1, 0, 1, 0)
    assert of_minutes() == {(0, ""): (1, 100.0, 100.0, 100.0)}


class Killed(Exception):  # noqa: N818 - no error: the end
    pass


@pytest.mark.parametrize("where", ["before", "after"])
def test_who_is_killed_in_the_middle_and_begins_again_counts_each_sample_once(
    note: Any, monkeypatch: pytest.MonkeyPatch, where: str
) -> None:
    """Chunks of ten: the third is cut off, before or after its rows were written."""
    monkeypatch.setattr(rollups, "AT_ONCE", 10)
    for n in range(60):
        note(NOON + seconds(3 * n), cpu_milli=n)
    add, left = rollups._add, [2]

    def cut(*given: Any) -> None:
        left[0] -= 1
        if left[0] < 0 and where == "before":
            raise Killed
        add(*given)
        if left[0] < 0:
            raise Killed

    monkeypatch.setattr(rollups, "_add", cut)
    with pytest.raises(Killed):
        roll_up(MINUTE)
    assert sum(row[0] for row in of_minutes().values()) == 20, "whole chunks, or nothing of one"
    monkeypatch.setattr(rollups, "_add", add)
    assert roll_up(MINUTE) == 40
    expected = {}
    for minute in range(3):
        values = [float(n) for n in range(60) if 3 * n // 60 == minute]
        expected[minute, ""] = (len(values), sum(values), min(values), max(values))
    assert of_minutes() == expected


def test_a_clock_that_was_set_back_loses_nothing_and_doubles_nothing(note: Any) -> None:
    note(NOON, cpu_milli=1)
    note(NOON + timedelta(days=300), cpu_milli=2)  # somebody set it forward, for a moment
    roll_up(MINUTE)
    roll_up(HOUR)
    note(NOON + seconds(10), cpu_milli=3)
    note(NOON - timedelta(hours=5), cpu_milli=4)
    roll_up(MINUTE)
    roll_up(HOUR)
    assert of_minutes()[0, ""] == (2, 4.0, 1.0, 3.0)
    assert MinuteSample.objects.count() == HourSample.objects.count() == 3
    for model in (MinuteSample, HourSample):
        assert model.objects.aggregate(n=Sum("samples"), sum=Sum("cpu_milli_sum")) == {
            "n": 4,
            "sum": 10.0,
        }


class TestAnyOrder(TestCase):
    @given(
        st.lists(
            st.tuples(
                st.integers(0, 7200),
                st.sampled_from(["", "GPU-1"]),
                st.one_of(st.none(), st.integers(0, 1000)),
                st.sampled_from(["", "minute", "hour"]),
            ),
            max_size=40,
        )
    )
    def test_any_samples_in_any_order_are_what_all_of_them_are_at_once(
        self, given_samples: list[tuple[int, str, int | None, str]]
    ) -> None:
        uid = new_uid()
        for at, device, value, tier in given_samples:
            Sample.objects.create(uid=uid, device=device, at=NOON + seconds(at), cpu_milli=value)
            if tier:
                roll_up(MINUTE if tier == "minute" else HOUR)
        for tier in (MINUTE, HOUR):
            roll_up(tier)
            assert self.kept(uid, tier) == self.counted(given_samples, tier.step)

    def kept(self, uid: UUID, tier: rollups.Tier) -> dict[Any, Any]:
        columns = ("samples", "cpu_milli_count", "cpu_milli_sum", "cpu_milli_min", "cpu_milli_max")
        rows = tier.model._default_manager.filter(uid=uid)
        return {(row[0], row[1]): row[2:] for row in rows.values_list("device", "at", *columns)}

    def counted(
        self, samples: list[tuple[int, str, int | None, str]], step: timedelta
    ) -> dict[Any, Any]:
        def key(sample: tuple[int, str, int | None, str]) -> tuple[str, datetime]:
            return (sample[1], NOON + sample[0] // int(step.total_seconds()) * step)

        found = {}
        for where, group in groupby(sorted(samples, key=key), key):
            rows = list(group)
            known = [row[2] for row in rows if row[2] is not None]
            ends = (sum(known), min(known), max(known)) if known else (None, None, None)
            found[where] = (len(rows), len(known), *ends)
        return found


def test_each_is_kept_as_long_as_said_and_a_sample_until_every_roll_up_holds_it(
    note: Callable[..., Sample], uid: UUID, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollups, "BATCH", 3)
    for n in range(10):
        note(NOON + seconds(n), cpu_milli=n)
    Quiet.objects.create(uid=uid, known_at=NOON, since=NOON)
    with time_machine.travel(NOON + timedelta(hours=3), tick=False):
        forget_old()
        assert Sample.objects.count() == 10, "no roll-up holds them"
        assert not Quiet.objects.exists()
        roll_up(MINUTE)
        forget_old()
        assert Sample.objects.count() == 10, "the one by hour does not"
        roll_up(HOUR)
        newest = note(NOON + timedelta(hours=2), cpu_milli=1)
        assert forget_old() == 10
        assert Sample.objects.get() == newest
    with time_machine.travel(NOON + timedelta(hours=49), tick=False):
        roll_up(MINUTE)
        forget_old()
        assert MinuteSample.objects.get().at == NOON + timedelta(hours=2)
        assert HourSample.objects.count() == 1
    with time_machine.travel(NOON + timedelta(days=401), tick=False):
        forget_old()
        assert not HourSample.objects.exists()


def test_a_turn_deletes_no_more_than_so_many(
    note: Callable[..., Sample], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rollups, "BATCH", 2)
    monkeypatch.setattr(rollups, "MOST_BATCHES", 2)
    for n in range(10):
        note(NOON + seconds(n))
    Progress.objects.create(minute=10**9, hour=10**9)
    assert [forget_old(), forget_old(), forget_old()] == [4, 4, 2]
