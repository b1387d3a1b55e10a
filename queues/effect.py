"""The effect of a change to the tree before it is saved; pure, on ``sharing.Pool``.

``moment`` says what would follow now: who starts, who is asked back, who waits. ``replay`` lets the
work of the past come again under a tree: how long it would have waited, how often some of it would
have been asked back. It knows devices and their kinds, no nodes, CPU or memory; what is asked back
gives back at once and goes on later from where it was; nothing passes who waits for more. Of one
part, work within the guarantee goes before older work that would borrow.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from math import ceil
from typing import TYPE_CHECKING

from queues.sharing import ROOT, Part, Pool, Work

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

HALF, MOST = 0.5, 0.9  # shares of the works that waited so long or shorter


@dataclass(frozen=True)
class Tree:
    """Parts, and those among them whose building may hold more than their guarantee."""

    parts: tuple[Part, ...] = ()
    building_exceeds: frozenset[str] = frozenset()

    def stays(self, part: str) -> bool:
        """Whether what people sit in front of stays within the guarantee there (A1)."""
        return part in self._promised and part not in self.building_exceeds

    @property
    def _promised(self) -> set[str]:
        return {p.key for p in self.parts if any(s.guaranteed for s in p.shares.values())}


# --- what is promised -------------------------------------------------------------------------


@dataclass(frozen=True)
class Promise:
    """What is guaranteed of one kind altogether, and where it is more than there is above it."""

    kind: str
    exists: int
    promised: int
    # organisations that guarantee less than their own parts do together: key, its own, theirs
    short: tuple[tuple[str, int, int], ...] = ()

    @property
    def is_over(self) -> bool:
        return self.promised > self.exists


def promises(parts: Iterable[Part], capacity: Mapping[str, int]) -> list[Promise]:
    """Return what is guaranteed of each kind; an organisation counts with its parts' if more."""
    known = {part.key: part for part in parts}
    below: dict[str, list[Part]] = defaultdict(list)
    for part in known.values():
        below[part.parent if part.parent in known else ROOT].append(part)
    kinds = dict.fromkeys([*capacity, *(k for p in known.values() for k in p.shares)])
    found = []
    for kind in kinds:
        short: list[tuple[str, int, int]] = []
        promised = sum(_promised(part, kind, below, short) for part in below[ROOT])
        found.append(Promise(kind, capacity.get(kind, 0), promised, tuple(short)))
    return found


def _promised(
    part: Part, kind: str, below: Mapping[str, Sequence[Part]], short: list[tuple[str, int, int]]
) -> int:
    own = part.share(kind).guaranteed
    theirs = sum(_promised(one, kind, below, short) for one in below.get(part.key, ()))
    if own < theirs and own:
        short.append((part.key, own, theirs))
    return max(own, theirs)


# --- one moment -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Moment:
    """What follows at once, by the uids of work. ``asked``: who gives back, and for whom."""

    starts: tuple[str, ...] = ()
    asked: Mapping[str, str] = field(default_factory=dict)
    waits: tuple[str, ...] = ()


def moment(tree: Tree, capacity: Mapping[str, int], works: Iterable[Work]) -> Moment:
    """Say who would start now and who would be asked for it, of work that holds or waits."""
    pool = Pool(tree.parts, capacity)
    line = _Line(pool)
    held: set[str] = set()
    for work in works:
        if work.kind:
            pool.take(work)
            held.add(work.uid)
        else:
            line.add(work)
    holds: dict[str, bool] = {}
    asked: dict[str, str] = {}
    for work, whom in line.fill(at=0.0):
        holds[work.uid] = not whom
        if whom:
            asked[work.uid] = whom
    return Moment(
        starts=tuple(uid for uid, has in holds.items() if has and uid not in asked),
        asked={uid: whom for uid, whom in asked.items() if uid in held and not holds[uid]},
        waits=tuple(work.uid for work in line.waiting() if work.uid not in held),
    )


