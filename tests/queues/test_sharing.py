"""Guarantees, over-quota and reclaim, on the pure rules: the story of A6, and what always holds."""

from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from queues.sharing import Part, Pool, Share, Work

KIND = "h100"
A, B, C = "a", "b", "c"


def pool(guaranteed=2, capacity=8, **more):
    shares = {KIND: Share(guaranteed=guaranteed, **more)}
    return Pool([Part(key, shares=shares) for key in (A, B, C)], {KIND: capacity})


def work(uid, part, count=1, **more):
    return Work(str(uid), part, (KIND,), count, **more)


def held(there, one, at=0.0):
    found = replace(one, kind=KIND, granted_at=at)
    there.take(found)
    return found


def test_a6_two_of_the_borrowed_ones_are_asked_back_never_a_guaranteed_one():
    there = pool()
    jobs = [held(there, work(n, A), at=n) for n in range(8)]
    assert there.over(KIND) == {job.uid for job in jobs[2:]}
    asked = work("b0", B)
    assert there.free(B, KIND) == 0
    assert there.guarantor(asked, KIND) == B
    assert [v.uid for v in there.victims(asked, KIND, 1)] == ["7"]  # who began last
    assert [v.uid for v in there.victims(work("b", B, 2), KIND, 2)] == ["7", "6"]


def test_a_guarantee_is_never_asked_back_by_anybody():
    there = pool()
    for part in (A, B, C):
        for n in range(2):
            held(there, work(f"{part}{n}", part), at=n)
    held(there, work("a2", A), at=9)
    held(there, work("b2", B), at=9)
    assert there.victims(work("c2", C), KIND, 1) == []  # it would borrow itself
    assert there.over(KIND) == {"a2", "b2"}


def test_who_borrows_most_for_their_weight_gives_back_first():
    shares = {KIND: Share(guaranteed=1)}
    heavy, light = Part(A, weight=4, shares=shares), Part(B, weight=1, shares=shares)
    there = Pool([heavy, light, Part(C, shares=shares)], {KIND: 7})
    for n in range(4):
        held(there, work(f"a{n}", A), at=n)
    for n in range(3):
        held(there, work(f"b{n}", B), at=n)
    assert [v.uid for v in there.victims(work("c", C), KIND, 1)] == ["b2"]


def test_of_a_part_the_lowest_priority_gives_back_first():
    there = pool(guaranteed=1, capacity=4)
    held(there, work("job", A, priority=100), at=1)
    held(there, work("notebook", A, priority=1000), at=3)
    held(there, work("low", A, priority=10), at=0)
    held(there, work("kept", A, priority=100, reclaimable=False), at=4)
    assert [v.uid for v in there.victims(work("b", B), KIND, 1)] == ["low"]


def test_not_enough_asks_nobody():
    there = pool(guaranteed=3, capacity=4)
    for n in range(4):
        held(there, work(f"a{n}", A), at=n)
    assert there.victims(work("b", B, 3), KIND, 3) == []


def test_what_a_part_keeps_for_itself_is_lent_to_nobody():
    there = pool(guaranteed=4, capacity=8, lends=1)
    assert there.free(A, KIND) == 2  # B and C keep three each
    assert pool(guaranteed=4, capacity=8).free(A, KIND) == 8


def test_a_ceiling_holds_for_a_part_and_for_all_above_it():
    parts = [
        Part("org", shares={KIND: Share(most=3)}),
        Part(A, parent="org", shares={KIND: Share(most=2)}),
        Part(B, parent="org"),
    ]
    there = Pool(parts, {KIND: 8})
    held(there, work("a0", A), at=0)
    assert there.ceiling(A, KIND) == (1, A)
    held(there, work("b0", B), at=0)
    held(there, work("b1", B), at=0)
    assert there.ceiling(B, KIND) == (0, "org")


