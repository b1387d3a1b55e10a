"""What a run says to whoever reads its log: bounded, harmless, and never at the cost of the copy.

Whoever carries the output away may be gone, and a pipe that nobody empties holds up its writer:
so lines wait, a bounded number of them, for a thread that does nothing else. What happens often is
said a few times and counted from then on. Nothing secret is ever said, whoever tries.
"""

from __future__ import annotations

import os
import threading
from collections import Counter, deque
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from dataplane.copy.problems import shown

LINE = 600  # characters
EACH = 10  # lines of one kind, before they are counted only
WAITING = 1000  # lines that nobody has taken away yet
KEY = 200  # characters of a key that is named
LOOK_S = 1.0
END_S = 2.0
_SECRET = 8  # what is shorter would be found in every line
_OUT = 1


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
        at = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        self._lines.append(f"{at} {shown(self._without_secrets(text), LINE)}\n")
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
        self._write()

    def _write(self) -> None:
        while self._lines:
            data = self._lines.popleft().encode(errors="replace")
            try:
                while data:
                    data = data[os.write(self._out, data) :]
            except OSError:
                return

    def _without_secrets(self, text: str) -> str:
        for secret in self._hidden:
            text = text.replace(secret, "…")
        return text
