"""How a workload ended, in a word and a sentence; and taking down what it left behind."""

import contextlib
import os
import signal
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from runtime.drivers.local import procfs
from runtime.drivers.local.cgroups import Groups


@dataclass(frozen=True)
class Ending:
    reason: str
    message: str = ""
    code: int | None = None
    at: float | None = None


def classify(  # noqa: PLR0911 - one line for each way to end
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
    if oom_kills and code != 0:
        return Ending("oom", "it needed more memory than it was given", code, at)
    if code < 0:
        return Ending("killed", f"ended by signal {_signal_name(-code)}", code, at)
    return Ending("exit", f"exit code {code}" if code else "", code, at)


def is_worth_another_try(end: Ending, *, went: bool, fixed_port: bool) -> bool:
    """Whether the same might start on another port, or with more luck."""
    if end.reason == "port-hijacked":
        return not fixed_port  # there is no other
    # With a code it said why it can't start; it would say so again.
    return end.reason == "start-failed" and not went and end.code is None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return str(number)


def send(pid: int, start: int, number: int) -> bool:
    """Signal exactly this process; False when it has gone. Never a recycled pid."""
    fd = procfs.open_pidfd(pid, start)
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
    return found | procfs.marked(f"BERTH_WORKLOAD={uid}") if by_mark else found


def kill_all(uid: str, groups: Groups, *, by_mark: bool) -> int:
    """Kill what still lives; return how many there were. Call again until it is none."""
    if path := groups.kill_file(uid):
        with contextlib.suppress(OSError), open(path, "w") as file:  # noqa: PTH123
            file.write("1")
    found = leftovers(uid, groups, by_mark=by_mark)
    for pid in found:
        _kill_checked(pid, lambda: leftovers(uid, groups, by_mark=by_mark))
    return len(found)


def _kill_checked(pid: int, members: Callable[[], set[int]]) -> None:
    """Kill ``pid`` if it is still ours once a pidfd holds it fast."""
    with contextlib.suppress(OSError):
        fd = os.pidfd_open(pid)
        try:
            if pid in members():
                signal.pidfd_send_signal(fd, signal.SIGKILL)
        finally:
            os.close(fd)
