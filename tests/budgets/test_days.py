"""Days of launches that are over: the same sums and dates as all launches, whenever they are made."""

from __future__ import annotations

import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID, uuid4

import pytest
from django.db import connection

from budgets import days, selectors
from budgets.models import Budget, Roll, Uncounted, UsedDay
from budgets.policies import HOUR, Use, Window, micros
from clusters.models import Flavor
from quotas.models import Reservation
from usage.models import RESIZED, Interval

pytestmark = pytest.mark.django_db
NOW = datetime(2026, 11, 26, 12, 30, 7, 42, tzinfo=UTC)
WEIGHTS = {"h100": 1000, "a100": 400, "": 1000}


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Callable[[datetime], None]:
    def at(moment: datetime) -> None:
        for module in (days, selectors):
            monkeypatch.setattr(module, "now", lambda: moment)

    return at


@pytest.fixture
def rolled(clock: Callable[[datetime], None]) -> Callable[[datetime], int]:
    """Count what is over at a moment, where it was looked at in the two hours before it too."""

    def roll(moment: datetime) -> int:
        found = 0
        for hours_ago in (2, 1, 0):
            clock(moment - timedelta(hours=hours_ago))
            found += days.roll()
        return found

    return roll


def direct(projects: list[UUID], owner: UUID | None, length: int, at: datetime) -> Window:
    """Return the window made of all launches."""
    rows = Interval.objects.filter(project_uid__in=projects, gpus__gt=0)
    found = [
        Use(
            row.uid.hex,
            row.launch,
            micros(row.started_at),
            micros(row.ended_at) if row.ended_at else None,
            row.gpus * WEIGHTS[row.flavor],
        )
        for row in (rows.filter(owner_uid=owner) if owner else rows)
    ]
    return Window.of(found, length, at)


class Past:
    """Made-up launches of a few people, which come about as time goes on."""

    def __init__(self, seed: int, whose: dict[str, Any]) -> None:
        self.chance, self.whose = random.Random(seed), whose
        self.launches: dict[UUID, int] = {}
        self.open: list[Interval] = []

    def until(self, since: datetime, at: datetime, owners: list[Any]) -> None:
        """Some that were open end, some begin; each workload has one at a time."""
        for row in [one for one in self.open if self.chance.random() < 0.6]:
            begin = max(since, row.started_at)
            row.ended_at = begin + (at - begin) * self.chance.random()
            row.save()
            self.open.remove(row)
        for _n in range(self.chance.randrange(6)):
            idle = [uid for uid in self.launches if all(uid != o.uid for o in self.open)]
            uid = self.chance.choice(idle) if idle and self.chance.random() < 0.5 else uuid4()
            owner = owners[UUID(int=uid.int).int % len(owners)]
            latest = Interval.objects.filter(uid=uid).order_by("-launch").first()
            begin = max(since, latest.ended_at) if latest and latest.ended_at else since
            start = begin + (at - begin) * self.chance.random()
            self.launches[uid] = launch = self.launches.get(uid, 0) + 1
            ends = None if self.chance.random() < 0.3 else start + (at - start) * 0.7
            row = Interval.objects.create(
                **self.whose,
                uid=uid,
                launch=launch,
                kind="job",
                owner_uid=owner.uid,
                owner_name=owner.username,
                cluster_key="local",
                gpus=self.chance.randrange(4),
                flavor=self.chance.choice(["h100", "a100", ""]),
                started_at=start,
                ended_at=ends,
            )
            if ends is None:
                self.open.append(row)


