"""How many replicas an endpoint needs: up at once, down after a minute that needed less (pure)."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

LESS_AFTER_S = 60.0


def needed(in_hand: int, concurrency: int, least: int, most: int) -> int:
    """Return how many answer ``in_hand`` requests, each ``concurrency`` at once."""
    return min(max(-(-in_hand // max(1, concurrency)), least), most)


@dataclass
class Needs:
    """What one endpoint needed in the last minute. A worker that begins anew knows less, and so
    only keeps replicas for longer.
    """

    seen: deque[tuple[float, int]] = field(default_factory=deque)
    since: float | None = None

    def wanted(self, at: float, now_needed: int, current: int) -> int:
        """Note what is needed at ``at``; return how many there should be."""
        self.since = at if self.since is None else self.since
        self.seen.append((at, now_needed))
        while self.seen[0][0] < at - LESS_AFTER_S:
            self.seen.popleft()
        if now_needed >= current:
            return now_needed
        if at - self.since < LESS_AFTER_S:
            return current
        return min(current, max(number for _at, number in self.seen))
