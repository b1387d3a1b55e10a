"""C7: two workloads want one host. The first keeps it, the second is told, and gets it afterwards."""

from datetime import timedelta

import pytest

from common.clock import now
from runtime.models import Route
from runtime.protocol import Phase
from tests.engineapp.models import Thing

KEY = "/host-a"


@pytest.fixture
def first(make_thing, settle):
    return settle(make_thing(name="host-a"))


@pytest.fixture
def second(first, make_thing, settle):
    return settle(make_thing(name="host-a"))


def again(thing, settle):
    Thing.objects.filter(pk=thing.pk).update(next_reconcile_at=now() - timedelta(seconds=1))
    return settle(thing)


def owners():
    return list(Route.objects.filter(key=KEY).values_list("uid", flat=True))


def test_c7_a_host_stays_with_the_workload_that_had_it_first(first, second, settle, router):
    for thing in (second, first, second):
        again(thing, settle)
        assert owners() == [first.uid]
        assert router.list()[KEY].uid == str(first.uid)
    first.refresh_from_db()
    assert (first.phase, first.reason) == (Phase.RUNNING, "")


def test_c7_the_second_says_why_nobody_reaches_it(second):
    assert second.phase == Phase.STARTING
    assert second.message == "The address host-a belongs to another workload, which keeps it."


@pytest.mark.parametrize("how", ["stopped", "absent"])
def test_c7_the_second_takes_nothing_along_when_it_ends(first, second, settle, want, router, how):
    settle(want(second, how))
    assert owners() == [first.uid]
    assert router.list()[KEY].uid == str(first.uid)


def test_c7_what_the_second_remembers_of_itself_takes_nothing_either(
    first, second, settle, want, router
):
    # as a version before wrote it: the key stands in what it believes to have
    ref = {**second.external_ref, "routes": [KEY], "route": KEY}
    Thing.objects.filter(pk=second.pk).update(external_ref=ref)
    settle(want(second, "stopped"))
    assert owners() == [first.uid]
    assert KEY in router.list()


def test_c7_the_second_gets_it_once_the_first_gave_it_up(first, second, settle, want, router):
    settle(want(first, "stopped"))
    assert again(second, settle).phase == Phase.RUNNING
    assert owners() == [second.uid]
    assert router.list()[KEY].uid == str(second.uid)


def test_c7_a_row_that_came_between_looking_and_writing_is_kept(first, make_thing):
    from runtime.routers.base import RouteEntry
    from runtime.routes import TakenError, _put

    late = make_thing(name="host-a")
    with pytest.raises(TakenError, match="belongs to another workload"):
        _put(late.uid, RouteEntry(KEY, "http://127.0.0.1:9", str(late.uid)), is_new=True)
    assert owners() == [first.uid]
