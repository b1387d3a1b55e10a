"""The servers' programs: one from the stores' Python packages, two built from Go modules."""

from __future__ import annotations

import ctypes
import functools
import os
import signal
import socket
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from devcluster.programs import PROGRAMS, build, go
from tests.support.locked_environments import MissingError, locked_environment
from tests.support.portal import environments
from tools.setup_shell import SetupError

READY_WITHIN_S = 120.0
END_WITHIN_S = 10.0
PR_SET_PDEATHSIG = 1
PRCTL = getattr(ctypes.CDLL(None), "prctl", None)  # found before a fork, used after it


@functools.cache
def stores_bin() -> Path:
    """The folder with rclone, s5cmd, aws and the Python of requirements/stores.txt."""
    try:
        return locked_environment("stores") / "bin"
    except MissingError:
        made = environments() / "stores" / "bin"
        if not (made / "rclone").exists():
            raise
        return made.resolve()


@functools.cache
def gsutil() -> Path:
    """It wants one version of Google's library, so it has an environment of its own."""
    return locked_environment("gsutil") / "bin" / "gsutil"


@functools.cache
def built(name: str) -> Path:
    """A program of devcluster/modules, built once for each version on this machine."""
    program = PROGRAMS[name]
    if not program.built():
        try:
            go()
        except SetupError as error:
            raise MissingError(f"there is no Go on this machine, which builds {name}") from error
        try:
            build(program, lambda text: None)
        except (SetupError, OSError) as error:
            raise MissingError(f"{name} could not be built: {error}") from error
    return program.kept / name


def end_with_parent() -> None:
    """Between fork and exec: a run of the tests that is killed leaves no server behind (Linux)."""
    if PRCTL is not None:
        PRCTL(PR_SET_PDEATHSIG, signal.SIGKILL)


class Process:
    """One server: started in its folder, ended by its number, or with the thread that began it."""

    def __init__(
        self,
        command: Sequence[str | Path],
        folder: Path,
        port: int,
        env: Mapping[str, str],
        host: str = "127.0.0.1",
        within_s: float = READY_WITHIN_S,
    ) -> None:
        self.log = folder / f"{Path(command[0]).name}-{port}.log"
        with self.log.open("ab") as out:
            self.child = subprocess.Popen(
                [str(word) for word in command],
                cwd=folder,
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=out,
                preexec_fn=end_with_parent,  # noqa: PLW1509 - one system call, loaded before
                env={"PATH": os.environ.get("PATH", ""), "HOME": str(folder), **env},
            )
        self._wait(host, port, within_s)

    @property
    def pid(self) -> int:
        return self.child.pid

    def _wait(self, host: str, port: int, within_s: float) -> None:
        deadline = time.monotonic() + within_s
        while time.monotonic() < deadline:
            if self.child.poll() is not None:
                break
            with socket.socket() as one:
                # A free port may answer itself: both ends are then the same socket.
                if not one.connect_ex((host, port)) and one.getsockname()[1] != port:
                    return
            time.sleep(0.02)
        self.end()
        raise RuntimeError(f"{self.log.name}: {self.log.read_text()[-2000:]}")

    def end(self) -> None:
        if self.child.poll() is None:
            self.child.terminate()
            try:
                self.child.wait(END_WITHIN_S)
            except subprocess.TimeoutExpired:
                self.child.kill()
                self.child.wait()
