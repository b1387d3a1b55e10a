"""How full a volume was, by day: what is kept of its measurements, who sees it, and for how long."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Any

import pytest
import time_machine

from common.ui.components import HEIGHT, STEP
from tests.support.queries import fewest
from volumes import measuring
from volumes.models import Volume, VolumeDay
from volumes.ui.views import LEAST_DAYS, chart

GIB = 2**30
BASE = "/projects/vision/volumes/"


@pytest.fixture
def clock() -> Any:
    with time_machine.travel("2026-11-22T23:30:00Z", tick=False) as traveller:
        yield traveller


def measured(row: Volume, used: int | None, **more: Any) -> None:
    from common.clock import now

    updates = {"used_bytes": used, "used_at": now(), "used_at_least": False, **more}
    measuring.note_day(row, measuring.Look(used, updates))


def kept(row: Volume) -> list[tuple[str, int]]:
    return [(str(day), used) for day, used in row.days.values_list("day", "used_bytes")]


def test_the_last_measurement_of_a_day_is_kept(clock: Any, make: Any, bob: Any) -> None:
    row = make(bob)
    row.days.all().delete()
    measured(row, 5)
    measured(row, 7)
    assert kept(row) == [("2026-11-22", 7)]
    clock.shift(timedelta(hours=1))
    row.size_limit_mib = None
    measured(row, 9, used_at_least=True)
    assert kept(row) == [("2026-11-22", 7), ("2026-11-23", 9)]
    before, last = row.days.order_by("day")
    assert (before.size_bytes, before.at_least) == (2048 * 2**20, False)
    assert (last.size_bytes, last.at_least) == (None, True)


def test_what_was_not_measured_is_not_kept_as_nought(make: Any, bob: Any) -> None:
    row = make(bob)
    row.days.all().delete()
    measured(row, None)
    measuring.note_day(row, measuring.Look(5))  # known from before: nobody looked now
    assert kept(row) == []


def test_the_engine_keeps_what_it_finds(clock: Any, make: Any, bob: Any, settle: Any) -> None:
    row = make(bob)
    assert kept(row) == [("2026-11-22", 0)]
    clock.shift(timedelta(hours=3))
    settle()
    assert [day for day, _used in kept(row)] == ["2026-11-22", "2026-11-23"]


def test_old_days_and_those_of_volumes_that_are_gone_are_forgotten(make: Any, bob: Any) -> None:
    row, gone = make(bob), make(bob, name="gone")
    VolumeDay.objects.all().delete()
    today = date(2026, 11, 22)
    with time_machine.travel("2026-11-22T12:00:00Z", tick=False):
        for one, day in ((row, today), (row, today - timedelta(days=401)), (gone, today)):
            VolumeDay.objects.create(volume=one, project=one.project, day=day, used_bytes=1)
        Volume.objects.filter(pk=gone.pk).update(deleted_at="2026-11-22T11:00:00Z")
        assert measuring.prune_days() == 2
    assert kept(row) == [("2026-11-22", 1)]
    assert kept(gone) == []


def test_housekeeping_forgets_them(make: Any, bob: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from portal.server import duties

    row = make(bob)
    VolumeDay.objects.update(day=date(2020, 1, 1))
    duties.tidy()
    assert kept(row) == []


# --- the page ------------------------------------------------------------------------------------


def test_the_page_is_for_those_who_see_the_volume(
    as_user: Any, make: Any, bob: Any, vera: Any, mona: Any, charlie: Any, other: Any
) -> None:
    del other
    row = make(bob)
    url = f"{BASE}{row.uid}/usage/"
    for user in (bob, mona, vera):
        assert as_user(user).get(url).status_code == 200
    assert as_user(charlie).get(url).status_code == 404
    assert as_user(bob).get(f"/projects/sound/volumes/{row.uid}/usage/").status_code == 404
    assert url in as_user(vera).get(f"{BASE}{row.uid}/").content.decode()


def test_it_shows_days_who_uses_it_and_the_way_to_its_folders(
    as_user: Any, make: Any, bob: Any, vera: Any, held: Any
) -> None:
    row = make(bob)
    row.days.all().delete()
    client, url = as_user(bob), f"{BASE}{row.uid}/usage/"
    assert "from the first measurement on" in client.get(url).content.decode()
    measured(row, 3 * GIB, used_at_least=True)
    with held(row):
        page = client.get(url).content.decode()
    assert "at least 3" in page
    assert page.count('class="chart-held"') == 1
    assert '<a href="/somewhere">lab</a> <span class="text-secondary">Alice</span>' in page
    assert f"{BASE}{row.uid}/files/?show=usage" in page
    assert "show=usage" not in as_user(vera).get(url).content.decode()


def test_what_it_held_in_another_project_is_not_told(
    as_user: Any, make: Any, bob: Any, other: Any
) -> None:
    row = make(bob)
    row.days.update(project=other)
    assert measuring.days_of(row) == []
    measured(row, 4 * GIB)  # on the same day: it is this project's now
    assert [one.used_bytes for one in measuring.days_of(row)] == [4 * GIB]


def test_many_days_cost_no_more_questions(as_user: Any, make: Any, bob: Any, project: Any) -> None:
    row, client = make(bob), as_user(bob)
    url = f"{BASE}{row.uid}/usage/"
    first = fewest(lambda: client.get(url))
    today = row.days.get().day
    VolumeDay.objects.bulk_create(
        VolumeDay(volume=row, project=project, day=today - timedelta(days=n), used_bytes=n)
        for n in range(1, 120)
    )
    assert fewest(lambda: client.get(url)) <= first
    page = client.get(url).content.decode()
    assert page.count('class="chart-held"') == measuring.SHOWN.days


# --- the drawing -----------------------------------------------------------------------------------


def test_columns_stand_where_their_days_are() -> None:
    until = date(2026, 11, 22)
    days = [
        VolumeDay(day=until - timedelta(days=10), used_bytes=GIB, size_limit_mib=2048),
        VolumeDay(day=until, used_bytes=4 * GIB),
    ]
    drawn = chart(days, until)
    assert drawn.width == LEAST_DAYS * STEP
    before, last = drawn.columns
    assert last.x - before.x == 10 * STEP
    assert (before.height, last.height) == (244, 976)
    assert before.top + before.height == HEIGHT
    assert (before.limit, last.limit) == (HEIGHT - 488 - 12, None)


def test_nothing_and_nought_can_be_drawn() -> None:
    until = date(2026, 11, 22)
    assert chart([], until).columns == []
    empty = chart([VolumeDay(day=until - timedelta(days=60), used_bytes=0)], until)
    assert [column.height for column in empty.columns] == [0]
    assert empty.width == 61 * STEP
