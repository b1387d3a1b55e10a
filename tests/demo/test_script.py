"""The script of the demonstration: the same at each start, and busy without an end to the queue."""

from collections import Counter

from portal.demo.script import (
    A100,
    DAY_S,
    H100,
    ORGANISATION,
    TEAMS,
    Ask,
    Cancel,
    Measure,
    Open,
    Resume,
    Search,
    Split,
    Submit,
    acts,
    day,
    past,
)

KINDS = {Submit, Cancel, Open, Resume, Search, Measure, Split, Ask}
EXISTS = {H100: 8, A100: 4}


def test_a_day_is_the_same_each_time_and_another_day_is_not() -> None:
    assert day(3) == day(3)
    assert day(3) != day(4)
    assert {type(act) for act in day(1)} == KINDS
    people = {person for team in TEAMS for person in team.people}
    assert len(people) == 12
    assert {act.who for number in range(10) for act in day(number) if hasattr(act, "who")} == people
    assert sum(team.in_organisation for team in TEAMS) == 2
    assert ORGANISATION


def test_acts_follow_each_other_without_gap_or_repetition_over_midnight() -> None:
    whole = list(acts(0, 2 * DAY_S))
    parts = [act for at in range(0, int(2 * DAY_S), 7) for act in acts(at, min(at + 7, 2 * DAY_S))]
    assert parts == whole == [*day(0), *day(1)]


def test_what_is_asked_for_fits_and_is_about_as_much_as_there_is() -> None:
    asked: Counter[str] = Counter()
    for number in range(1, 21):
        for act in day(number):
            if isinstance(act, Submit):
                assert act.gpus <= EXISTS[act.kind]
                asked[act.kind] += act.gpus * act.seconds
    for kind, there in EXISTS.items():
        assert 0.4 < asked[kind] / (20 * DAY_S * there) < 1.2, kind


def test_the_past_gives_no_gpu_twice_and_lets_nobody_pass() -> None:
    held = past(12, EXISTS)
    assert len(held) > 300
    for kind, there in EXISTS.items():
        own = [one for one in held if one.kind == kind]
        assert [one.granted_s for one in own] == sorted(one.granted_s for one in own)
        changes = sorted(
            change
            for one in own
            for change in ((one.granted_s, one.gpus), (one.ended_s, -one.gpus))
        )
        given = 0
        for _at, change in changes:  # at one moment what ends comes before what begins
            given += change
            assert given <= there
        assert given == 0
    assert all(one.asked_s <= one.granted_s < one.ended_s < 0 for one in held)
    assert any(one.granted_s > one.asked_s for one in held)
