"""Processes as /proc tells of them, how a workload ended, and the end of what it left behind.

A process is named by pid, start time and boot, never by its pid alone.
"""

import contextlib
import os
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runtime.drivers.local.isolation import Groups

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


@dataclass(frozen=True)
class Ending:
    reason: str
    message: str = ""
    code: int | None = None
    at: float | None = None


def classify(  # noqa: PLR0911 - one for each way to end
    exit_record: dict[str, Any] | None, *, went: bool, stopped: bool, oom_kills: int
) -> Ending:
    """Return the ending. ``exit_record`` None: the parent died before it could see the end."""
    if exit_record is None:
        if not went:
            return Ending("start-failed", "it ended before its program started")
        return Ending("unknown", "its end was not seen; the exit code is not known")
    code, at = int(exit_record["code"]), float(exit_record["at"])
    if exit_record.get("error"):
        return Ending("start-failed", str(exit_record["error"]), code, at)
    if stopped:
        return Ending("stopped", "", code, at)
    if exit_record.get("shutdown"):
        return Ending("vanished", "the machine was restarted", None, at)
    if oom_kills and code != 0:
        return Ending("oom", "it needed more memory than it was given", code, at)
    if code < 0:
        return Ending("killed", f"ended by signal {_signal_name(-code)}", code, at)
    return Ending("exit", f"exit code {code}" if code else "", code, at)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def send_signal(pid: int, start: int, number: int) -> bool:
    """Signal exactly this process; False when it has gone. Never a recycled pid."""
    fd = open_pidfd(pid, start)
    if fd is None:
        return False
    try:
        signal.pidfd_send_signal(fd, number)
    except (ProcessLookupError, PermissionError):
        return False
    finally:
        os.close(fd)
    return True


def leftovers(uid: str, groups: Groups, *, by_mark: bool) -> set[int]:
    """Return what still lives of a workload: by its groups, and by its mark where asked."""
    found = groups.members(uid)
    return found | marked(f"BERTH_WORKLOAD={uid}") if by_mark else found


def kill_all(uid: str, groups: Groups, *, by_mark: bool) -> int:
    """Kill what still lives; return how many there were. Call again until it is none."""
    if path := groups.kill_file(uid):
        with contextlib.suppress(OSError), open(path, "w") as file:  # noqa: PTH123
            file.write("1")
    found = leftovers(uid, groups, by_mark=by_mark)
    for pid in found:
        with contextlib.suppress(OSError):
            fd = os.pidfd_open(pid)
            try:
                # still ours, now that the pidfd holds it fast
                if pid in leftovers(uid, groups, by_mark=by_mark):
                    signal.pidfd_send_signal(fd, signal.SIGKILL)
            finally:
                os.close(fd)
    return len(found)
