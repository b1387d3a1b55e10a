"""One child process: started, watched, restarted with a growing pause, stopped in time."""

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

LIVED_LONG_S = 10.0
PAUSES_S = (0.0, 0.3, 1.0, 2.0, 5.0, 10.0, 30.0)
LOG_LIMIT = 10 * 2**20
LOG_KEPT = 3
TAIL_BYTES = 4000
TAIL_LINES = 20
_PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None, use_errno=True)


def end_with_parent() -> None:
    """In the child: when the manager is killed, the kernel ends its children too.

    Otherwise they would keep the ports, and the next start would find them busy.
    """
    _LIBC.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)


@dataclass
class Child:
    name: str
    command: Sequence[str]
    log: Path
    env: Mapping[str, str] = field(default_factory=dict)
    sockets: Sequence[int] = ()
    grace_s: float = 10.0
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    due_at: float = 0.0
    quick_ends: int = 0

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self, cwd: Path) -> None:
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                list(self.command),
                cwd=cwd,
                env={**os.environ, **self.env},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=tuple(self.sockets),
                start_new_session=True,  # Ctrl-C is for the manager, which ends them in order
                preexec_fn=end_with_parent,  # noqa: PLW1509 - the manager has one thread
            )
        self.started_at = time.monotonic()

    def ended(self, now: float) -> int:
        """Plans the restart; answers how often in a row it ended soon after its start."""
        self.quick_ends = 0 if now - self.started_at >= LIVED_LONG_S else self.quick_ends + 1
        self.due_at = now + PAUSES_S[min(max(self.quick_ends - 1, 0), len(PAUSES_S) - 1)]
        self.process = None
        return self.quick_ends

    def stop(self) -> None:
        """SIGTERM, then SIGKILL after the grace; returns when it is gone."""
        if not self.alive or self.process is None:
            return
        self.process.terminate()
        try:
            self.process.wait(self.grace_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def tail(self) -> str:
        try:
            with self.log.open("rb") as file:
                file.seek(max(0, self.log.stat().st_size - TAIL_BYTES))
                text = file.read().decode(errors="replace")
        except OSError:
            return ""
        return "\n".join(text.splitlines()[-TAIL_LINES:])


def rotate(log: Path) -> bool:
    """Moves a log's text on when it is too long; the writer keeps its open file (O_APPEND)."""
    try:
        if log.stat().st_size < LOG_LIMIT:
            return False
        for number in range(LOG_KEPT - 1, 0, -1):
            older = log.with_name(f"{log.name}.{number}")
            if older.exists():
                older.replace(log.with_name(f"{log.name}.{number + 1}"))
        with log.open("rb+") as source, log.with_name(f"{log.name}.1").open("wb") as copy:
            while part := source.read(2**20):
                copy.write(part)
            source.truncate(0)
    except OSError:
        return False  # a full disk must not end the manager
    return True
