"""What a run has found and done so far; read by the thread that reports."""

from __future__ import annotations

import threading
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import Any

from dataplane.copy.http1 import now
from dataplane.copy.log import KEY, Log
from dataplane.copy.problems import Code, shown

ERRORS = 50
WINDOW_S = 10.0


@dataclass
class Progress:
    phase: str = "starting"
    found: int = 0
    done: int = 0
    unchanged: int = 0
    skipped: int = 0
    failed: int = 0
    deleted: int = 0
    bytes_found: int = 0
    bytes_done: int = 0
    bytes_copied: int = 0  # of those, what was not there before
    bytes_read: int = 0  # what really came over the wire (or was sent), with what was in vain
    listed: bool = False
    concurrency: int = 0
    estimate_s: float | None = None  # of a dry run
    verified: Counter[str] = field(default_factory=Counter)
    errors: deque[dict[str, str]] = field(default_factory=lambda: deque(maxlen=ERRORS))
    log: Log = field(default_factory=Log, repr=False)
    _marks: deque[tuple[float, int, int]] = field(default_factory=lambda: deque(maxlen=64))
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def fails(self, key: str, code: Code, message: str) -> None:
        """One file will not be copied, and why. A bad name is skipped, the rest failed."""
        if code in {Code.BAD_KEY, Code.NAME_CLASH}:
            self.skipped += 1
        else:
            self.failed += 1
        self.log.again(f"fails-{code}", f"{shown(key, KEY)}: {code}: {message}")
        self.errors.append({"key": shown(key), "code": str(code), "message": message})

    def read(self, count: int) -> None:
        """Count bytes that came or were sent; lanes do so at once."""
        with self._lock:
            self.bytes_read += count

    def mark(self) -> None:
        """Remember where we are, for the rate; called about once a second."""
        self._marks.append((now(), self.bytes_read, self.done + self.unchanged))
        while len(self._marks) > 2 and now() - self._marks[0][0] > WINDOW_S:  # noqa: PLR2004
            self._marks.popleft()

    def rates(self) -> tuple[float, float]:
        """Return bytes and files a second over the last seconds."""
        if len(self._marks) < 2:  # noqa: PLR2004
            return 0.0, 0.0
        (start, before, files), (end, after, more) = self._marks[0], self._marks[-1]
        seconds = max(end - start, 0.001)
        return (after - before) / seconds, (more - files) / seconds

    def eta(self) -> float | None:
        if self.phase == "ended":
            return 0.0 if self.estimate_s is None else self.estimate_s
        byte_rate, file_rate = self.rates()
        left = max(0, self.bytes_found - self.bytes_done)
        files = self.found - self.done - self.unchanged - self.skipped - self.failed
        if not self.listed or (left and not byte_rate) or (files > 0 and not file_rate):
            return None
        return max(left / byte_rate if left else 0.0, max(0, files) / file_rate if files else 0.0)

    def report(self) -> dict[str, Any]:
        eta = self.eta()
        return {
            "phase": self.phase,
            "files": {
                "found": self.found,
                "done": self.done,
                "unchanged": self.unchanged,
                "skipped": self.skipped,
                "failed": self.failed,
                "deleted": self.deleted,
            },
            "bytes": {
                "found": self.bytes_found,
                "done": self.bytes_done,
                "read": self.bytes_read,
            },
            "rate_bytes_s": int(self.rates()[0]),
            "eta_s": None if eta is None else round(eta, 1),
            "listed": self.listed,
            "concurrency": self.concurrency,
            "errors": list(self.errors),
            "verified": dict(self.verified),
        }
