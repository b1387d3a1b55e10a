"""What /proc tells about processes. A process is named by pid, start time and boot, never pid."""

import os
from collections.abc import Iterator
from pathlib import Path

PROC = Path("/proc")
_TICKS = os.sysconf("SC_CLK_TCK")
_PAGE = os.sysconf("SC_PAGE_SIZE")


def boot_id() -> str:
    return (PROC / "sys/kernel/random/boot_id").read_text().strip()


def stat(pid: int) -> list[str] | None:
    """Return the fields after the command name (state is 0, ppid 1, start time 19)."""
    try:
        raw = (PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    return raw.rpartition(b")")[2].decode().split()


def is_alive(pid: int, start: int) -> bool:
    """True when exactly this process still runs (a zombie does not)."""
    fields = stat(pid)
    return fields is not None and int(fields[19]) == start and fields[0] not in "ZX"


def open_pidfd(pid: int, start: int) -> int | None:
    """Return a pidfd of exactly this process, or None when it has gone."""
    try:
        fd = os.pidfd_open(pid)
    except OSError:
        return None
    if is_alive(pid, start):  # checked after opening: the fd can't move to another process
        return fd
    os.close(fd)
    return None


def pids() -> Iterator[int]:
    for name in os.listdir(PROC):  # noqa: PTH208 - thousands of entries, no Path for each
        if name.isdigit():
            yield int(name)


def descendants(root: int) -> set[int]:
    """Return ``root`` and everything below it now."""
    parents: dict[int, list[int]] = {}
    for pid in pids():
        if fields := stat(pid):
            parents.setdefault(int(fields[1]), []).append(pid)
    found: set[int] = set()
    todo = [root]
    while todo:
        pid = todo.pop()
        if pid not in found:
            found.add(pid)
            todo.extend(parents.get(pid, ()))
    return found


def marked(mark: str) -> set[int]:
    """Return the processes whose environment holds ``mark`` (NAME=value)."""
    wanted = mark.encode()
    found = set()
    for pid in pids():
        try:
            environ = (PROC / str(pid) / "environ").read_bytes()
        except OSError:
            continue
        if wanted in environ.split(b"\0") and (fields := stat(pid)) and fields[0] not in "ZX":
            found.add(pid)
    return found


def cpu_seconds(fields: list[str]) -> float:
    """User and system time, of the process and of its reaped children."""
    return sum(int(value) for value in fields[11:15]) / _TICKS


def resident_bytes(fields: list[str]) -> int:
    return int(fields[21]) * _PAGE


def socket_inodes(pid: int) -> set[int]:
    """Return the inodes of the sockets a process holds."""
    found: set[int] = set()
    folder = PROC / str(pid) / "fd"
    try:
        names = os.listdir(folder)  # noqa: PTH208
    except OSError:
        return found
    for name in names:
        try:
            link = os.readlink(f"{folder}/{name}")  # noqa: PTH115
        except OSError:
            continue
        if link.startswith("socket:["):
            found.add(int(link[8:-1]))
    return found