_Key = tuple[str, tuple[str, ...], int, bool, int]
_Turn = tuple[float, tuple[float, ...], int, float]


class _Line:
    """Who waits for a pool. Those of a part that differ in nothing but time stand in one row."""

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._rows: dict[_Key, deque[Work]] = {}
        self._below: dict[str, set[_Key]] = defaultdict(set)  # by the top of the tree
        # The rows in turn. A turn changes with its row, and with what is held below the same top.
        self._turns: list[tuple[_Turn, _Key]] = []
        self._turn_of: dict[_Key, tuple[_Turn, _Key]] = {}
        self._changed: set[_Key] = set()

    def add(self, work: Work) -> None:
        key = (work.part, work.kinds, work.count, work.exceeds, work.priority)
        row = self._rows.setdefault(key, deque())
        later: list[Work] = []
        while row and row[-1].asked_at > work.asked_at:  # asked back: it stands where it stood
            later.append(row.pop())
        row.append(work)
        row.extend(reversed(later))
        self._below[self._top(work)].add(key)
        self._changed.add(key)

    def waiting(self) -> list[Work]:
        return sorted((w for row in self._rows.values() for w in row), key=lambda w: w.asked_at)

    def gives_back(self, work: Work) -> None:
        self._pool.give_back(work)
        self._changed |= self._below[self._top(work)]

    def may_matter(self, work: Work) -> bool:
        """Whether anything can follow from this one, who has just come."""
        pool = self._pool
        return any(
            pool.capacity.get(k, 0) > pool.held[ROOT][k] or pool.guarantor(work, k) is not None
            for k in work.kinds
        )

    def fill(self, at: float) -> Iterator[tuple[Work, str]]:
        """Let in whoever may start, in turn; yield them, and before each who gives back for it.

        With who gives back comes for whom; with who starts ''.
        """
        kept: set[str] = set()  # kinds that somebody waits for
        passed: set[_Key] = set()
        while (found := self._next(kept, passed)) is not None:
            work, key, kind, victims = found
            for victim in victims:
                self.gives_back(victim)
                self.add(replace(victim, kind=""))
                yield victim, work.uid
            self._rows[key].remove(work)
            got = replace(work, kind=kind, granted_at=at)
            self._pool.take(got)
            self._changed |= self._below[self._top(got)]
            yield got, ""

    def _next(self, kept: set[str], passed: set[_Key]) -> tuple[Work, _Key, str, list[Work]] | None:
        """Return the first in turn that may start, its kind, and who gives back for it."""
        self._order()
        for turn, key in self._turns:
            if turn[0] and kept.issuperset(self._pool.capacity):
                break
            if key in passed:
                continue
            work = self._rows[key][0]
            if turn[0] and kept.issuperset(work.kinds):
                continue  # it borrows, and others wait for all that it would take
            allowed = [kind for kind in work.kinds if self._pool.may_have(work, kind)]
            for kind in allowed:
                if kind not in kept and self._lacks(work, kind) <= 0:
                    return work, key, kind, []
            for kind in allowed:
                if victims := self._pool.victims(work, kind, max(0, self._lacks(work, kind))):
                    return work, key, kind, victims
            passed.add(key)
            kept.update(allowed)
        return None

    def _lacks(self, work: Work, kind: str) -> int:
        return work.count - self._pool.free(work.part, kind)

    def _top(self, work: Work) -> str:
        return self._pool.path(work.part)[-1].key

    def _order(self) -> None:
        """Put the rows that changed where they belong now."""
        for key in self._changed:
            if (known := self._turn_of.pop(key, None)) is not None:
                del self._turns[bisect_left(self._turns, known)]
            if row := self._rows[key]:
                entry = self._turn_of[key] = (self._pool.turn(row[0]), key)
                insort(self._turns, entry)
            else:
                self._below[self._pool.path(key[0])[-1].key].discard(key)
                del self._rows[key]
        self._changed.clear()


