"""A load that was cut off goes on by itself: with pauses, a bounded number of times, then in words."""

from datetime import timedelta
from typing import Any

import pytest
import time_machine

from common.clock import now
from events.models import Event
from loaders import services
from loaders.choices import State
from loaders.models import Load
from loaders.selectors import missing
from loaders.services import retries
from loaders.states import FILTERS, state_of
from loaders.words import message_of
from notifications.models import Notification
from runtime.reasons import Reason
from work import services as work


@pytest.fixture
def cut(load: Any, alice: Any, settle: Any, end: Any) -> Any:
    return end(settle(load(alice)), -9, reason="killed")


def come_due(row: Any) -> int:
    Load.objects.filter(retry_at__isnull=False).update(retry_at=now() - timedelta(seconds=1))
    started = services.retries_run()
    row.refresh_from_db()
    return started


def test_what_was_killed_waits_a_moment_and_goes_on_as_the_next_launch(cut, settle, end):
    assert (state_of(cut), cut.runs.get().result) == (State.WAITING, "failed")
    assert "try 1 of 5" in message_of(cut)
    assert not Notification.objects.exists()
    with time_machine.travel(cut.retry_at - timedelta(seconds=1), tick=False):
        assert services.retries_run() == 0  # not yet
    assert come_due(cut) == 1
    assert (cut.launch, cut.tries, cut.retry_at) == (2, 1, None)
    assert services.retries_run() == 0
    assert end(settle(cut), 0).result == "done"
    run = cut.runs.first()
    assert (run.started_by, run.scheduled) == (None, False)
    assert Event.objects.filter(verb="load.started", actor_name="").count() == 1


def test_a_bounded_number_of_times_with_growing_pauses_and_then_it_says_so(
    cut, settle, end, settings
):
    settings.BERTH_LOAD_RETRIES = 3
    pauses = []
    for _try in range(3):
        pauses.append(cut.retry_at - now())
        assert come_due(cut) == 1
        end(settle(cut), None, reason="vanished")
    assert pauses == sorted(pauses)
    assert (state_of(cut), cut.retry_at, cut.tries) == (State.FAILED, None, 3)
    assert "by itself 3 times" in message_of(cut)
    assert [n.kind for n in Notification.objects.all()] == ["load.failed"]
    services.load_resume(principal=_who(cut), row=cut)
    cut.refresh_from_db()
    assert cut.tries == 0  # a person starts the count anew


def _who(row: Any) -> Any:
    from accounts.principal import Principal

    return Principal(user=row.owner)


@pytest.mark.parametrize(("code", "reason"), [(4, ""), (3, ""), (137, "oom"), (1, "")])
def test_what_failed_for_a_reason_of_its_own_does_not(load, alice, settle, end, code, reason):
    row = end(settle(load(alice)), code, **({"reason": reason} if reason else {}))
    assert row.retry_at is None


def test_an_interruption_that_nobody_asked_for_is_one(load, alice, settle, end):
    assert end(settle(load(alice)), 5).retry_at is not None


@pytest.mark.parametrize(("verb", "state"), [("pause", "paused"), ("cancel", "cancelled")])
def test_a_person_ends_it_meanwhile(cut, settle, principal, alice, verb, state):
    act = work.workload_stop if verb == "pause" else services.load_cancel
    act(principal=principal(alice), row=cut)
    settle(cut)
    assert (state_of(cut), come_due(cut), cut.launch) == (State(state), 0, 1)


def test_work_that_needs_its_data_waits_on(cut):
    assert missing([cut.uid])[0] == Reason.DATA
    assert Load.objects.filter(FILTERS["waiting"]).exists()
    assert not Load.objects.filter(FILTERS["failed"]).exists()


def test_one_that_may_not_start_now_is_tried_again_and_says_why(cut, settings):
    settings.BERTH_LOAD_RETRIES = 2
    Load.objects.update(anonymous=False)  # its credential was removed
    assert come_due(cut) == 0
    assert (cut.tries, cut.retry_at is not None) == (1, True)
    assert come_due(cut) == 0
    assert (state_of(cut), cut.retry_at, cut.launch) == (State.FAILED, None, 1)
    assert cut.result_message
    assert Event.objects.filter(verb="load.not-resumed").count() == 1


@pytest.mark.parametrize("lacks", ["a limit", "the disk"])
def test_what_only_the_portal_lacks_uses_up_no_try(
    cut, project, operator, principal, settings, settle, lacks
):
    from quotas.services import limits_set

    settings.BERTH_LOAD_RETRIES = 2
    if lacks == "a limit":
        limits_set(principal=principal(operator), project=project, limits={"cpu_milli": 1})
    else:
        settings.BERTH_DISK_FLOOR_MIB = 2**40
    for _look in range(5):
        assert come_due(cut) == 0
        assert (cut.tries, cut.retry_at is not None, state_of(cut)) == (0, True, State.WAITING)
    assert cut.result_message in message_of(cut)
    Load.objects.update(stopped_at=now() - timedelta(hours=2))
    come_due(cut)
    assert cut.retry_at - now() > retries.LONGEST_PAUSE - timedelta(minutes=1)
    if lacks == "a limit":
        limits_set(principal=principal(operator), project=project, limits={"cpu_milli": 10**6})
    settings.BERTH_DISK_FLOOR_MIB = 0
    assert come_due(cut) == 1
    assert (settle(cut).phase, cut.tries) == ("running", 1)


def test_after_a_day_it_is_said_that_it_could_not(cut, project, operator, principal, settings):
    from quotas.services import limits_set

    settings.BERTH_LOAD_RETRIES = 1
    limits_set(principal=principal(operator), project=project, limits={"cpu_milli": 1})
    Load.objects.update(stopped_at=now() - timedelta(hours=25))
    assert come_due(cut) == 0
    assert (state_of(cut), cut.retry_at) == (State.FAILED, None)
    assert Event.objects.filter(verb="load.not-resumed").count() == 1


def test_pauses_grow_to_ten_minutes():
    assert retries.pause_after(0) == retries.FIRST_PAUSE
    assert retries.pause_after(30) == retries.LONGEST_PAUSE


def test_why_it_can_not_go_on_is_said_in_its_owners_language(cut, alice):
    from tools import messages

    messages.compile_all()
    alice.language = "ja"
    alice.save()
    Load.objects.update(anonymous=False)  # its credential was removed
    come_due(cut)
    assert cut.result_message
    assert not cut.result_message.isascii()
