"""On a cluster a size takes time to find out: when it is, how often, and what holds meanwhile."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
import time_machine

from clusters.models import Cluster, Pool
from common.clock import now
from common.errors import Conflict
from notifications.models import Notification
from runtime.capabilities.volumes import Measured
from runtime.protocol import DriverError, NotYet, Unreachable
from runtime.spec import Placement
from tests.volumes.conftest import API
from volumes import measuring, selectors
from volumes.models import Volume
from volumes.services import base, removal

MIB = 2**20


class Beside:
    """The fake driver of one machine, with a program beside the data instead of its word."""

    def __init__(self, machine: Any) -> None:
        self._machine = machine
        self.answer: Measured | Exception | None = NotYet("busy", retry_in=10.0)
        self.asked: list[str] = []
        self.let_go: list[str] = []
        self.where = Placement()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._machine, name)

    def measure_volume(self, volume_uid: str, placement: Placement) -> Measured | None:
        self.asked.append(volume_uid)
        self.where = placement
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer

    def end_measuring(self, volume_uid: str) -> None:
        self.let_go.append(volume_uid)


@pytest.fixture
def clock() -> Any:
    with time_machine.travel("2026-11-22T12:00:00Z", tick=False) as traveller:
        yield traveller


@pytest.fixture
def beside(machine: Any, monkeypatch: pytest.MonkeyPatch) -> Beside:
    made = Beside(machine)
    monkeypatch.setattr("volumes.reconciler.driver_for", lambda _key: made)
    return made


@pytest.fixture
def later(clock: Any, settle: Any) -> Any:
    def go(seconds: float, row: Volume | None = None) -> None:
        clock.shift(seconds)
        settle()
        if row is not None:
            row.refresh_from_db()

    return go


@pytest.fixture
def row(beside: Beside, clock: Any, make: Any, bob: Any) -> Volume:
    del clock
    made: Volume = make(bob, size_mib=1024)
    return made


def of(row: Volume, beside: Beside) -> int:
    return beside.asked.count(str(row.uid))


def test_a_new_one_is_measured_after_a_moment_and_ready_at_once(row, beside, later):
    assert (row.phase, row.used_bytes, of(row, beside)) == ("running", None, 0)
    later(601, row)
    assert (row.phase, row.used_bytes, of(row, beside)) == ("running", None, 1)
    assert row.measuring_since is not None
    beside.answer = Measured(300 * MIB, seconds=1.0)
    later(10, row)
    assert (row.used_bytes, row.used_at_least, row.measuring_since) == (300 * MIB, False, None)
    assert row.used_at == now() - timedelta(seconds=10)  # when it began
    assert selectors.room_left(row) == 724 * MIB
    assert row.percent == 29


def test_c16_the_program_is_kept_off_what_is_reserved_for_others(row, beside, later, monkeypatch):
    monkeypatch.setattr(Cluster, "runs_images", True)  # what has pools is no lone machine
    cluster = Cluster.objects.get(key=row.cluster_key)
    labels = {"berth.dev/pool": "fabric"}
    pool = Pool.objects.create(cluster=cluster, name="f", node_labels=labels, kinds=["endpoint"])
    later(601, row)
    assert beside.where.avoid == {"berth.dev/pool": ("fabric",)}
    pool.kinds, pool.project_uids = [], [str(row.project.uid)]
    pool.save()
    later(10, row)
    assert beside.where.avoid == {}


def measured(row: Volume, beside: Beside, later: Any, found: Measured) -> None:
    beside.answer = found
    later(601, row)
    beside.asked.clear()


def test_what_nobody_used_is_measured_once_a_day(row, beside, later):
    measured(row, beside, later, Measured(1))
    for _ in range(20):
        later(3600)
    assert of(row, beside) == 0
    for _ in range(30):
        later(600)
    assert of(row, beside) == 1


def test_what_is_in_use_is_measured_every_half_hour(row, beside, later, held):
    measured(row, beside, later, Measured(1))
    with held(row):
        for _ in range(36):
            later(300)
    assert 5 <= of(row, beside) <= 6


def test_what_was_used_since_is_measured_once_more(row, beside, later, bob):
    measured(row, beside, later, Measured(1))
    base.volume_note_use(uids=[row.uid], user=bob)
    later(1)
    for _ in range(12):
        later(300)
    assert of(row, beside) == 1


def test_asked_for_it_comes_soon_and_not_for_each_file(row, beside, later):
    measured(row, beside, later, Measured(1))
    for _ in range(20):
        later(1)
        base.volume_measure_soon(uids=[row.uid])
    later(1)
    assert of(row, beside) == 0
    later(30)
    assert of(row, beside) == 1


def test_what_was_written_while_it_was_measured_is_measured_again(row, beside, later):
    later(601)
    later(1)
    base.volume_measure_soon(uids=[row.uid])
    beside.answer = Measured(1)
    later(1)
    asked = of(row, beside)
    later(31)
    later(600)
    assert of(row, beside) == asked + 1


def test_one_that_takes_long_is_left_alone_for_longer(row, beside, later, held):
    measured(row, beside, later, Measured(1, seconds=300.0))
    with held(row):
        for _ in range(9):
            later(600)
        assert of(row, beside) == 0
        for _ in range(3):
            later(600)
        assert of(row, beside) == 1


def test_a_count_that_was_cut_short_is_at_least_so_much(row, beside, later, as_user, bob):
    beside.answer = Measured(1024 * MIB, whole=False, seconds=600.0)
    later(601, row)
    assert (row.used_at_least, row.is_full) == (True, True)
    with pytest.raises(Conflict):
        selectors.require_room(row)
    found = as_user(bob).get(f"{API}/{row.uid}").json()
    assert (found["used_bytes"], found["used_at_least"]) == (1024 * MIB, True)
    gib = "1\N{NO-BREAK SPACE}GiB"
    page = as_user(bob).get(row.get_absolute_url()).content.decode()
    assert f"at least {gib} of {gib}" in page


def test_nearly_full_is_told_as_on_one_machine(row, beside, later, bob):
    measured(row, beside, later, Measured(950 * MIB))
    assert row.is_nearly_full
    assert Notification.objects.filter(user=bob, kind="volume.nearly-full").count() == 1


@pytest.mark.parametrize("answer", [None, DriverError("no image")])
def test_one_that_fails_keeps_what_was_known_and_waits(row, beside, later, answer):
    measured(row, beside, later, Measured(5))
    base.volume_measure_soon(uids=[row.uid])
    beside.answer = answer
    later(31, row)
    assert (row.used_bytes, row.phase, row.measuring_since) == (5, "running", None)
    assert of(row, beside) == 1
    for _ in range(5):
        later(600)
    assert of(row, beside) == 1
    later(700)
    assert of(row, beside) == 2


def test_a_cluster_that_does_not_answer_is_told_as_such(row, beside, later):
    beside.answer = Unreachable("gone")
    later(601, row)
    assert row.failures > 0
    assert row.measuring_since is None


def test_few_are_measured_at_a_time(row, beside, later, make, bob):
    rows = [row, *(make(bob, f"set{n}") for n in range(measuring.AT_ONCE + 2))]
    later(601)
    for _ in range(5):
        later(31)
    under_way = Volume.objects.filter(measuring_since__isnull=False)
    assert under_way.count() == measuring.AT_ONCE
    beside.answer = Measured(1)
    for _ in range(5):
        later(31)
    assert not under_way.exists()
    assert Volume.objects.filter(used_bytes=1).count() >= len(rows)


def test_nothing_is_held_that_is_to_go(row, beside, later, principal, bob):
    later(601)
    removal.volume_delete(principal=principal(bob), volume=row)
    for _ in range(9):
        later(86_400)
    assert str(row.uid) in beside.let_go
    row.refresh_from_db()
    assert row.deleted_at is not None
