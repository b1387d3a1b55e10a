"""What workloads and volumes use."""

import asyncio
import contextlib
import time
from pathlib import Path

from runtime.drivers.local import procfs
from runtime.drivers.local.workload import Workload

_MIB = 1024 * 1024
DU_TIMEOUT_S = 20.0


class Meter:
    """Remembers the last reading of each workload: CPU is a rate between two readings."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[int, float, float]] = {}

    def read(self, workload: Workload) -> dict[str, float]:
        """Return cpu_milli and memory_mib; nothing for one that does not run."""
        if not workload.is_alive or workload.child is None:
            self._last.pop(workload.uid, None)
            return {}
        groups = workload.machine.groups
        cpu, memory = groups.cpu_seconds(workload.uid), groups.memory_bytes(workload.uid)
        if cpu is None or memory is None:
            walked_cpu, walked_memory = _walk(workload.members())
            cpu = walked_cpu if cpu is None else cpu
            memory = walked_memory if memory is None else memory
        return {"memory_mib": round(memory / _MIB, 1), **self._rate(workload, cpu)}

    def _rate(self, workload: Workload, cpu: float) -> dict[str, float]:
        now = time.monotonic()
        started = workload.times.get("started")
        before = self._last.get(workload.uid)
        self._last[workload.uid] = (workload.attempt, now, cpu)
        if before is None or before[0] != workload.attempt:
            if started is None:
                return {}
            before = (workload.attempt, now - max(time.time() - started, 0.1), 0.0)
        seconds = now - before[1]
        if seconds <= 0:
            return {}
        return {"cpu_milli": round(max(cpu - before[2], 0.0) / seconds * 1000, 1)}


def together(readings: list[dict[str, float]]) -> dict[str, float]:
    """Return the sum over a group's processes; what of one that runs is unknown is of all."""
    known = [reading for reading in readings if reading]
    names = set.intersection(*map(set, known)) if known else set()
    return {name: round(sum(reading[name] for reading in known), 1) for name in names}


def _walk(pids: set[int]) -> tuple[float, int]:
    cpu, memory = 0.0, 0
    for pid in pids:
        if fields := procfs.stat(pid):
            cpu += procfs.cpu_seconds(fields)
            memory += procfs.resident_bytes(fields)
    return cpu, memory


async def folder_bytes(folder: Path) -> int | None:
    """Return what a folder takes on the disk; None when it can't be told in time."""
    process = await asyncio.create_subprocess_exec(
        "du", "-s", "-x", "--block-size=1", "--", str(folder),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
    )  # fmt: skip
    try:
        out, _ = await asyncio.wait_for(process.communicate(), DU_TIMEOUT_S)
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()
        return None
    number = out.split(b"\t")[0]
    return int(number) if number.isdigit() else None
