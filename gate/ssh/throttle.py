"""Bounds on connections that have not signed in, per address and in all."""

from __future__ import annotations

import time
from collections import Counter, OrderedDict

FAILURES = 20  # connections whose keys opened nothing …
WINDOW_S = 300.0  # … in so long: then the address waits
WAITING = 10  # connections of one address that are signing in
WAITING_ALL = 300
_MOST = 10_000


class Throttle:
    def __init__(self) -> None:
        self._failed: OrderedDict[str, tuple[float, int]] = OrderedDict()
        self._waiting: Counter[str] = Counter()

    def enter(self, ip: str) -> bool:
        """Count a connection in; False: refuse it."""
        began, failures = self._failed.get(ip, (0.0, 0))
        if failures >= FAILURES and time.monotonic() - began < WINDOW_S:
            return False
        if self._waiting[ip] >= WAITING or self._waiting.total() >= WAITING_ALL:
            return False
        self._waiting[ip] += 1
        return True

    def leave(self, ip: str, *, signed_in: bool, failed: bool) -> None:
        """It signed in, or ended without; ``failed``: it showed keys that open nothing."""
        self._waiting[ip] -= 1
        if self._waiting[ip] <= 0:
            del self._waiting[ip]
        if signed_in:
            self._failed.pop(ip, None)
        if not failed:
            return
        began, failures = self._failed.get(ip, (0.0, 0))
        if time.monotonic() - began > WINDOW_S:
            began, failures = time.monotonic(), 0
        self._failed[ip] = (began, failures + 1)
        self._failed.move_to_end(ip)
        while len(self._failed) > _MOST:
            self._failed.popitem(last=False)
