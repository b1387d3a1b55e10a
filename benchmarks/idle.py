"""What the portal costs when nobody uses it: CPU of all its processes, proportional memory."""

from __future__ import annotations

import os
import time
from pathlib import Path

from benchmarks.lib import Result, sized
from tests.support.portal import Portal

TICKS = os.sysconf("SC_CLK_TCK")


def family(portal: Portal) -> list[int]:
    """Return the pids whose environment names this portal's folder."""
    mark = f"BERTH_VAR={portal.var}".encode()
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            environment = (entry / "environ").read_bytes().split(b"\0")
            line = (entry / "cmdline").read_bytes()
        except OSError:
            continue
        ours = mark in environment or str(portal.var).encode() in line
        if ours and b"BERTH_WORKLOAD" not in b"".join(environment):
            found.append(int(entry.name))
    return found


def cpu_s(pids: list[int]) -> float:
    total = 0.0
    for pid in pids:
        fields = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
        total += (int(fields[11]) + int(fields[12])) / TICKS
    return total


def pss_mib(pids: list[int]) -> float:
    total = 0
    for pid in pids:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Pss:"):
                total += int(line.split()[1])
    return total / 1024


def run(portal: Portal, seconds: float = sized(300.0, 5.0)) -> list[Result]:
    time.sleep(20)  # the start's own work is over
    pids = family(portal)
    before, begin = cpu_s(pids), time.monotonic()
    time.sleep(seconds)
    share = 100 * (cpu_s(pids) - before) / (time.monotonic() - begin)
    return [
        Result("idle CPU over 5 minutes", "% of a core", [share], goal=1.5, floor=1.5),
        Result(
            "memory of the whole portal, PSS",
            "MiB",
            [pss_mib(pids)],
            goal=500,
            floor=600,
            note=f"{len(pids)} processes",
        ),
    ]
