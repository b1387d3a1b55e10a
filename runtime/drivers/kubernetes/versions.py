"""Numbers that only grow: what fences an older observation from a newer one.

A version is the time of a change in microseconds, so it grows over restarts of the process too;
an observation that says the same as the one before keeps its number. Two processes never write
observations of one cluster at once (the watch holds a lease), so their clocks need not agree:
the first full list of a new watch is believed whatever its numbers are.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from dataclasses import replace

from runtime.protocol import Observation

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
