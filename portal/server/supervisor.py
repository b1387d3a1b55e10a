"""Keeps one process supervisor alive without owning it: it and the workspaces outlive the portal.

It is found by its socket (the kernel says whose it is), so a portal that starts again adopts the
one that runs, and notices its end without asking again and again.
"""

import hashlib
import os
import select
import signal
import socket
import struct
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

from portal.server.paths import ROOT
from portal.server.processes import Child

CONNECT_TIMEOUT_S = 2.0
# How long it may take to end when it is asked to, and when it is not asked.
ENDS_WITHIN_S = ((signal.SIGTERM, 30.0), (signal.SIGKILL, 10.0))
_CREDENTIALS = struct.Struct("3i")  # struct ucred: pid, uid, gid


@dataclass
class Supervisor(Child):
    socket: Path = Path()
    pidfd: int | None = None
    adopted: int = 0

    @property
    def alive(self) -> bool:
        if self.process is not None:
            return self.process.poll() is None
        return bool(self.adopted) and owner(self.socket) == self.adopted

    @property
    def number(self) -> int:
        return self.process.pid if self.process else self.adopted

    def start(self, cwd: Path) -> None:
        self.started_at = time.monotonic()
        self.adopted = owner(self.socket) or 0
        if self.adopted and self._is_of_this_version():
            return
        if self.adopted:
            self._replace()
        self._version.write_text(code_digest() + "\n")
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                list(self.command),
                cwd=cwd,
                env={**os.environ, **self.env},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

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

    def stop(self) -> None:
        """Does nothing: it stays, and with it the workspaces."""
        self.process = None
        self.adopted = 0


def code_digest() -> str:
    """What the supervisor is made of."""
    total = hashlib.sha256()
    for file in sorted((ROOT / "runtime/drivers/local").glob("*.py")):
        total.update(file.read_bytes())
    return total.hexdigest()[:16]


def owner(path: Path) -> int | None:
    """The process that listens on this socket, or None when nobody does."""
    with socket.socket(socket.AF_UNIX) as one:
        one.settimeout(CONNECT_TIMEOUT_S)
        try:
            one.connect(str(path))
            raw = one.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
        except OSError:
            return None
    return int(_CREDENTIALS.unpack(raw)[0]) or None


def command(paths: dict[str, str], group: str | None) -> list[str]:
    """How the supervisor is started; ``paths`` as the settings have them."""
    words = [sys.executable, "-m", "runtime.drivers.local.supervisor"]
    for name in ("socket", "state", "volumes", "environments"):
        words += [f"--{name}", paths[name]]
    return words + (["--group", group] if group else [])
