"""The pure part: from intent and observation to what is shown."""

from datetime import timedelta
from types import SimpleNamespace

import pytest
import time_machine

from runtime.protocol import Desired, Observation, Phase, Seen
from runtime.reasons import REASONS, Fault, Reason, end_reason, info
from runtime.workload_state import OFFERS, ReconcileContext, Status, status_of

RUN, STOP, GONE = Desired.RUNNING, Desired.STOPPED, Desired.ABSENT


def seen(state, launch=1, **more):
    return Observation(uid="u", seen=state, launch=launch, **more)


TABLE = [
    (RUN, None, {}, Phase.PENDING, Reason.ACCEPTED),
    (RUN, seen(Seen.MISSING, 0), {}, Phase.PENDING, Reason.ACCEPTED),
    (RUN, seen(Seen.MISSING, 0), {"ensured": True}, Phase.FAILED, Reason.VANISHED),
    (RUN, seen(Seen.CREATED), {}, Phase.STARTING, Reason.PLACED),
    (RUN, seen(Seen.STARTING), {}, Phase.STARTING, Reason.PLACED),
    (RUN, seen(Seen.READY), {}, Phase.RUNNING, ""),
    (RUN, seen(Seen.READY), {"routed": False}, Phase.STARTING, Reason.ROUTING),
    (RUN, seen(Seen.STOPPING), {}, Phase.STOPPING, ""),
    (RUN, seen(Seen.READY, 0), {}, Phase.STARTING, Reason.PREVIOUS_ENDING),
    (RUN, seen(Seen.EXITED, 0), {}, Phase.PENDING, Reason.ACCEPTED),
    (RUN, seen(Seen.EXITED, exit_code=0), {}, Phase.STOPPED, Reason.FINISHED),
    (RUN, seen(Seen.EXITED, exit_code=3), {}, Phase.FAILED, Reason.EXIT),
    (RUN, seen(Seen.EXITED, exit_code=-9), {}, Phase.FAILED, Reason.KILLED),
    (RUN, seen(Seen.EXITED, exit_code=-9, reason="oom"), {}, Phase.FAILED, Reason.OOM),
    (RUN, seen(Seen.EXITED, exit_code=None), {}, Phase.FAILED, Reason.KILLED),
    (STOP, None, {}, Phase.STOPPED, ""),
    (STOP, seen(Seen.READY), {}, Phase.STOPPING, ""),
    (STOP, seen(Seen.STOPPING), {}, Phase.STOPPING, ""),
    (STOP, seen(Seen.EXITED, exit_code=1), {}, Phase.STOPPED, ""),
    (GONE, seen(Seen.EXITED, exit_code=0), {}, Phase.DELETING, ""),
    (GONE, seen(Seen.READY), {}, Phase.DELETING, ""),
    (GONE, None, {}, Phase.DELETED, ""),
]


@pytest.mark.parametrize(("desired", "observation", "more", "phase", "reason"), TABLE)
def test_status_follows_the_table(desired, observation, more, phase, reason):
    status = status_of(desired, observation, launch=1, **more)
    assert (status.phase, status.reason) == (phase, reason)


def test_every_pair_of_intent_and_observation_has_a_status():
    for desired in Desired:
        for state in Seen:
            for launch in (0, 1, 2):
                assert status_of(desired, seen(state, launch), launch=1).phase in Phase


def test_every_phase_says_what_it_offers_and_every_reason_what_it_means():
    assert set(OFFERS) == set(Phase)
    assert set(REASONS) == set(Reason)
    for reason, meaning in REASONS.items():
        assert meaning.fault in Fault
        assert reason == Reason.NONE or str(meaning.text)
        if meaning.fault != Fault.NOBODY and reason != Reason.OPERATOR:
            assert str(meaning.advice), reason


def test_an_unknown_reason_says_nothing_rather_than_failing():
    assert info("from-a-newer-version").text == ""
    assert end_reason("stopped", 0) == Reason.FINISHED


def test_a_start_that_is_begun_again_and_again_is_late_all_the_same() -> None:
    """Kueue makes a pod anew that is not ready in its time; a real wait in line begins anew."""
    row = SimpleNamespace(launch=1, phase=Phase.STARTING)
    state = ReconcileContext(row, {"launch": 1})
    starts, waits = Status(Phase.STARTING, Reason.PROGRAM), Status(Phase.PENDING, Reason.QUEUED)

    def late(status: Status, *seconds: float) -> bool:
        found = False
        for step in seconds:
            clock.shift(timedelta(seconds=step))
            found = state.is_late(status, 600)
        return found

    with time_machine.travel(0, tick=False) as clock:
        assert not late(waits, 0, 10, 500)  # in line for the first time
        assert not late(starts, 1, 400)
        assert not late(waits, 1, 10)
        assert not late(starts, 1, 150)
        assert late(starts, 100)
        assert not late(waits, 1, 61, 10)  # this was a wait
        assert not late(starts, 1, 590)
        row.phase = Phase.RUNNING
        assert not late(starts, 100)
        row.phase = Phase.STARTING
        assert not late(starts, 1, 590)
