"""What has no row is removed only where it is this installation's, and the rows are not older."""

import datetime as dt
from uuid import uuid4

import pytest
import time_machine
from django.core.cache import cache

from clusters import services
from common.clock import now
from events.models import Event
from runtime import installation
from runtime.drivers.fake import FakeDriver
from runtime.models import Installation
from runtime.orphans import collect_orphans
from runtime.spec import WorkloadSpec


@pytest.fixture(autouse=True)
def _machine(db):
    cache.clear()
    services.ensure_local_cluster()


def work(uid=""):
    uid = uid or str(uuid4())
    return WorkloadSpec(uid, "thing", "stray", 1, 1, str(uuid4()), str(uuid4()), "x", ("true",))


def made_by(driver, mark):
    """Something that a portal with this mark made on the same machine."""
    spec = work()
    other = FakeDriver(installation=mark)
    other._store = driver._store
    other.ensure(spec)
    return spec.uid


def passes(minutes=20, every=2):
    """Collect as often as the worker does."""
    begun, removed = now(), 0
    for minute in range(0, minutes, every):
        with time_machine.travel(begun + dt.timedelta(minutes=minute)):
            removed += collect_orphans()
    return removed


def there(driver):
    return {found.uid for found in driver.list_owned()}


def test_what_another_installation_made_is_left(driver):
    uid = made_by(driver, str(uuid4()))
    assert passes() == 0
    assert there(driver) == {uid}


def test_what_carries_no_mark_is_left_and_shown(driver, own):
    uid = made_by(driver, "")
    assert passes() == 0
    assert there(driver) == {uid}
    own.refresh_from_db()
    assert [(one["uid"], one["whose"]) for one in own.unknown] == [(uid, "")]


def test_what_carries_no_mark_and_has_a_row_gets_ours(driver, own, make_thing):
    thing = make_thing()
    other = FakeDriver()
    other._store = driver._store
    other.ensure(work(str(thing.uid)))
    collect_orphans()
    assert [found.installation for found in driver.list_owned()] == [str(own.uid)]


def test_before_it_is_set_up_nothing_is_removed(driver):
    driver.ensure(work())
    Installation.objects.all().delete()
    assert passes() == 0
    assert len(there(driver)) == 1


def test_after_a_restore_nothing_is_removed_until_an_operator_has_looked(driver, own, operator):
    newer = work()
    driver.ensure(newer)
    installation.hold(Installation.Hold.RESTORED)
    assert passes() == 0
    own.refresh_from_db()
    assert [(one["uid"], one["whose"]) for one in own.unknown] == [(newer.uid, "own")]
    installation.release(by="root")
    assert passes() == 1
    assert there(driver) == set()
    event = Event.objects.get(verb="installation.orphans-released")
    assert event.data["held"] == "restored"
    assert event.data["unknown"][0]["uid"] == newer.uid


def test_what_was_begun_before_a_restore_is_not_gone_on_with(driver, own):
    driver.ensure(work())
    driver.fail("remove", "not-yet", times=-1)
    passes()
    installation.hold(Installation.Hold.RESTORED)
    driver.heal()
    assert passes() == 0
    assert len(there(driver)) == 1


def test_a_database_that_was_long_away_removes_nothing_that_it_does_not_know(driver, own):
    """Put back by whatever means: a copy of the file, a dump, the image of a machine."""
    collect_orphans()
    driver.ensure(work())
    with time_machine.travel(now() + dt.timedelta(hours=3)):
        assert passes() == 0
        own.refresh_from_db()
        assert own.held_why == Installation.Hold.QUIET
        installation.release(by="root")
        assert passes() == 1


def test_a_night_without_anything_unknown_holds_nothing(driver, own):
    collect_orphans()
    with time_machine.travel(now() + dt.timedelta(hours=10)):
        collect_orphans()
        own.refresh_from_db()
        assert own.held_why == ""
        driver.ensure(work())
        assert passes() == 1
