"""What a run has found and done so far, and its log: bounded, harmless, never at the copy's cost.

Whoever carries the output away may be gone, and a pipe that nobody empties holds up its writer:
so lines wait, a bounded number of them, for a thread that does nothing else. What happens often is
said a few times and counted from then on. Nothing secret is ever said, whoever tries.
"""

from __future__ import annotations

import os
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from dataplane.copy.http1 import now
from dataplane.copy.problems import Code, shown

LINE = 600  # characters
EACH = 10  # lines of one kind, before they are counted only
WAITING = 1000  # lines that nobody has taken away yet
KEY = 200  # characters of a key that is named
LOOK_S = 1.0
END_S = 2.0
_SECRET = 8  # what is shorter would be found in every line
_OUT = 1
ERRORS = 50
WINDOW_S = 10.0
_COUNTED = ("found", "done", "unchanged", "skipped", "failed", "deleted")  # of files


class Log:
    """Lines of one run. Any thread may say something; nothing is written before ``start``."""

    def __init__(self, out: int = _OUT) -> None:
        self._out = out
        self._lines: deque[str] = deque(maxlen=WAITING)
        self._told: Counter[str] = Counter()
        self._hidden: tuple[str, ...] = ()
        self._lock = threading.Lock()
        self._due = threading.Event()
        self._over = False
        self._last: tuple[str, ...] = ()
        self._look: Callable[[], Iterable[str]] = tuple
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)

    def start(self, look: Callable[[], Iterable[str]], secrets: Iterable[str] = ()) -> None:
        """Write from now on; ``look`` is asked each second for what there is to tell."""
        parts = {line.strip() for secret in secrets for line in secret.splitlines()}
        self._hidden = tuple(sorted((p for p in parts if len(p) >= _SECRET), key=len, reverse=True))
        self._look = look
        self._thread.start()

    def say(self, text: str) -> None:
        for secret in self._hidden:
            text = text.replace(secret, "…")
        at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        self._lines.append(f"{at} {shown(text, LINE)}\n")
        self._due.set()

    def again(self, kind: str, text: str) -> None:
        """Say what may happen a million times: ten times, then at each power of ten."""
        with self._lock:
            self._told[kind] += 1
            count = self._told[kind]
        if count < EACH:
            self.say(text)
        elif str(count).strip("0") == "1":
            self.say(f"{text} (this was number {count:,}; not each is told from here on)")

    def end(self, lines: Iterable[str] = ()) -> None:
        """Write what is left and then ``lines``, for a moment at most."""
        self._last = tuple(lines)
        self._over = True
        self._due.set()
        if self._thread.is_alive():
            self._thread.join(END_S)

    def _run(self) -> None:
        while not self._over:
            self._due.wait(LOOK_S)
            self._due.clear()
            self._tell(self._look())
        self._tell((*self._look(), *self._last))

    def _tell(self, lines: Iterable[str]) -> None:
        for text in lines:
            self.say(text)
        while self._lines:
            data = self._lines.popleft().encode(errors="replace")
            try:
                while data:
                    data = data[os.write(self._out, data) :]
            except OSError:
                return


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
            "files": {name: getattr(self, name) for name in _COUNTED},
            "bytes": {"found": self.bytes_found, "done": self.bytes_done, "read": self.bytes_read},
            "rate_bytes_s": int(self.rates()[0]),
            "eta_s": None if eta is None else round(eta, 1),
            "listed": self.listed,
            "concurrency": self.concurrency,
            "errors": list(self.errors),
            "verified": dict(self.verified),
        }
