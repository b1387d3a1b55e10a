"""The supervisor's memory: small files, each written whole or not at all, and rotating logs.

One folder per workload, closed to users. Nothing in it is ever a secret.
"""

import contextlib
import fcntl
import json
import logging
import os
import shutil
import signal
import stat
import subprocess
import time
from pathlib import Path
from typing import Any

from runtime.drivers.local import shim

log = logging.getLogger("berth.supervisor")


def write_atomic(path: Path, text: str) -> None:
    temporary = path.with_name(path.name + ".tmp")
    with open(temporary, "w", opener=_private) as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(path)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


class Record:
    """What is remembered of one workload."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @property
    def uid(self) -> str:
        return self.folder.name

    def make(self) -> None:
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def read(self, name: str, *, attempt: int | None = None) -> dict[str, Any] | None:
        """Return the object ``name``; None when absent, unreadable or of another attempt."""
        try:
            data = json.loads((self.folder / f"{name}.json").read_text())
        except (OSError, ValueError):
            return None
        if not isinstance(data, dict) or (attempt is not None and data.get("attempt") != attempt):
            return None
        return data

    def write(self, name: str, data: dict[str, Any]) -> None:
        write_atomic(self.folder / f"{name}.json", json.dumps(data))

    def note(self, name: str, data: dict[str, Any]) -> None:
        """Write what is better remembered but must never stop the work: a disk may be full."""
        try:
            self.write(name, data)
        except OSError as problem:
            log.warning("can't remember %s of %s: %s", name, self.uid, problem)

    def attempt(self) -> int:
        try:
            return int((self.folder / "attempt").read_text())
        except (OSError, ValueError):
            return 0

    def begin(self, spec: dict[str, Any]) -> int | None:
        """Store the spec under a new attempt; None while a parent of an old one still lives.

        Holding the lock the parents hold for life makes a second process impossible: an old
        parent that starts late finds a newer attempt and leaves.
        """
        self.make()
        fd = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            attempt = self.attempt() + 1
            write_atomic(self.folder / "attempt", str(attempt))
            self.write("spec", {**spec, "attempt": attempt})
        except BlockingIOError:
            return None
        finally:
            os.close(fd)
        return attempt

    def is_locked(self) -> bool:
        """True while a parent process of this workload lives."""
        try:
            fd = os.open(self.folder / "lock", os.O_RDWR | os.O_CLOEXEC)
        except OSError:
            return False
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(fd)
        return False


class Trash:
    """Folders on their way out: moved away in one step, deleted in their own time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._count = 0

    def take(self, path: Path) -> bool:
        """Move it away; True when it was there."""
        self.folder.mkdir(mode=0o700, exist_ok=True)
        self._count += 1
        try:
            path.rename(self.folder / f"{path.name}.{os.getpid()}.{self._count}")
        except FileNotFoundError:
            return False
        return True

    def empty(self) -> None:
        """Delete for good."""
        if self.folder.is_dir():
            for entry in self.folder.iterdir():
                destroy(entry)


def destroy(path: Path) -> None:
    """Delete what a stranger filled.

    ``rm`` walks by descriptors, so no link leads it astray, and it needs no stack: a thousand
    folders in one another would end ``shutil.rmtree``, and with it the emptying for everybody.
    Who is not root opens folders first that their owner closed to himself, as caches of tools are.
    """
    remove = ("rm", "-rf", "--one-file-system", "--", str(path))
    if not _did(*remove):
        _did("chmod", "-R", "u+rwX", "--", str(path))
        _did(*remove)


def _did(program: str, *words: str) -> bool:
    try:
        done = subprocess.run(  # noqa: S603 - nothing in it is spelled by a stranger
            [shutil.which(program, path="/usr/bin:/bin") or program, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            check=False,
        )
    except OSError:
        return False
    return done.returncode == 0


SEGMENT_BYTES = 16 * 1024 * 1024
KEPT_SEGMENTS = 2


def log_prefix(folder: Path, launch: int) -> str:
    return f"{folder}/log-{launch}-"


def log_segments(folder: Path, launch: int) -> list[tuple[int, Path]]:
    found = [(int(path.name.rpartition("-")[2]), path) for path in folder.glob(f"log-{launch}-*")]
    return sorted(found)


def read_log(folder: Path, launch: int, *, offset: int, limit: int) -> tuple[bytes, int]:
    """Return bytes from ``offset`` on (or from the oldest kept) and where to go on."""
    data = b""
    position = max(offset, 0)
    for start, path in log_segments(folder, launch):
        position = max(position, start) if not data else position
        with contextlib.suppress(OSError), path.open("rb") as file:
            file.seek(position - start)
            part = file.read(limit - len(data))
            data += part
            position += len(part)
        if len(data) >= limit:
            break
    return (data, position) if data else (b"", max(offset, 0))


def read_users(path: Path, *, offset: int, limit: int) -> tuple[bytes, int]:
    """Return bytes of a file that a user may have put anything in place of, and where to go on.

    Only one that is a plain file of one name is read: a link may lead to what is not theirs, and a
    pipe may never answer.
    """
    offset = max(0, offset)
    try:
        number = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return b"", offset
    try:
        found = os.fstat(number)
        if not stat.S_ISREG(found.st_mode) or found.st_nlink != 1:
            return b"", offset
        if found.st_size < offset:
            return b"", 0
        data = os.pread(number, limit, offset)
    finally:
        os.close(number)
    return data, offset + len(data)


def drop_older_logs(folder: Path, launch: int) -> None:
    """Keep the log of this launch and of the one before."""
    for path in folder.glob("log-*-*"):
        with contextlib.suppress(OSError, ValueError):
            if int(path.name.split("-")[1]) < launch - 1:
                path.unlink()


class OrphanPump:
    """Carries the output of a workload whose parent was killed, in the parent's place."""

    def __init__(self, folder: Path, launch: int) -> None:
        self.fd = os.open(folder / "output", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self.log = shim.Log(log_prefix(folder, launch), SEGMENT_BYTES, KEPT_SEGMENTS)
        self.log.due = time.monotonic()  # the parent may have given the free second already

    def pump(self) -> float:
        """Carry one chunk; return for how many seconds the next one must wait."""
        try:
            data = os.read(self.fd, 65536)
        except BlockingIOError:
            return 0.0
        self.log.write(data)
        return self.log.pause_after(len(data))

    def close(self) -> None:
        os.close(self.fd)
        if self.log.fd >= 0:
            os.close(self.log.fd)


def killpoint(name: str) -> None:
    if os.environ.get("BERTH_KILLPOINT") == f"supervisor-{name}":
        os.kill(os.getpid(), signal.SIGKILL)
