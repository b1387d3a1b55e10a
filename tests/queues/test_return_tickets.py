"""Who has a ticket goes ahead of newcomers within a guarantee, and nowhere else."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from queues.sharing import NOTHING, Part, Pool, Share, Work
from queues.turns import Turns

KIND = "h100"
PARTS = ("a", "b", "c")

works = st.builds(
    Work,
    uid=st.uuids().map(str),
    part=st.sampled_from(PARTS),
    kinds=st.just((KIND,)),
    count=st.integers(1, 3),
    priority=st.sampled_from([0, 0, 5]),
    asked_at=st.integers(100, 200).map(float),
    since=st.one_of(st.just(0.0), st.integers(1, 90).map(float)),
)
shares = st.lists(st.integers(0, 4), min_size=3, max_size=3)


def pool(guaranteed: list[int], held: list[Work]) -> Pool:
    parts = [
        Part(key, shares={KIND: Share(guaranteed=n)})
        for key, n in zip(PARTS, guaranteed, strict=True)
    ]
    there = Pool(parts, {KIND: 12})
    for n, one in enumerate(held):
        there.take(replace(one, kind=KIND, granted_at=float(n)))
    return there


def order(there: Pool, waiting: list[Work]) -> list[Work]:
    turns = Turns((one, one) for one in waiting)  # type: ignore[misc]
    found = []
    while turns:
        found.append(turns.take(there)[1])
    return found


def test_a_ticket_goes_before_who_asked_after_it_was_parked_and_behind_who_asked_before() -> None:
    first = Work("first", "a", (KIND,), 1, asked_at=10)
    newcomer = Work("new", "b", (KIND,), 1, asked_at=60)
    back = Work("back", "c", (KIND,), 1, asked_at=90, since=50)
    there = pool([2, 2, 2], [])
    assert [one.uid for one in order(there, [newcomer, back, first])] == ["first", "back", "new"]


def test_what_would_only_borrow_gains_nothing_by_a_ticket() -> None:
    held = [Work(f"h{n}", "a", (KIND,), 1) for n in range(2)]
    before = Work("before", "a", (KIND,), 1, asked_at=60)
    back = Work("back", "a", (KIND,), 1, asked_at=90, since=50)
    assert [one.uid for one in order(pool([2, 2, 2], held), [back, before])] == ["before", "back"]


@settings(max_examples=300, deadline=None)
@given(shares, st.lists(works, max_size=4), st.lists(works, min_size=1, max_size=8))
def test_for_any_line_a_ticket_moves_only_what_is_within_a_guarantee(
    guaranteed: list[int], held: list[Work], waiting: list[Work]
) -> None:
    there = pool(guaranteed, held)
    plain = [replace(one, since=0.0) for one in waiting]
    for one, same in zip(waiting, plain, strict=True):
        turn, usual = there.turn(one), there.turn(same)
        assert turn[:3] == usual[:3]  # height, shares and priority stand above a ticket
        if turn[0] == NOTHING or not one.since:
            assert turn == usual
    # who borrows stands where it would stand if nobody had a ticket
    borrows = {one.uid for one in waiting if there.turn(one)[0] == NOTHING}
    as_is = [one.uid for one in order(there, waiting) if one.uid in borrows]
    without = [one.uid for one in order(there, plain) if one.uid in borrows]
    stands = {one.uid: there.turn(one) for one in waiting}
    assert [stands[uid] for uid in as_is] == [stands[uid] for uid in without]


@settings(max_examples=200, deadline=None)
@given(shares, st.lists(works, max_size=6), works)
def test_a_ticket_asks_nothing_back_that_would_not_be_asked_back_without(
    guaranteed: list[int], held: list[Work], asked: Work
) -> None:
    there = pool(guaranteed, held)
    plain = replace(asked, since=0.0)
    assert there.victims(asked, KIND, asked.count) == there.victims(plain, KIND, asked.count)
