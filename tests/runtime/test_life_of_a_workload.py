"""From intent to a running workload and back, with nothing but the fake machine."""

from runtime.models import Route
from runtime.protocol import Phase


def test_a_wanted_thing_runs_and_can_be_reached(make_thing, settle, router, words):
    thing = settle(make_thing())
    assert thing.phase == Phase.RUNNING
    assert thing.reason == ""
    assert thing.observed_generation == thing.generation
    assert f"/thing-{thing.uid}" in router.list()
    assert words(thing) == ["accepted", "placed", "ready", "running"]


def test_stop_revokes_tokens_then_cuts_the_route_then_ends_it(
    make_thing, settle, want, driver, router, words
):
    thing = settle(make_thing())
    assert thing.tokens == ["token-1"]
    thing = settle(want(thing, "stopped"))
    assert thing.phase == Phase.STOPPED
    assert thing.tokens == []
    assert router.list() == {}
    assert (f"/thing-{thing.uid}", None) in router.cuts()
    assert not Route.objects.exists()
    assert driver.observe([str(thing.uid)])[str(thing.uid)].seen == "exited"
    assert words(thing)[-2:] == ["stopping", "stopped"]


def test_a_stopped_thing_starts_again_as_a_new_launch(make_thing, settle, want, words):
    thing = settle(make_thing())
    settle(want(thing, "stopped"))
    thing = settle(want(thing, "running"))
    assert thing.phase == Phase.RUNNING
    assert thing.launch == 2
    assert words(thing, 2)[0] == "accepted"


def test_an_absent_thing_leaves_nothing_and_then_its_row_goes(
    make_thing, settle, want, driver, router
):
    thing = settle(make_thing())
    thing = settle(want(thing, "absent"))
    assert thing.phase == Phase.DELETED
    assert thing.deleted_at is not None
    assert list(driver.list_owned()) == []
    assert router.list() == {}