def test_an_organisation_guarantees_its_projects_together():
    parts = [
        Part("org", shares={KIND: Share(guaranteed=4)}),
        Part(A, parent="org"),
        Part(B, parent="org", shares={KIND: Share(guaranteed=1)}),
    ]
    there = Pool(parts, {KIND: 4})
    for n in range(4):
        held(there, work(f"c{n}", C), at=n)
    asked = work("a", A)
    assert there.guarantor(asked, KIND) == "org"
    assert [v.uid for v in there.victims(asked, KIND, 1)] == ["c3"]
    inside = Pool(parts, {KIND: 4})
    for n in range(4):
        held(inside, work(f"a{n}", A), at=n)
    assert inside.victims(asked, KIND, 1) == []  # no project of its own organisation
    assert [v.uid for v in inside.victims(work("b", B), KIND, 1)] == ["a3"]


def test_building_stays_within_the_guarantee_where_there_is_one():
    there = pool()
    held(there, work("one", A, 2), at=0)
    assert not there.may_exceed(work("n", A, exceeds=False), KIND)
    assert there.may_exceed(work("n", "d", exceeds=False), KIND)  # nothing is promised to it


def test_a_circle_in_the_tree_ends_at_the_root():
    there = Pool([Part(A, parent=B), Part(B, parent=A)], {KIND: 1})
    assert [part.key for part in there.path(A)] == [A, B]
    held(there, work("w", A))
    assert there.held[""][KIND] == 1


works = st.lists(
    st.tuples(
        st.sampled_from([A, B, C, "d"]),
        st.integers(1, 4),
        st.sampled_from([10, 100, 1000]),
        st.sampled_from(["stays", "gives back", "only borrows"]),
    ),
    max_size=14,
)


@given(works, st.integers(0, 3), st.integers(1, 12))
@settings(max_examples=150, deadline=None)
def test_for_any_pool_a_reclaim_breaks_no_guarantee(asked, guaranteed, capacity):
    """Whatever holds what: victims are over their guarantee, are enough, and not one too many."""
    there = pool(guaranteed, capacity)
    for n, (part, count, priority, how) in enumerate(asked):
        rules = {"reclaimable": how != "stays", "borrows": how == "only borrows"}
        one = work(n, part, count, priority=priority, **rules)
        if count <= there.free(part, KIND):
            held(there, one, at=n)
    before = {key: there.held[key][KIND] for key in (A, B, C, "d")}
    for key in (A, B, C, "d"):
        for count in (1, 2, 3):
            lacking = count - there.free(key, KIND)
            one = work("new", key, count)
            over = there.over(KIND)
            found = there.victims(one, KIND, lacking) if lacking > 0 else []
            assert {key: there.held[key][KIND] for key in before} == before
            assert {v.uid for v in found} <= over
            assert all(v.reclaimable and (v.borrows or v.part != key) for v in found)
            if found:
                got = sum(v.count for v in found)
                assert there.covered(key, KIND) + count <= guaranteed
                assert got >= lacking
                assert all(got - v.count < lacking for v in found)


def test_what_the_own_part_guarantees_comes_before_what_an_organisation_does():
    """Let in first, the older one would be asked back for the younger, again and again."""
    share, whole = {KIND: Share(guaranteed=2)}, {KIND: Share(guaranteed=4)}
    above = Part("above", shares=whole)
    parts = [above, Part(A, "above", shares=share), Part(B, "above", shares=share)]
    there = Pool(parts, {KIND: 4})
    older, younger = work("a", A, 4, asked_at=1), work("b", B, 2, asked_at=2)
    assert there.guarantor(older, KIND) == "above"
    assert sorted([older, younger], key=there.turn) == [younger, older]
    held(there, older)
    assert [v.uid for v in there.victims(younger, KIND, 2)] == ["a"]


