"""Whose turn it is in a line, and how many stand before somebody; for thousands that wait."""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any

from placement.decision import names_in

if TYPE_CHECKING:
    from collections.abc import Iterable

    from clusters.models import Claim
    from queues.sharing import Pool, Work


class Before:
    """Those judged so far that others stand behind, counted by what they lack."""

    def __init__(self) -> None:
        self._lacking: Counter[tuple[str, ...]] = Counter()

    def add(self, lacking: tuple[str, ...]) -> None:
        self._lacking[lacking] += 1

    def wanting(self, short: Iterable[str]) -> int:
        words = tuple(short)
        return sum(n for lacking, n in self._lacking.items() if overlap(lacking, words))


_Alike = tuple[str, int, tuple[str, ...], int, bool, str]


class Turns:
    """Who waits, to be taken in turn: who wants GPUs by what is held, all others by time.

    Of those of a part who want the same, the first is enough to look at. Work within a guarantee
    goes before older work of its part that would borrow: that would keep from it what it is owed.
    """

    def __init__(self, waiting: Iterable[tuple[Claim, Work]]) -> None:
        self._plain: deque[tuple[Claim, Work]] = deque()
        self._lines: dict[_Alike, deque[tuple[Claim, Work]]] = defaultdict(deque)
        self._heads: list[tuple[Any, _Alike]] = []  # a heap, good until somebody takes something
        self._seen = -1
        for one in sorted(waiting, key=lambda one: (-one[1].priority, one[1].asked_at)):
            (self._lines[self._alike(one[1])] if one[1].count else self._plain).append(one)

    @staticmethod
    def _alike(work: Work) -> _Alike:
        ticket = work.uid if work.since else ""  # its place is another one where it borrows
        return work.part, work.count, work.kinds, work.priority, work.exceeds, ticket

    def __bool__(self) -> bool:
        return bool(self._plain or self._lines)

    def take(self, pool: Pool) -> tuple[Claim, Work]:
        if self._seen != pool.changes:
            self._heads = [(pool.turn(line[0][1]), key) for key, line in self._lines.items()]
            heapify(self._heads)
            self._seen = pool.changes
        first = self._plain[0][1] if self._plain else None
        best = self._lines[self._heads[0][1]][0][1] if self._heads else None
        if best is None or (first is not None and first.asked_at < best.asked_at):
            return self._plain.popleft()
        _turn, key = heappop(self._heads)
        line = self._lines[key]
        found = line.popleft()
        if line:
            heappush(self._heads, (pool.turn(line[0][1]), key))
        else:
            del self._lines[key]
        return found


def overlap(lacking: tuple[str, ...], short: tuple[str, ...]) -> bool:
    """Whether two lists of what is lacking have something in common."""
    if set(lacking) & set(short):
        return True
    return any(
        not one or not other or set(one) & set(other)
        for one in _kinds_in(lacking)
        for other in _kinds_in(short)
    )


def _kinds_in(lacking: Iterable[str]) -> list[tuple[str, ...]]:
    """The names in each word about GPUs; none: of any kind."""
    return [names_in(w.partition(":")[2]) for w in lacking if w == "gpu" or w.startswith("gpu:")]
