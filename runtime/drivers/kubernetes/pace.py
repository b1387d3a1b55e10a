"""What is told at once, what may come a moment later, and numbers that only grow.

A pod that is replaced comes in five pieces, of which two change what a row says. The others cost
as much to write, at the very moment in which the first is on its way to its reader. So they wait
for the next that counts, at most ``LATER_S``.

A version is the time of a change in microseconds, so it grows over restarts of the process too;
an observation that says the same as the one before keeps its number. Two processes never write
observations of one cluster at once (the watch holds a lease), so their clocks need not agree:
the first full list of a new watch is believed whatever its numbers are.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import replace

from runtime.protocol import Observation, Seen

LATER_S = 0.25

Gist = tuple[object, ...]


class Pace:
    """Of one watch; used by one thread."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._told: dict[str, tuple[Gist, object]] = {}  # uid → gist, its pod's uid
        self._held: dict[str, Observation] = {}
        self._due = 0.0  # when the first of them is to be told

    def now(self, news: Iterable[Observation]) -> list[Observation]:
        """Return what is to be told now; the rest is kept for a later call."""
        counts = False
        for found in news:
            counts |= self._counts(found)
            if not self._held:
                self._due = self._clock() + LATER_S
            self._held[found.uid] = found
        if not counts and self.seconds_left() != 0:
            return []
        told, self._held = list(self._held.values()), {}
        for found in told:
            if found.seen == Seen.MISSING:
                self._told.pop(found.uid, None)
            else:
                self._told[found.uid] = found.gist, found.detail.get("pod_uid")
        return told

    def seconds_left(self) -> float | None:
        """Return how long what is kept may still wait, None when nothing is kept."""
        return max(0.0, self._due - self._clock()) if self._held else None

    def _counts(self, found: Observation) -> bool:
        known = self._told.get(found.uid)
        if known is None:
            return True
        gist, pod = known
        return gist != found.gist or _is_another(pod, found.detail.get("pod_uid"))


def _is_another(pod: object, other: object) -> bool:
    """Nothing was told between two pods."""
    return bool(pod and other and pod != other)


_KEPT = 50_000


class Versions:
    """One for each driver; thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._known: OrderedDict[str, Observation] = OrderedDict()
        self._last = 0

    def stamp(self, found: Observation) -> Observation:
        """Return it with its version: the known one when nothing changed, else a higher one."""
        with self._lock:
            known = self._known.get(found.uid)
            if known is not None and replace(found, version=known.version) == known:
                return known
            self._last = max(self._last + 1, time.time_ns() // 1000)
            stamped = replace(found, version=self._last)
            self._known[found.uid] = stamped
            self._known.move_to_end(found.uid)
            while len(self._known) > _KEPT:
                self._known.popitem(last=False)
            return stamped