@settings(max_examples=200)
@given(
    asked=st.lists(
        st.tuples(st.sampled_from(["x1", "x2", "y1", "z"]), st.integers(1, 6), st.booleans()),
        max_size=14,
    ),
    own=st.lists(st.integers(0, 4), min_size=4, max_size=4),
    above=st.lists(st.integers(0, 8), min_size=2, max_size=2),
    capacity=st.integers(1, 12),
)
def test_for_any_tree_giving_back_comes_to_an_end(asked, own, above, capacity):
    """Nothing ends by itself: some give back, others are let in, and then all stands still."""
    parts = [Part(key, shares={KIND: Share(n)}) for key, n in zip(("x", "y"), above, strict=True)]
    for key, guaranteed in zip(("x1", "x2", "y1", "z"), own, strict=True):
        parent = key[0] if key != "z" else ""
        parts.append(Part(key, parent, shares={KIND: Share(guaranteed)}))
    there = Pool(parts, {KIND: capacity})
    waiting = [
        work(n, part, count, asked_at=n, borrows=borrows)
        for n, (part, count, borrows) in enumerate(asked)
    ]
    for at in range(4 * len(asked) + 2):
        left, closed, back = list(waiting), False, []
        while left:
            one = min(left, key=there.turn)
            left.remove(one)
            if one.count > capacity:
                continue
            if not closed and there.free(one.part, KIND) >= one.count:
                held(there, one, at=at)
                waiting.remove(one)
                continue
            lacking = one.count - (0 if closed else there.free(one.part, KIND))
            for victim in there.victims(one, KIND, lacking):
                there.give_back(victim)
                back.append(victim)
            closed = True
            if back:
                break
        if not back:
            return
        waiting += [replace(victim, kind="", granted_at=0.0) for victim in back]
    raise AssertionError("it never stands still")


def test_what_only_borrows_is_covered_by_no_guarantee_and_gives_back_first():
    there = pool()
    spent = held(there, work("spent", A, borrows=True), at=1)
    for n in range(4):
        held(there, work(f"b{n}", B), at=2 + n)  # two of them borrowed, and later
    held(there, work("c", C, 3), at=9)
    assert there.over(KIND) == {"spent", "b2", "b3", "c"}
    assert there.guarantor(work("a", A), KIND) == A, "it takes nothing of its part's guarantee"
    assert there.guarantor(work("more", A, borrows=True), KIND) is None
    assert there.victims(work("a", A), KIND, 1) == [spent], "of its own project, too"
    assert there.turn(work("a", A)) < there.turn(work("more", A, borrows=True))


def test_what_only_borrows_asks_nobody():
    there = pool(capacity=2)
    held(there, work("b", B, 2))
    assert there.victims(work("a", A, borrows=True), KIND, 1) == []
    assert there.may_have(work("a", A, exceeds=False, borrows=True), KIND)


def test_a1_in_its_own_part_what_is_less_gives_way_and_nobody_elsewhere():
    """Jobs fill the project's guarantee: a workspace is guaranteed all the same."""
    there = pool(guaranteed=2, capacity=8)
    jobs = [held(there, work(f"a{n}", A, priority=100), at=n) for n in range(4)]
    for n in range(4):
        held(there, work(f"b{n}", B, priority=100), at=n)
    notebook = work("n", A, priority=1000, exceeds=False)
    assert there.guarantor(notebook, KIND) == A
    assert [v.uid for v in there.victims(notebook, KIND, 1)] == ["a3"]
    more = work("m", A, 3, priority=1000, exceeds=False)
    assert there.guarantor(more, KIND) is None  # three are more than is guaranteed
    assert there.guarantor(work("j", A, priority=100), KIND) is None  # a job is no more than they
    for job in jobs:
        there.give_back(job)
    kept = [held(there, work(f"k{n}", A, priority=1000), at=n) for n in range(2)]
    assert there.guarantor(notebook, KIND) is None
    assert there.over(KIND) == {"b2", "b3"}
    assert len(kept) == 2


def test_nobody_is_asked_for_what_is_left_when_it_gave_back_what_it_was_told_to() -> None:
    """Where guarantees do not fit: one of two is leaving, so the other is within its guarantee."""
    parts = [Part(key, shares={"h100": Share(1)}) for key in ("hunter", "allen", "evan")]
    pool = Pool(parts, {"h100": 2})
    told = Work("told", "hunter", ("h100",), 1, reclaimable=False, kind="h100", borrows=True)
    pool.take(Work("first", "hunter", ("h100",), 1, kind="h100", granted_at=1.0))
    pool.take(told)
    owed = Work("owed", "evan", ("h100",), 1)
    assert pool.victims(owed, "h100", 1) == []
    pool.give_back(told)
    pool.take(Work("more", "hunter", ("h100",), 1, kind="h100", granted_at=2.0))
    assert [one.uid for one in pool.victims(owed, "h100", 1)] == ["more"]
