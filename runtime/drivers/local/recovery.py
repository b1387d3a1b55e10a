"""How a supervisor that starts takes up a workload that the one before it left."""

import asyncio
import time

from runtime.drivers.local import processes
from runtime.drivers.local.requests import Facts
from runtime.drivers.local.workload import Workload
from runtime.protocol import Seen

_LATE_PARENT_S = 1.0


def adopt(workload: Workload, boot: str, last_alive: float | None) -> None:
    """Rebuild ``workload``; what needs waiting goes on in a task of its own.

    ``last_alive``: when the supervisor before us was, and what it had.
    """
    record = workload.record
    workload.spec = record.read("spec") or {}
    if not workload.spec:
        return
    workload.attempt, workload.port = workload.spec["attempt"], workload.spec["port_now"]
    if end := record.read("end", attempt=workload.attempt):
        workload.end = processes.Ending(end["reason"], end["message"], end["code"], end["at"])
        workload.recall_times()
        workload.become(Seen.EXITED)
        return
    if stop := record.read("stop", attempt=workload.attempt):
        left = min(max(stop["at"] - time.time(), 0.0), stop["grace"])
        workload.stopping = True
        workload.stop_timer = asyncio.get_running_loop().call_later(left, workload.kill)
    workload.become(Seen.STOPPING if workload.stopping else Seen.CREATED)
    workload.task(_take_up(workload, boot, last_alive))


async def _take_up(workload: Workload, boot: str, last_alive: float | None) -> None:
    parent = await _find_parent(workload)
    if parent is None:
        # It was recorded but never started: as good as not there, ``ensure`` makes it anew
        workload.record.begin(workload.spec)  # a parent that starts even later sees this and leaves
        workload.drop_secrets()
        workload.become(Seen.MISSING)
        return
    workload.parent = (parent["pid"], parent["start"])
    workload.recall_times()
    if last_alive is not None:
        workload.last_alive = max(last_alive, *filter(None, workload.times.values()), 0.0)
    if parent["boot"] != boot:
        _lost_with_the_machine(workload)
    elif (pidfd := processes.open_pidfd(*workload.parent)) is not None:
        await _join(workload, pidfd)
    elif found := workload.record.read("exit", attempt=workload.attempt):
        await workload.settle(found)
    else:
        workload.adopt_orphan()


async def _join(workload: Workload, pidfd: int) -> None:
    """Its parent lives: watch that, and wait until it has started the program."""
    workload.last_alive = None
    workload.on_readable(pidfd, lambda: workload.parent_gone(pidfd))
    while pidfd in workload.watched and not workload.orphan:
        if workload.record.read("went", attempt=workload.attempt):
            workload.resume()
            return
        await asyncio.sleep(0.01)


async def _find_parent(workload: Workload) -> Facts | None:
    """Return the parent's record; one that was just started may still have to write it."""
    deadline = time.monotonic() + _LATE_PARENT_S
    while time.monotonic() < deadline or workload.record.is_locked():
        if parent := workload.record.read("shim", attempt=workload.attempt):
            return parent
        await asyncio.sleep(0.01)
    return None


def _lost_with_the_machine(workload: Workload) -> None:
    found = workload.record.read("exit", attempt=workload.attempt)
    lost = processes.Ending("vanished", "the machine was restarted")
    if found:
        lost = processes.classify(found, went=True, stopped=workload.stopping, oom_kills=0)
    workload.ended(lost)
