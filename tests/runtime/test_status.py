"""The pure part: from intent and observation to what is shown."""

from collections.abc import Iterator
from datetime import timedelta
from types import SimpleNamespace
from typing import Any

import pytest
import time_machine

from runtime.protocol import Desired, Observation, Phase, Seen
from runtime.reasons import REASONS, Fault, Reason, end_reason, info
from runtime.workload_state import OFFERS, ReconcileContext, Status, status_of

RUN, STOP, GONE = Desired.RUNNING, Desired.STOPPED, Desired.ABSENT


def seen(state: Seen, launch: int = 1, **more: Any) -> Observation:
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
def test_status_follows_the_table(
    desired: Desired, observation: Any, more: Any, phase: Phase, reason: str
) -> None:
    status = status_of(desired, observation, launch=1, **more)
    assert (status.phase, status.reason) == (phase, reason)


def test_every_pair_of_intent_and_observation_has_a_status() -> None:
    for desired in Desired:
        for state in Seen:
            for launch in (0, 1, 2):
                assert status_of(desired, seen(state, launch), launch=1).phase in Phase


def test_every_phase_says_what_it_offers_and_every_reason_what_it_means() -> None:
    assert set(OFFERS) == set(Phase)
    assert set(REASONS) == set(Reason)
    for reason, meaning in REASONS.items():
        assert meaning.fault in Fault
        assert reason == Reason.NONE or str(meaning.text)
        if meaning.fault != Fault.NOBODY and reason != Reason.OPERATOR:
            assert str(meaning.advice), reason


def test_an_unknown_reason_says_nothing_rather_than_failing() -> None:
    assert info("from-a-newer-version").text == ""
    assert end_reason("stopped", 0) == Reason.FINISHED


class Starts:
    """One launch that is looked at again and again, with 600 s to be ready in."""

    STARTS = Status(Phase.STARTING, Reason.PROGRAM)
    WAITS = Status(Phase.PENDING, Reason.QUEUED)

    def __init__(self, clock: Any) -> None:
        self.clock = clock
        self.row = SimpleNamespace(launch=1, phase=Phase.PENDING)
        self.state = ReconcileContext(self.row, {"launch": 1})

    def late(self, status: Status, *seconds: float) -> bool:
        """Whether it is late at the last of these looks, each so long after the one before."""
        found = False
        for step in seconds:
            self.clock.shift(timedelta(seconds=step))
            found = self.state.is_late(status, 600)
            self.row.phase = status.phase
        return found

    def run(self, seconds: float) -> None:
        """It is ready for so long; nobody asks whether it is late meanwhile."""
        self.clock.shift(timedelta(seconds=seconds))
        self.row.phase = Phase.RUNNING


@pytest.fixture
def launch() -> Iterator[Starts]:
    with time_machine.travel(0, tick=False) as clock:
        yield Starts(clock)


def test_a_start_that_is_begun_again_and_again_is_late_all_the_same(launch: Starts) -> None:
    """Kueue makes a pod anew that is not ready in its time; a real wait in line begins anew."""
    starts, waits = launch.STARTS, launch.WAITS
    assert not launch.late(waits, 0, 10, 500)  # in line for the first time
    assert not launch.late(starts, 1, 400)
    assert not launch.late(waits, 1, 10)
    assert not launch.late(starts, 1, 150)
    assert launch.late(starts, 100)
    assert not launch.late(waits, 1, 61, 10)  # this was a wait
    assert not launch.late(starts, 1, 590)
    launch.run(100)
    assert not launch.late(starts, 1, 590)


def test_one_that_is_put_out_whenever_its_time_is_over_is_late_in_its_second_round(
    launch: Starts,
) -> None:
    """Kueue's time is shorter than ours: it would be put out and let in for ever."""
    rounds = 0
    while rounds < 10 and not launch.late(launch.STARTS, 1, 150, 149, 250):
        assert not launch.late(launch.WAITS, 1, 5)
        rounds += 1
    assert rounds == 1


@pytest.mark.parametrize("waits", [(1,), (1, 5), (1, 5, 5), (1, 5, 100)])
@pytest.mark.parametrize("is_seen", [True, False])
def test_what_ran_for_hours_has_its_whole_time_again_when_it_lost_its_place(
    launch: Starts, waits: tuple[float, ...], is_seen: bool
) -> None:
    """However briefly it waits, and whether or not somebody looked while it started before."""
    assert not launch.late(launch.WAITS, 1, 5)
    for _turn in range(3):
        assert not is_seen or not launch.late(launch.STARTS, 5, 300)
        launch.run(7200)
        assert not launch.late(launch.WAITS, *waits)
    assert not launch.late(launch.STARTS, 5, 590)
    launch.run(7200)
    assert not launch.late(launch.STARTS, 1, 5, 590)
    assert launch.late(launch.STARTS, 20)
