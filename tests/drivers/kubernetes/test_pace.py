"""What counts is told at once; what does not waits for it, but not long."""

from __future__ import annotations

from dataclasses import replace

from runtime.drivers.kubernetes.pace import LATER_S, Pace
from runtime.protocol import Observation, Seen

READY = Observation(uid="a", seen=Seen.READY, version=1, detail={"pod_uid": "p1", "node": ""})


class Clock:
    def __init__(self) -> None:
        self.at = 100.0

    def __call__(self) -> float:
        return self.at


def settled() -> tuple[Pace, Clock]:
    clock = Clock()
    pace = Pace(clock)
    assert pace.now([READY]) == [READY]
    return pace, clock


def test_a_first_sight_is_told_at_once() -> None:
    pace, _clock = settled()
    assert pace.seconds_left() is None


def test_another_state_is_told_at_once() -> None:
    pace, _clock = settled()
    found = replace(READY, seen=Seen.STARTING, version=2)
    assert pace.now([found]) == [found]


def test_a_detail_waits_and_its_newest_is_told() -> None:
    pace, clock = settled()
    on_a_node = replace(READY, version=2, detail={**READY.detail, "node": "n1"})
    restarted = replace(on_a_node, version=3, detail={**on_a_node.detail, "restarts": 1})
    assert pace.now([on_a_node]) == []
    clock.at += LATER_S / 2
    assert pace.now([restarted]) == []
    assert pace.seconds_left() == LATER_S / 2
    clock.at += LATER_S / 2
    assert pace.now([]) == [restarted]
    assert pace.seconds_left() is None


def test_details_that_come_without_end_are_told_all_the_same() -> None:
    pace, clock = settled()
    told = []
    for version in range(2, 12):
        clock.at += LATER_S / 4
        told += pace.now([replace(READY, version=version, detail={"restarts": version})])
    assert [found.version for found in told] == [6, 11]


def test_what_waits_goes_with_what_counts() -> None:
    pace, _clock = settled()
    other = replace(READY, uid="b")
    assert pace.now([other]) == [other]
    detail = replace(READY, version=2, detail={**READY.detail, "node": "n1"})
    assert pace.now([detail]) == []
    gone = Observation(uid="b", seen=Seen.MISSING, version=3)
    assert pace.now([gone]) == [detail, gone]


def test_another_pod_is_told_at_once_though_it_says_the_same() -> None:
    pace, _clock = settled()
    successor = replace(READY, version=2, detail={**READY.detail, "pod_uid": "p2"})
    assert pace.now([successor]) == [successor]


def test_what_was_gone_and_is_there_again_is_new() -> None:
    pace, _clock = settled()
    pace.now([Observation(uid="a", seen=Seen.MISSING, version=2)])
    again = replace(READY, version=3)
    assert pace.now([again]) == [again]
