"""Reading a log that rotates, and carrying output on when a workload's parent has died."""

import contextlib
import os
import time
from pathlib import Path

from runtime.drivers.local import shim

SEGMENT_BYTES = 16 * 1024 * 1024
KEEP = 2


def prefix(folder: Path, launch: int) -> str:
    return f"{folder}/log-{launch}-"


def segments(folder: Path, launch: int) -> list[tuple[int, Path]]:
    found = [(int(path.name.rpartition("-")[2]), path) for path in folder.glob(f"log-{launch}-*")]
    return sorted(found)


def read(folder: Path, launch: int, *, offset: int, limit: int) -> tuple[bytes, int]:
    """Return bytes from ``offset`` on (or from the oldest kept) and where to go on."""
    data = b""
    position = max(offset, 0)
    for start, path in segments(folder, launch):
        position = max(position, start) if not data else position
        with contextlib.suppress(OSError), path.open("rb") as file:
            file.seek(position - start)
            part = file.read(limit - len(data))
            data += part
            position += len(part)
        if len(data) >= limit:
            break
    return (data, position) if data else (b"", max(offset, 0))


def drop_older(folder: Path, launch: int) -> None:
    """Keep the log of this launch and of the one before."""
    for path in folder.glob("log-*-*"):
        with contextlib.suppress(OSError, ValueError):
            if int(path.name.split("-")[1]) < launch - 1:
                path.unlink()


class OrphanPump:
    """Carries the output of a workload whose parent was killed, in the parent's place."""

    def __init__(self, folder: Path, launch: int) -> None:
        self.fd = os.open(folder / "output", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self.log = shim.Log(prefix(folder, launch), SEGMENT_BYTES, KEEP)
        self.log.due = time.monotonic()  # the parent may have given the free second already
        existing = segments(folder, launch)
        if existing:
            start, path = existing[-1]
            size = path.stat().st_size
            self.log.names = [str(path) for _, path in existing]
            self.log.offset = start + size
            self.log.fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CLOEXEC)
            self.log.room = SEGMENT_BYTES - size

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
