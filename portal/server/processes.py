"""Child processes: started, watched, restarted with a growing pause, stopped in time.

Some run only while a file says so: the gate, while a cluster is attached or somebody looks at
files; the gateway, while there is an endpoint or somebody calls. Another outlives the portal: the
supervisor of workspaces, found by its socket.
"""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from common.making import wanted_file
from portal.server.paths import ROOT, Paths

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

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
    is_last: bool = False  # to be asked to end: what the others answer goes through it
    process: subprocess.Popen[bytes] | None = None
    started_at: float = 0.0
    due_at: float = 0.0
    quick_ends: int = 0
    asked_at: float = 0.0

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self, cwd: Path) -> None:
        with self.log.open("ab") as log:
            self.spawn(cwd, log, pass_fds=tuple(self.sockets), preexec_fn=end_with_parent)
        self.started_at = time.monotonic()

    def spawn(self, cwd: Path, log: IO[bytes] | None, **more: Any) -> None:
        """Begin the process; without a log it talks to the terminal itself."""
        self.process = subprocess.Popen(
            list(self.command),
            cwd=cwd,
            env={**os.environ, **self.env},
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,  # Ctrl-C is for the manager, which asks them in order
            **more,  # the manager has one thread: what runs before the program may be Python
        )

    def ended(self, now: float) -> int:
        """Plans the restart; answers how often in a row it ended soon after its start."""
        self.quick_ends = 0 if now - self.started_at >= LIVED_LONG_S else self.quick_ends + 1
        self.due_at = now + PAUSES_S[min(max(self.quick_ends - 1, 0), len(PAUSES_S) - 1)]
        self.process = None
        return self.quick_ends

    def ask_to_end(self) -> None:
        if self.alive and self.process is not None:
            self.process.terminate()
        self.asked_at = time.monotonic()

    def wait_ended(self) -> None:
        """Return when it is gone; SIGKILL where it was asked longer than its grace ago."""
        if self.process is None:
            return
        try:
            self.process.wait(max(0.0, self.asked_at + self.grace_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def stop(self) -> None:
        self.ask_to_end()
        self.wait_ended()

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


LOOK_EVERY_S = 1.0
MODEL_SERVERS = ("serving", "serving-tensorflow", "serving-pytorch")
GRACE_S = 12.0
GATEWAY_GRACE_S = 15.0  # it gives open requests ten seconds


@dataclass
class Standby:
    """``child`` is there while it is wanted; a connection that waits at ``door`` wants it too."""

    name: str
    wanted: Path
    make: Callable[[], Child]
    door: int | None = None
    child: Child | None = None
    leaving: list[Child] = field(default_factory=list)
    look_at: float = 0.0

    def tend(self, now: float) -> tuple[Child | None, Child | None]:
        """Return (a child to add, a child to drop); each None when nothing changed."""
        self.leaving = [one for one in self.leaving if one.alive]
        if now < self.look_at:
            return None, None
        self.look_at = now + LOOK_EVERY_S
        doors = [] if self.child is not None or self.door is None else [self.door]
        if select.select(doors, [], [], 0)[0]:
            with contextlib.suppress(OSError):  # a full disk must not end the manager
                self.wanted.touch(mode=0o600)
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
        if old.alive:
            old.ask_to_end()
            self.leaving.append(old)


def gate_standby(
    places: Paths, env: Mapping[str, str], sockets: Mapping[str, socket.socket]
) -> Standby:
    """The manager holds its sockets from the start: a port that pages name is never another's."""
    options = {"gate": "--fd", "gate_internal": "--internal-fd", "ssh": "--ssh-fd"}
    fds = {option: sockets[name].fileno() for name, option in options.items() if name in sockets}
    command = [sys.executable, "-m", "gate"]
    for option, number in fds.items():
        command += [option, str(number)]

    def make() -> Child:
        log = places.log / "gate.log"
        return Child("gate", command, log, env, tuple(fds.values()), grace_s=GRACE_S)

    return Standby("gate", wanted_file(places.var, "gate"), make)


def gateway_standby(places: Paths, env: Mapping[str, str], listener: socket.socket) -> Standby:
    """It takes 110 MiB, and most portals of one machine serve no model."""
    command = [sys.executable, "-m", "serving.gateway", str(listener.fileno())]

    def make() -> Child:
        log, fds = places.log / "gateway.log", (listener.fileno(),)
        return Child("gateway", command, log, env, fds, grace_s=GATEWAY_GRACE_S)

    return Standby("gateway", wanted_file(places.var, "gateway"), make, listener.fileno())


def environment_standbys(places: Paths, environments: str, logs: Path) -> list[Standby]:
    """Each makes an environment of model servers, and waits until nobody wants it any more."""

    def of(name: str) -> Standby:
        command = [sys.executable, "-m", "portal.server.environments", name, environments]

        def make() -> Child:
            return Child(f"The maker of {name}", command, logs / f"{name}.log")

        return Standby(name, wanted_file(places.var, name), make)

    return [of(name) for name in MODEL_SERVERS]


def turn_file(var: Path) -> Path:
    """Its time says when the worker of this machine made its last turn."""
    return var / "run" / "worker.turn"


def standby_states(places: Paths) -> list[str]:
    """Lines for ``berth status``."""
    unneeded = {
        "gate": ("The gate to clusters", "no cluster is attached, and nobody looks at files"),
        "gateway": ("The gateway to endpoints", "there is no endpoint"),
    }
    return [
        f"{label} runs."
        if wanted_file(places.var, name).exists()
        else f"{label} is not needed: {why}."
        for name, (label, why) in unneeded.items()
    ]


CONNECT_TIMEOUT_S = 2.0
# How long it may take to end when it is asked to, and when it is not asked.
ENDS_WITHIN_S = ((signal.SIGTERM, 30.0), (signal.SIGKILL, 10.0))
_CREDENTIALS = struct.Struct("3i")  # struct ucred: pid, uid, gid


@dataclass
class Supervisor(Child):
    socket: Path = Path()
    adopted: int = 0

    @property
    def alive(self) -> bool:
        if self.process is not None:
            return self.process.poll() is None
        return bool(self.adopted) and socket_owner(self.socket) == self.adopted

    @property
    def number(self) -> int:
        return self.process.pid if self.process else self.adopted

    def start(self, cwd: Path) -> None:
        self.started_at = time.monotonic()
        self.adopted = socket_owner(self.socket) or 0
        if self.adopted and self._is_of_this_version():
            return
        if self.adopted:
            self._replace()
        self._version.write_text(code_digest() + "\n")
        with self.log.open("ab") as log:
            self.spawn(cwd, log)

    @property
    def _version(self) -> Path:
        return self.socket.with_name("version")

    def _is_of_this_version(self) -> bool:
        try:
            return self._version.read_text().strip() == code_digest()
        except OSError:
            return False

    def _replace(self) -> None:
        """After an upgrade: it keeps nothing in memory, and its end touches no workspace.

        The next one can't start beside it: it would find the state locked.
        """
        number, self.adopted = self.adopted, 0
        try:
            process = os.pidfd_open(number)
        except ProcessLookupError:
            return
        try:
            for sign, within_s in ENDS_WITHIN_S:
                signal.pidfd_send_signal(process, sign)
                if select.select([process], [], [], within_s)[0]:
                    return
        except ProcessLookupError:
            return
        finally:
            os.close(process)

    def ended(self, now: float) -> int:
        self.adopted = 0
        return super().ended(now)

    def ask_to_end(self) -> None:
        """Does nothing: it stays, and with it the workspaces."""
        self.process = None
        self.adopted = 0


def code_digest() -> str:
    """What the supervisor is made of."""
    total = hashlib.sha256()
    for file in sorted((ROOT / "runtime/drivers/local").glob("*.py")):
        total.update(file.read_bytes())
    return total.hexdigest()[:16]


def socket_owner(path: Path) -> int | None:
    """The process that listens on this socket, or None when nobody does."""
    with socket.socket(socket.AF_UNIX) as one:
        one.settimeout(CONNECT_TIMEOUT_S)
        try:
            one.connect(str(path))
            raw = one.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        except OSError:
            return None
    return int(_CREDENTIALS.unpack(raw)[0]) or None


def supervisor_command(paths: dict[str, str], group: str | None) -> list[str]:
    """How the supervisor is started; ``paths`` as the settings have them."""
    words = [sys.executable, "-m", "runtime.drivers.local.supervisor"]
    for name in ("socket", "state", "volumes", "environments"):
        words += [f"--{name}", paths[name]]
    return words + (["--group", group] if group else [])
