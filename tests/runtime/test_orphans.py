"""E11: things outside without a row are removed, once seen twice with a grace between."""

import datetime as dt
from uuid import uuid4

import pytest
import time_machine
from django.core.cache import cache
from django.db import connection
from django.test.utils import CaptureQueriesContext

from clusters import services
from common.clock import now
from events.models import Event
from runtime.models import Installation
from runtime.orphans import collect_orphans, live_uids
from runtime.spec import WorkloadSpec
from tests.engineapp.models import Thing


@pytest.fixture(autouse=True)
def _empty_cache():
    cache.clear()


@pytest.fixture
def stray(driver):
    services.ensure_local_cluster()
    uid = str(uuid4())
    driver.ensure(
        WorkloadSpec(uid, "thing", "stray", 1, 1, str(uuid4()), str(uuid4()), "x", ("true",))
    )
    return uid


def test_e11_a_stray_is_removed_after_two_sightings_and_told(driver, stray):
    assert collect_orphans() == 0
    assert collect_orphans() == 0  # seen twice, but too soon
    with time_machine.travel(now() + dt.timedelta(seconds=120)):
        assert collect_orphans() == 1
    assert list(driver.list_owned()) == []
    event = Event.objects.get(verb="orphan.removed")
    assert event.target_name == stray


def test_e11_what_has_a_row_is_left_alone(driver, make_thing, settle):
    settle(make_thing())
    collect_orphans()
    with time_machine.travel(now() + dt.timedelta(seconds=120)):
        assert collect_orphans() == 0
    assert len(list(driver.list_owned())) == 1


def test_e11_a_row_that_is_gone_does_not_protect_its_thing(driver, make_thing, settle):
    thing = settle(make_thing())
    Thing.objects.filter(pk=thing.pk).update(deleted_at=now())
    collect_orphans()
    with time_machine.travel(now() + dt.timedelta(seconds=120)):
        assert collect_orphans() == 1


def test_a_machine_that_is_down_is_passed_over(driver, stray):
    driver.fail("list_owned", "unreachable", times=-1)
    assert collect_orphans() == 0


def test_e11_what_is_listed_again_after_each_removal_is_told_once(driver, stray, monkeypatch):
    monkeypatch.setattr(driver, "remove", lambda _uid: None)  # another's object with our label
    begun, removed = now(), 0
    day = 24 * 60
    for minutes in (*range(0, 20, 2), 20 * 60, 20 * 60 + 2, day + 600, day + 602):
        with time_machine.travel(begun + dt.timedelta(minutes=minutes)):
            Installation.objects.update(alive_at=now())  # it looked each minute in between
            removed += collect_orphans()
    assert removed > 4
    told = Event.objects.get(verb="orphan.removed", target_name=stray)
    assert "What Berth made of it is removed; what others made stays." in told.message
    uid = str(uuid4())
    driver.ensure(
        WorkloadSpec(uid, "thing", "other", 1, 1, str(uuid4()), str(uuid4()), "x", ("true",))
    )
    for minutes in (day + 660, day + 662):
        with time_machine.travel(begun + dt.timedelta(minutes=minutes)):
            Installation.objects.update(alive_at=now())
            collect_orphans()
    assert Event.objects.filter(verb="orphan.removed", target_name=uid).count() == 1


def test_e11_among_thousands_each_row_protects_its_own_thing(make_thing):
    kept, gone = make_thing(), make_thing()
    Thing.objects.filter(pk=gone.pk).update(deleted_at=now())
    strangers = {str(uuid4()) for _ in range(5000)}
    with CaptureQueriesContext(connection) as asked:
        found = live_uids({str(kept.uid), str(gone.uid), *strangers})
    assert found == {str(kept.uid)}
    assert max(len(query["sql"]) for query in asked) < 2000