# --- the past again ---------------------------------------------------------------------------


@dataclass(frozen=True)
class Past:
    """Work of the past: what it asked for and when, and for how long it then held it."""

    uid: str
    part: str
    kinds: tuple[str, ...]
    count: int
    asked_at: float
    seconds: float
    priority: int = 0
    builds: bool = False


@dataclass(frozen=True)
class Waits:
    """How the work of a part would have waited, in seconds; None: none of it started."""

    works: int = 0
    half: float | None = None
    most: float | None = None
    reclaims: int = 0
    never: int = 0  # it would still wait


@dataclass(frozen=True)
class Step:
    """``work`` starts, gives back for ``whom`` and stands in line again, or is over."""

    at: float
    work: Work
    starts: bool = False
    whom: str = ""


def play(tree: Tree, capacity: Mapping[str, int], past: Iterable[Past]) -> Iterator[Step]:
    """Let the past come again under a tree, each step at its time."""
    asked = sorted((one for one in past if one.count and one.kinds), key=lambda one: one.asked_at)
    stays = {part: tree.stays(part) for part in {one.part for one in asked}}
    left = {one.uid: one.seconds for one in asked}
    line = _Line(Pool(tree.parts, capacity))
    running: dict[str, Work] = {}
    ends: list[tuple[float, str, float]] = []  # when, who, and since when it holds what it has
    index = 0
    while index < len(asked) or ends:
        coming = asked[index] if index < len(asked) else None
        if ends and (coming is None or ends[0][0] <= coming.asked_at):
            at, uid, since = heappop(ends)
            held = running.get(uid)
            if held is None or held.granted_at != since:
                continue  # it gave back before its end
            line.gives_back(running.pop(uid))
            yield Step(at, held)
        else:
            assert coming is not None  # noqa: S101 - for the type
            index += 1
            at = coming.asked_at
            keeps = coming.builds and stays[coming.part]
            work = Work(
                uid=coming.uid,
                part=coming.part,
                kinds=coming.kinds,
                count=coming.count,
                priority=coming.priority,
                asked_at=at,
                exceeds=not keeps,
                reclaimable=not keeps,
            )
            line.add(work)
            if not line.may_matter(work):
                continue
        for work, whom in line.fill(at):
            if whom:
                del running[work.uid]
                left[work.uid] -= at - work.granted_at
            else:
                running[work.uid] = work
                heappush(ends, (at + max(0.0, left[work.uid]), work.uid, at))
            yield Step(at, work, starts=not whom, whom=whom)


def replay(tree: Tree, capacity: Mapping[str, int], past: Iterable[Past]) -> dict[str, Waits]:
    """Let the past come again under a tree; return the waits of each part that had work."""
    asked = [one for one in past if one.count and one.kinds]
    first: dict[str, float] = {}
    reclaims: Counter[str] = Counter()
    for step in play(tree, capacity, asked):
        if step.starts:
            first.setdefault(step.work.uid, step.at)
        elif step.whom:
            reclaims[step.work.part] += 1
    return _summed(asked, first, reclaims)


def _summed(
    asked: Iterable[Past], first: Mapping[str, float], reclaims: Mapping[str, int]
) -> dict[str, Waits]:
    waited: dict[str, list[float]] = defaultdict(list)
    works: Counter[str] = Counter()
    for one in asked:
        works[one.part] += 1
        if one.uid in first:
            waited[one.part].append(first[one.uid] - one.asked_at)
    found = {}
    for part, count in works.items():
        waits = sorted(waited[part])
        found[part] = Waits(
            works=count,
            half=_quantile(waits, HALF),
            most=_quantile(waits, MOST),
            reclaims=reclaims.get(part, 0),
            never=count - len(waits),
        )
    return found


def _quantile(ordered: Sequence[float], share: float) -> float | None:
    """Return the least value that at least this share is not above."""
    if not ordered:
        return None
    return ordered[max(0, ceil(share * len(ordered)) - 1)]
