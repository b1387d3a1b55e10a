"""How one pool of devices is shared by guarantees, over-quota and reclaim; pure, no database.

The pool is a tree: its root is all devices, below it are organisations and projects. Each part
has of each kind of device a guarantee, a ceiling and what it lends. Whoever is within a guarantee
gets devices that exist, if need be from those who hold more than theirs; what nobody uses of its
guarantee is lent. What ``Pool`` knows by ``take`` and ``give_back`` is all that it decides by.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

ROOT = ""  # the key of the whole
NOTHING = float("inf")  # the share of who has weight 0: after everybody else


@dataclass(frozen=True)
class Share:
    """What a part has of one kind of device."""

    guaranteed: int = 0
    most: int | None = None  # guaranteed and borrowed together; None: no ceiling
    lends: int | None = None  # of what is guaranteed and not used; None: all of it

    @property
    def kept(self) -> int:
        """What nobody else ever gets of it."""
        return 0 if self.lends is None else max(0, self.guaranteed - self.lends)


NO_SHARE = Share()


@dataclass(frozen=True)
class Part:
    """An organisation or a project. ``weight``: its part of what is borrowed, beside others."""

    key: str
    parent: str = ROOT
    weight: float = 1.0
    shares: Mapping[str, Share] = field(default_factory=dict)  # by kind of device

    def share(self, kind: str) -> Share:
        return self.shares.get(kind, NO_SHARE)


@dataclass(frozen=True)
class Work:
    """What wants, or has, ``count`` devices of one of ``kinds``; the first is liked most.

    ``exceeds``: it may hold more than what is guaranteed to its part. ``kind``: what it has, ''
    while it waits. ``reclaimable``: it may be told to give back what is over its guarantee.
    """

    uid: str
    part: str
    kinds: tuple[str, ...]
    count: int
    priority: int = 0
    asked_at: float = 0.0
    since: float = 0.0  # of a ticket: as of when it asks within a guarantee; 0: none
    exceeds: bool = True
    reclaimable: bool = True
    kind: str = ""
    granted_at: float = 0.0
    # no guarantee covers it: its GPU-hours are spent, or it was told to give back what it has
    borrows: bool = False


class Pool:
    """What there is, who holds what of it, and whose turn it is."""

    def __init__(self, parts: Iterable[Part], capacity: Mapping[str, int]) -> None:
        """A part whose parent is not known stands below the root; a circle is cut there too."""
        self._parts = {part.key: part for part in parts}
        self.capacity = dict(capacity)
        self.held: dict[str, Counter[str]] = defaultdict(Counter)  # by part, those below with it
        self._loose: dict[str, Counter[str]] = defaultdict(Counter)  # of it: what only borrows
        self._by_kind: dict[str, dict[str, Work]] = defaultdict(dict)
        self._in_part: dict[tuple[str, str], dict[str, Work]] = defaultdict(dict)
        self.changes = 0  # how often somebody took or gave back: turns differ after each
        self._paths: dict[str, list[Part]] = {}
        self._keeping: dict[str, list[Part]] = defaultdict(list)  # by kind: who keeps some of it
        for part in self._parts.values():
            for kind, share in part.shares.items():
                if share.kept:
                    self._keeping[kind].append(part)

    def path(self, key: str) -> list[Part]:
        """Return a part and those above it, the root left out."""
        if key in self._paths:
            return self._paths[key]
        begin = key
        found: list[Part] = []
        while key != ROOT:
            part = self._parts.get(key) or Part(key)
            if part in found:
                break
            found.append(part)
            key = part.parent if part.parent in self._parts else ROOT
        self._paths[begin] = found
        return found

    def take(self, work: Work) -> None:
        self.changes += 1
        self._count(work, work.count)
        self._by_kind[work.kind][work.uid] = work
        self._in_part[work.part, work.kind][work.uid] = work

    def give_back(self, work: Work) -> None:
        self.changes += 1
        self._count(work, -work.count)
        del self._by_kind[work.kind][work.uid]
        del self._in_part[work.part, work.kind][work.uid]

    def _count(self, work: Work, by: int) -> None:
        for key in (*(part.key for part in self.path(work.part)), ROOT):
            self.held[key][work.kind] += by
            if work.borrows:
                self._loose[key][work.kind] += by

    def covered(self, key: str, kind: str) -> int:
        """Return what of a part's guarantee is used: all that it holds but what only borrows."""
        return self.held[key][kind] - self._loose[key][kind]

    def holders(self, kind: str) -> Iterator[Work]:
        return iter(self._by_kind[kind].values())

    # --- what may be had ------------------------------------------------------------------------

    def free(self, key: str, kind: str) -> int:
        """Return how many are free for a part: those that others keep for themselves are not."""
        path = self.path(key)
        kept = sum(
            max(0, part.share(kind).kept - self.held[part.key][kind])
            for part in self._keeping[kind]
            if part not in path
        )
        return self.capacity.get(kind, 0) - self.held[ROOT][kind] - kept

    def ceiling(self, key: str, kind: str) -> tuple[int, str]:
        """Return how many more a part may hold, and the part whose ceiling that is."""
        left, whose = self.capacity.get(kind, 0), ROOT
        for part in self.path(key):
            most = part.share(kind).most
            if most is not None and most - self.held[part.key][kind] < left:
                left, whose = most - self.held[part.key][kind], part.key
        return left, whose

    def guarantor(self, work: Work, kind: str) -> str | None:
        """Return the lowest part above a work within whose guarantee it is; None: it borrows.

        In its own part the guarantee covers what can't be asked back, and then by priority: what
        is less there gives way.
        """
        return self.plain(work, kind) or (work.part if self._below(work, kind) else None)

    def plain(self, work: Work, kind: str) -> str | None:
        """Return the same where nothing of its own part gives way to it."""
        for part in () if work.borrows else self.path(work.part):
            if self.covered(part.key, kind) + work.count <= part.share(kind).guaranteed:
                return part.key
        return None

    def _below(self, work: Work, kind: str) -> list[Work]:
        """Return what gives way to a work in its own part, where all of that makes it guaranteed.

        The lowest priority first, then who began last.
        """
        part = self.path(work.part)[0]
        room = part.share(kind).guaranteed - work.count - self.covered(part.key, kind)
        if work.borrows or part.share(kind).guaranteed < work.count:
            return []
        lower = [
            one
            for one in self._in_part[part.key, kind].values()
            if one.reclaimable and not one.borrows and one.priority < work.priority
        ]
        if room + sum(one.count for one in lower) < 0:
            return []
        return sorted(lower, key=_covered, reverse=True)

    def may_have(self, work: Work, kind: str) -> bool:
        """Whether it may hold so many, were they free: guaranteed or borrowed, below ceilings."""
        left, _whose = self.ceiling(work.part, kind)
        return left >= work.count and (
            self.guarantor(work, kind) is not None or self.may_exceed(work, kind)
        )

    def may_exceed(self, work: Work, kind: str) -> bool:
        """Whether it may borrow: what is to stay within guarantees only where there is none."""
        if work.exceeds or work.borrows:
            return True
        return not any(p.share(kind).guaranteed for p in self.path(work.part))

    def over(self, kind: str) -> set[str]:
        """Return who holds what is over its part's guarantee, and may be asked to give it back.

        Within a part the guarantee covers what can't be asked first, then by priority, then
        who was there first.
        """
        found: set[str] = set()
        by_part: dict[str, list[Work]] = defaultdict(list)
        for work in self.holders(kind):
            by_part[work.part].append(work)
        for key, works in by_part.items():
            left = max((p.share(kind).guaranteed for p in self.path(key)[:1]), default=0)
            for work in sorted(works, key=_covered):
                left -= 0 if work.borrows else work.count
                if work.reclaimable and (work.borrows or left < 0):
                    found.add(work.uid)
        return found

    # --- whose turn it is -----------------------------------------------------------------------

    def turn(self, work: Work) -> tuple[float, tuple[float, ...], int, float]:
        """Return by what waiting works are compared, the least first.

        Guarantees first, those of the own part before those of parts above it: the latter is
        asked back for the former, and let in first it would be asked again and again. Then who has
        the least of what is borrowed below that guarantee for their weight, from the top down; then
        priority, then who asked first; by a ticket, within a guarantee only, as of when it was
        parked. What it would have with this work is not asked: large work would wait for ever
        behind small.
        """
        path = self.path(work.part)
        guarantors = {self.guarantor(work, kind) for kind in work.kinds}
        height = next((n for n, part in enumerate(path) if part.key in guarantors), None)
        kind = work.kinds[0] if work.kinds else ""
        shares = tuple(self.borrowed(part, kind) for part in reversed(path[:height]))
        if height is None:
            return (NOTHING, shares, -work.priority, work.asked_at)
        return (height, shares, -work.priority, work.since or work.asked_at)

    def borrowed(self, part: Part, kind: str) -> float:
        """Return what a part holds over its guarantee, as a fraction of all, for its weight."""
        over = max(0, self.covered(part.key, kind) - part.share(kind).guaranteed)
        over += self._loose[part.key][kind]
        if not over:
            return 0.0
        fraction = over / max(1, self.capacity.get(kind, 0))
        return fraction / part.weight if part.weight > 0 else NOTHING

    # --- who gives back -------------------------------------------------------------------------

    def victims(self, work: Work, kind: str, lacking: int) -> list[Work]:
        """Return who gives back so that a work within its guarantee gets what it lacks.

        Nobody within a guarantee, and nobody where it would not be enough. First what only
        borrows as its GPU-hours are spent, whoever's it is; then the part that
        borrows most for its weight; there the lowest priority, then who began last.
        """
        guarantor = self.plain(work, kind)
        if guarantor is None:
            return _enough(self._below(work, kind), lacking)
        chosen: list[Work] = []
        got = 0
        while got < lacking:
            left = [w for w in self.holders(kind) if w.reclaimable and w.uid != work.uid]
            found = [(w, below) for w in left if (below := self._lends_to(w, guarantor, kind))]
            if not found:
                break
            victim, _below = max(
                found,
                key=lambda one: (
                    one[0].borrows,
                    self.borrowed(one[1][-1], kind),
                    self.borrowed(one[1][0], kind),
                    -one[0].priority,
                    one[0].granted_at,
                    one[0].uid,
                ),
            )
            self.give_back(victim)
            chosen.append(victim)
            got += victim.count
        for victim in chosen:
            self.take(victim)
        return _enough(chosen, lacking)

    def _lends_to(self, holder: Work, guarantor: str, kind: str) -> list[Part]:
        """Return the parts over their guarantee between a holder and what it shares with who asks.

        Empty: it is within one of them, or in the very part that asks.
        """
        above = {part.key for part in self.path(guarantor)}
        below = [part for part in self.path(holder.part) if part.key not in above]
        if holder.borrows:
            return below or self.path(holder.part)[:1]
        if guarantor in {part.key for part in self.path(holder.part)}:
            return []
        over = all(self.covered(p.key, kind) > p.share(kind).guaranteed for p in below)
        return below if over else []


def _enough(chosen: list[Work], lacking: int) -> list[Work]:
    """Return the first that are enough, without those that a later, larger one makes needless."""
    found: list[Work] = []
    got = 0
    for one in chosen:
        if got >= lacking:
            break
        found.append(one)
        got += one.count
    if got < lacking:
        return []
    for one in sorted(found, key=lambda one: one.count):
        if got - one.count >= lacking:
            found.remove(one)
            got -= one.count
    return found


def _covered(work: Work) -> tuple[bool, int, float, str]:
    return (work.reclaimable, -work.priority, work.granted_at, work.uid)