@pytest.mark.parametrize("seed", range(6))
def test_days_and_launches_say_the_same_to_the_microsecond(
    seed: int, clock: Any, budget: Any, project: Any, alice: Any, bob: Any
) -> None:
    for name in ("h100", "a100"):
        Flavor.objects.update_or_create(name=name, defaults={"weight": WEIGHTS[name] / 1000})
    made = [budget("100", days=12), budget("100", days=5, user=bob)]
    past = Past(seed, {"project_uid": project.uid, "project_slug": project.slug})
    at, counted = NOW - timedelta(days=20), 0
    while at < NOW:
        before, at = at, at + timedelta(hours=past.chance.uniform(1, 30))
        past.until(before, at, [alice, bob])
        clock(at)
        counted += days.roll()
        for one in made:
            owner = one.user.uid if one.user else None
            whole = direct([project.uid], owner, one.days, at)
            (meter,) = selectors.Books.of([Budget.objects.get(pk=one.pk)]).meters
            assert meter.window.spent == whole.spent
            for room in (0, whole.spent // 3, whole.spent - 1):
                needed = meter.limit - room
                sure = whole.frees(room, goes_on=True)
                told = meter.frees(needed)
                assert told.at == (sure or whole.frees(room, goes_on=False))
                assert told.sure == (sure is not None)
    assert counted > 20
    left = Interval.objects.filter(gpus__gt=0).count() - counted
    assert Uncounted.objects.count() <= left
    assert days.roll() == 0  # repeated, nothing is counted again


def test_a_clock_that_was_set_back_makes_no_second_count_twice(
    rolled: Any, clock: Any, used: Any, budget: Any, project: Any, alice: Any
) -> None:
    budget("1000", days=10)
    first = used(alice, 4, started_at=NOW - timedelta(hours=60), ended_at=NOW - timedelta(hours=56))
    assert rolled(NOW) == 1
    used(
        alice,
        5,
        uid=first.uid,
        launch=2,
        started_at=NOW - timedelta(hours=58),
        ended_at=NOW - timedelta(hours=53),
    )

    def spent() -> int:
        clock(NOW)
        (meter,) = selectors.of_project(project, alice)
        return meter.window.spent

    assert spent() == 7 * HOUR  # 60 to 53 hours ago
    assert rolled(NOW) == 1
    assert spent() == 7 * HOUR
    Budget.objects.update(days=2)  # windows that cut that day
    for ago, left in ((11, 6), (7, 2), (6, 1), (5, 0)):
        clock(NOW - timedelta(hours=ago))
        (meter,) = selectors.of_project(project, alice)
        assert meter.window.spent == left * HOUR


@pytest.fixture
def resized(project: Any, alice: Any) -> Callable[[int], list[Interval]]:
    """Two launches of one workload, each in so many sizes of a minute."""

    def make(parts: int) -> list[Interval]:
        whose = {"project_uid": project.uid, "project_slug": project.slug, "kind": "endpoint"}
        size = {"owner_uid": alice.uid, "cluster_key": "c", "gpus": 2, "flavor": "h100"}
        uid, minute = uuid4(), timedelta(minutes=1)
        rows = [
            Interval(
                **whose,
                **size,
                uid=uid,
                launch=1 + n // parts,
                part=n % parts,
                started_at=NOW - timedelta(days=3) + n * minute,
                ended_at=NOW - timedelta(days=3) + (n + 1) * minute,
                end_reason=RESIZED if (n + 1) % parts else "stopped",
            )
            for n in range(2 * parts)
        ]
        return Interval.objects.bulk_create(rows)

    return make


def test_reading_a_launch_of_many_sizes_costs_as_many_steps_as_it_has(
    resized: Any, project: Any
) -> None:
    """Twice as many sizes: twice the steps of the database, and not four times."""
    if connection.vendor != "sqlite":
        pytest.skip("only SQLite counts its steps")
    steps: list[int] = []
    for parts in (200, 400):
        Interval.objects.all().delete()
        resized(parts)
        ticks: list[int] = []
        connection.connection.set_progress_handler(lambda seen=ticks: seen.append(1), 100)
        try:
            found = days.uses([project.uid], [NOW - timedelta(days=4)])
        finally:
            connection.connection.set_progress_handler(None, 0)
        assert len(found[project.uid]) == 2 * parts
        steps.append(len(ticks))
    assert steps[1] < 2.5 * steps[0], steps


def test_a_pass_asks_once_of_each_launch_whatever_sizes_it_had(resized: Any) -> None:
    class Asked(set[int]):
        times = 0

        def __contains__(self, key: object) -> bool:
            self.times += 1
            return super().__contains__(key)

    rows, left = resized(300), Asked()
    made = days._Pass(NOW, rows[-1].pk, left)
    made.take(rows)
    assert len(made.counted) == len(rows)
    assert sum(amount for amount, *_ in made.days.values()) == 600 * 2 * HOUR // 60_000
    assert left.times == 1  # of the end of the first, for the second


def test_a_clock_that_was_set_back_twice_makes_no_second_count_twice(
    rolled: Any, used: Any, budget: Any, project: Any, alice: Any, clock: Any
) -> None:
    """The launch before the last may have ended after the last one did."""
    budget("1000", days=10)
    uid = uuid4()
    launches = ((60, 50, 10), (55, 54, 10), (53, 48, 12))  # from and until hours ago, their sum
    for launch, (began, ended, hours) in enumerate(launches, start=1):
        times = {
            "started_at": NOW - timedelta(hours=began),
            "ended_at": NOW - timedelta(hours=ended),
        }
        used(alice, 1, uid=uid, launch=launch, **times)
        for counted in (False, True):
            clock(NOW)
            (meter,) = selectors.of_project(project, alice)
            assert meter.window.spent == hours * HOUR
            assert rolled(NOW) == (not counted)


def test_what_goes_on_or_may_go_on_is_not_counted_yet(
    rolled: Any, used: Any, project: Any, alice: Any
) -> None:
    ago = {"started_at": NOW - timedelta(days=9), "ended_at": NOW - timedelta(days=8)}
    goes_on = used(alice, 1, **{**ago, "ended_at": None})
    lately = used(alice, 1, **{**ago, "ended_at": NOW - timedelta(minutes=59)})
    gave_back = used(alice, 1, **ago)  # waits for another launch: keeps the rest of its hour
    Reservation.objects.create(
        project=project,
        owner=alice,
        workload_uid=gave_back.uid,
        launch=1,
        resource="gpus",
        reserved_at=NOW,
        amount=1,
    )
    over = used(alice, 1, **ago)
    without = used(alice, 1, **ago, gpus=0)
    assert rolled(NOW) == 1
    left = set(Uncounted.objects.values_list("interval", flat=True))
    assert left == {goes_on.pk, lately.pk, gave_back.pk}
    assert Roll.objects.get().counted == without.pk
    assert set(UsedDay.objects.values_list("begun", flat=True)) == {over.started_at}
    Reservation.objects.all().delete()
    Interval.objects.filter(pk=goes_on.pk).update(ended_at=NOW - timedelta(days=2))
    assert rolled(NOW + timedelta(hours=2)) == 3
    assert not Uncounted.objects.exists()


def test_a_launch_that_is_still_being_written_is_waited_for(
    clock: Any, used: Any, alice: Any
) -> None:
    """Another transaction may have taken a lower key and end later."""
    old = {"started_at": NOW - timedelta(days=9), "ended_at": NOW - timedelta(days=8)}
    used(alice, 1, **old)
    for minutes, counted in ((0, 0), (59, 0), (60, 0), (119, 0), (120, 1), (121, 0)):
        clock(NOW + timedelta(minutes=minutes))
        assert days.roll() == counted, minutes
    clock(NOW - timedelta(days=1))  # and a clock that was set back counts nothing anew
    assert days.roll() == 0


def test_a_worker_that_dies_halfway_has_counted_nothing(
    rolled: Any, clock: Any, used: Any, alice: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ago = {"started_at": NOW - timedelta(days=9), "ended_at": NOW - timedelta(days=8)}
    rolled(NOW - timedelta(hours=3))
    used(alice, 1, **ago)
    clock(NOW - timedelta(hours=2))
    assert days.roll() == 0
    clock(NOW)
    with monkeypatch.context() as patch:
        patch.setattr(Uncounted.objects, "bulk_create", lambda rows: 1 / 0)
        with pytest.raises(ZeroDivisionError):
            days.roll()
    assert not UsedDay.objects.exists()
    assert days.roll() == 1
    assert sum(UsedDay.objects.values_list("amount", flat=True)) == 24 * HOUR // 1000
