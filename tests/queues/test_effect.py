"""The effect of a change: what follows now, what is promised, and the past again."""

from __future__ import annotations

import random
import time
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from queues.effect import Past, Tree, moment, promises, replay
from queues.sharing import Part, Share, Work

KIND = "h100"
A, B, C = "a", "b", "c"


def tree(guaranteed=2, parts=(A, B, C), **more):
    shares = {KIND: Share(guaranteed=guaranteed, **more)}
    return Tree(tuple(Part(key, shares=shares) for key in parts))


def works(part, number, *, held=True, since=0, **more):
    return [
        Work(
            f"{part}{n + since}",
            part,
            (KIND,),
            1,
            asked_at=n + since,
            kind=KIND if held else "",
            granted_at=n + since,
            **more,
        )
        for n in range(number)
    ]


def past(uid, part, asked_at, seconds, count=1, **more):
    return Past(uid, part, (KIND,), count, asked_at, seconds, **more)


# --- now ---------------------------------------------------------------------------------------


def test_a6_a_guarantee_that_is_raised_asks_the_newest_borrowers_and_starts_who_waits():
    there = [*works(A, 8), *works(B, 2, held=False, since=20)]
    none = moment(tree(0), {KIND: 8}, there)
    assert (none.starts, none.asked, none.waits) == ((), {}, ("b20", "b21"))
    after = moment(tree(2), {KIND: 8}, there)
    assert after.starts == ("b20", "b21")
    assert set(after.asked) == {"a7", "a6"}
    assert after.waits == ()


def test_a_ceiling_that_is_lowered_holds_back_only_its_own_part():
    there = [*works(A, 2, held=False), *works(B, 2, held=False, since=5)]
    low = Tree((Part(A, shares={KIND: Share(most=1)}),))
    found = moment(low, {KIND: 8}, there)
    assert found.starts == ("a0", "b5", "b6")
    assert found.waits == ("a1",)


def test_nobody_passes_who_waits_for_more():
    big = Work("big", B, (KIND,), 4, asked_at=1)
    small = Work("small", C, (KIND,), 1, asked_at=2)
    found = moment(tree(0), {KIND: 5}, [*works(A, 2), big, small])
    assert found.starts == ()
    assert found.waits == ("big", "small")


def test_work_that_takes_several_kinds_starts_on_one_that_is_free():
    other = Work("b", B, (KIND, "a100"), 1, asked_at=3)
    found = moment(tree(0), {KIND: 1, "a100": 1}, [*works(A, 1), other])
    assert found.starts == ("b",)


def test_building_stays_within_its_guarantee_unless_its_part_says_otherwise():
    kept = tree(1)
    assert kept.stays(A)
    assert not replace(kept, building_exceeds=frozenset({A})).stays(A)
    assert not kept.stays("nothing is promised to it")


# --- promises ----------------------------------------------------------------------------------


def test_what_is_promised_is_summed_over_the_tree_and_flagged():
    parts = [
        Part("org", shares={KIND: Share(guaranteed=3)}),
        Part(A, parent="org", shares={KIND: Share(guaranteed=2)}),
        Part(B, parent="org", shares={KIND: Share(guaranteed=2)}),
        Part(C, shares={KIND: Share(guaranteed=4), "a100": Share(guaranteed=1)}),
    ]
    h100, a100 = promises(parts, {KIND: 8})
    assert (h100.exists, h100.promised, h100.is_over) == (8, 8, False)
    assert h100.short == (("org", 3, 4),)
    assert (a100.exists, a100.promised, a100.is_over) == (0, 1, True)
    assert promises(parts, {KIND: 7})[0].is_over


# --- the past again ----------------------------------------------------------------------------


def test_replay_of_a6_the_guarantee_shortens_the_wait_of_b_and_asks_a():
    week = [past(f"a{n}", A, 0, 1000) for n in range(8)] + [
        past(f"b{n}", B, 100, 50) for n in range(2)
    ]
    before = replay(tree(0), {KIND: 8}, week)
    after = replay(tree(2), {KIND: 8}, week)
    assert (before[B].half, before[B].most, before[A].reclaims) == (900, 900, 0)
    assert (after[B].half, after[B].most, after[A].reclaims) == (0, 0, 2)
    assert after[A].works == before[A].works == 8
    assert (after[A].half, after[A].never) == (0, 0)


def test_what_was_asked_back_goes_on_from_where_it_was():
    week = [past("a0", A, 0, 100), past("b0", B, 40, 10), past("c0", C, 41, 10)]
    only_b = Tree((Part(B, shares={KIND: Share(guaranteed=1)}),))
    found = replay(only_b, {KIND: 1}, week)
    assert found[B].half == 0
    assert found[A].reclaims == 1
    # b ends at 50, a goes on for the 60 s that it had left, and then it is c's turn
    assert found[C].half == 110 - 41


