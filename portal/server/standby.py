"""A process that runs only while a file says so: the gate, while a cluster is attached or
somebody looks at files.

The worker, which has the database, writes and removes the file; the manager, which has not,
looks at it every few seconds.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from portal.server.paths import Paths
from portal.server.processes import Child

LOOK_EVERY_S = 1.0
GRACE_S = 12.0


@dataclass
class Standby:
    """``child`` is there while it is wanted."""

    name: str
    wanted: Path
    make: Callable[[], Child]
    child: Child | None = None
    leaving: list[Child] = field(default_factory=list)
    look_at: float = 0.0

    def tend(self, now: float) -> tuple[Child | None, Child | None]:
        """Return (a child to add, a child to drop); each None when nothing changed."""
        self.leaving = [one for one in self.leaving if one.alive]
        if now < self.look_at:
            return None, None
        self.look_at = now + LOOK_EVERY_S
        is_wanted = self.wanted.exists()
        if is_wanted and self.child is None:
            self.child = self.make()
            return self.child, None
        if not is_wanted and self.child is not None:
            old, self.child = self.child, None
            self._end(old)
            return None, old
        return None, None

    def _end(self, old: Child) -> None:
        """Ask it to go; it drains by itself, and nobody waits for it here."""
        if old.alive and old.process is not None:
            old.process.terminate()
            self.leaving.append(old)

    def stop(self) -> None:
        for one in self.leaving:
            one.stop()


def gate(places: Paths, env: Mapping[str, str], sockets: Mapping[str, socket.socket]) -> Standby:
    """The manager holds its sockets from the start: a port that pages name is never another's."""
    options = {"gate": "--fd", "gate_internal": "--internal-fd", "ssh": "--ssh-fd"}
    fds = {option: sockets[name].fileno() for name, option in options.items() if name in sockets}
    command = [sys.executable, "-m", "gate"]
    for option, number in fds.items():
        command += [option, str(number)]

    def make() -> Child:
        log = places.log / "gate.log"
        return Child("gate", command, log, env, tuple(fds.values()), grace_s=GRACE_S)

    return Standby("gate", wanted_file(places.var), make)


def wanted_file(var: Path) -> Path:
    return var / "run" / "gate.wanted"


def turn_file(var: Path) -> Path:
    """Its time says when the worker of this machine made its last turn."""
    return var / "run" / "worker.turn"


def state_of(places: Paths) -> str:
    """One line for ``berth status``."""
    if wanted_file(places.var).exists():
        return "runs"
    return "is not needed: no cluster is attached, and nobody looks at files"
