"""kubectl where a busy machine may leave it without an answer, which is none of the server's."""

from __future__ import annotations

import time
from collections.abc import Callable
from subprocess import CompletedProcess

# kubectl's own limits (a handshake may take 10 s) and what the server says when it is behind
UNANSWERED = (
    "TLS handshake timeout",
    "i/o timeout",
    "connection refused",
    "etcdserver: request timed out",
)
REFUSALS = ("forbidden", "unauthorized", "must be logged in")
TRIES, PAUSE_S = 5, 1.0

Done = CompletedProcess[str]


def answered(run: Callable[[], Done], pause_s: float = PAUSE_S) -> Done:
    """Run it again while nobody answered it; any other end of it stands, good or bad."""
    done = run()
    for _ in range(TRIES - 1):
        if not done.returncode or not any(words in done.stderr for words in UNANSWERED):
            break
        time.sleep(pause_s)
        done = run()
    return done


def is_refused(done: Done) -> bool:
    """Whether the server said no; that kubectl failed says less."""
    said = done.stderr.lower()
    return done.returncode != 0 and any(words in said for words in REFUSALS)