def test_what_is_larger_than_all_there_is_never_starts_and_holds_up_nobody():
    found = replay(tree(0), {KIND: 2}, [past("big", A, 0, 10, 3), past("b", B, 1, 10)])
    assert (found[A].never, found[A].half) == (1, None)
    assert found[B].half == 0


def test_ten_thousand_works_come_again_within_two_seconds():
    random.seed(7)
    parts = [f"p{n}" for n in range(40)]
    week = [
        past(f"w{n}", random.choice(parts), n * 259.2, random.expovariate(1 / 14_000), 1 + n % 4)
        for n in range(10_000)
    ]
    begin = time.process_time()
    found = replay(tree(2, parts), {KIND: 96}, week)
    assert time.process_time() - begin <= 2
    assert sum(one.works for one in found.values()) == 10_000
    assert sum(one.reclaims for one in found.values()) > 0
    assert not any(one.never for one in found.values())


some_past = st.lists(
    st.tuples(
        st.sampled_from([A, B, C, "d"]), st.integers(0, 50), st.integers(1, 30), st.integers(1, 4)
    ),
    max_size=20,
)


@given(some_past, st.integers(0, 3), st.integers(1, 8))
@settings(max_examples=120, deadline=None)
def test_for_any_past_all_that_fits_starts_and_guarantees_never_wait_for_borrowers(
    asked, guaranteed, capacity
):
    week = [past(str(n), part, at, took, count) for n, (part, at, took, count) in enumerate(asked)]
    found = replay(tree(guaranteed), {KIND: capacity}, week)
    for part, seen in found.items():
        mine = [one for one in week if one.part == part]
        assert seen.works == len(mine)
        assert seen.never == sum(1 for one in mine if one.count > capacity)
    enough = 3 * guaranteed <= capacity
    for part in (A, B, C):
        mine = [one for one in week if one.part == part]
        # never more at one time than is guaranteed: it starts at once, whoever else is there
        if enough and mine and sum(one.count for one in mine) <= guaranteed:
            assert found[part].most == 0
            assert found[part].reclaims == 0


@given(
    st.lists(st.tuples(st.sampled_from([A, B, C]), st.booleans(), st.integers(1, 3)), max_size=12),
    st.integers(0, 3),
)
@settings(max_examples=120, deadline=None)
def test_for_any_moment_what_follows_fits_and_names_each_work_once(there, guaranteed):
    capacity, held, all_works = 9, 0, []
    for n, (part, may_hold, count) in enumerate(there):
        is_held = may_hold and held + count <= capacity
        held += count if is_held else 0
        kind = KIND if is_held else ""
        all_works.append(Work(str(n), part, (KIND,), count, asked_at=n, kind=kind, granted_at=n))
    found = moment(tree(guaranteed), {KIND: capacity}, all_works)
    size = {work.uid: work.count for work in all_works}
    after = held + sum(size[u] for u in found.starts) - sum(size[u] for u in found.asked)
    assert after <= capacity
    named = [*found.starts, *found.asked, *found.waits]
    assert len(named) == len(set(named))
    assert not {work.uid for work in all_works if work.kind} & set(found.starts)


shares = st.builds(
    lambda guaranteed, more, lends: Share(
        guaranteed, None if more is None else guaranteed + more, min(lends, guaranteed)
    ),
    st.integers(0, 4),
    st.none() | st.integers(0, 4),
    st.integers(0, 4),
)


@given(
    some_past,
    st.lists(shares, min_size=5, max_size=5),
    st.lists(st.sampled_from(["", "org", "lab"]), min_size=3, max_size=3),
    st.integers(1, 8),
)
@settings(max_examples=300, deadline=2000)
def test_for_any_tree_the_past_comes_to_its_end(asked, given_shares, places, capacity):
    """Organisations, ceilings and what is kept: nobody gives back for ever, all is told once."""
    parts = [
        Part("org", shares={KIND: given_shares[3]}),
        Part("lab", parent="org", weight=0, shares={KIND: given_shares[4]}),
        *(
            Part(key, parent=place, shares={KIND: share})
            for key, place, share in zip((A, B, C), places, given_shares, strict=False)
        ),
    ]
    week = [
        past(str(n), part, at, took, count, priority=n % 3, builds=n % 4 == 0)
        for n, (part, at, took, count) in enumerate(asked)
    ]
    found = replay(Tree(tuple(parts)), {KIND: capacity}, week)
    assert sum(one.works for one in found.values()) == len(week)
    assert all((one.half is None) == (one.never == one.works) for one in found.values())
    assert all(0 <= (one.half or 0) <= (one.most or 0) for one in found.values())
