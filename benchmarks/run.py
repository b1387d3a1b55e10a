"""``make bench``: run those that need no store and no cluster, or those named; write the report.

With ``--small`` each is run in the least size, to show that it works: no figure is kept.
"""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

from benchmarks.lib import SMALL, Result, is_small, save
from benchmarks.report import write
from tests.support.portal import ROOT, Portal

ALL = ["warm", "lists", "waits", "budgets", "replay", "spawn", "idle", "storm"]
# Need Go, gigabytes of memory and minutes; sizes by BENCH_… (docs/dev/object-stores.md).
LOADS = {
    "loads-large": ("loads_large", "run"),
    "loads-disk": ("loads_large", "run_disk"),
    "loads-small": ("loads_small", "run"),
    "loads-again": ("loads_small", "run_again"),
    "loads-gcs": ("loads_gcs", "run"),
    "keys": ("keys_rotate", "run"),
    "uploads": ("uploads", "run"),
    "converge": ("converge", "run"),
    "fair": ("fair", "run"),
    "guarantees": ("guarantees", "run"),
    "resume": ("resume", "run"),
    "fleet": ("fleet", "run"),
    "ingest": ("ingest", "run"),
    "idle-day": ("idle_day", "run"),
    "ratios": ("ratios", "run"),
    "jobs": ("jobs", "run"),
    "long-log": ("jobs", "run_log"),
    "routes": ("routes", "run"),
    "streams": ("streams", "run"),
    "gateway": ("gateway", "run"),
    "wake": ("wake", "run"),
}
# Need `make cluster-up`.
CLUSTER = ["cluster-start", "cluster-storm", "cluster-watch", "cluster-outage"]
CLUSTER += ["cluster-replay", "cluster-admission", "cluster-jobs"]


def with_portal(names: list[str]) -> list[Result]:
    from benchmarks import idle, spawn, storm

    portal = Portal(storm.SETTINGS if "storm" in names else None)
    results: list[Result] = []
    try:
        portal.start()
        if "spawn" in names:
            results += spawn.run(portal)
        if "idle" in names:
            results += idle.run(portal)
        if "storm" in names:
            results += storm.run(portal)
    finally:
        portal.close()
    return results


def main(names: list[str]) -> int:
    if "--small" in names:
        os.environ[SMALL] = "yes"  # before a benchmark is imported; and for its processes
        names = [name for name in names if name != "--small"]
    unknown = set(names) - set(ALL) - set(CLUSTER) - set(LOADS)
    if unknown:
        there = ", ".join([*ALL, *LOADS, *CLUSTER])
        print(f"unknown: {', '.join(sorted(unknown))}; there are: {there}")
        return 2
    if len(names) != 1:  # each in a process of its own, so that none inherits another's memory
        return max(
            subprocess.run(
                [sys.executable, "-m", "benchmarks.run", name], cwd=ROOT, check=False
            ).returncode
            for name in (names or ALL)
        )
    (name,) = names
    if name == "warm":
        from benchmarks.warm import run

        results = run()
    elif name in {"lists", "waits", "budgets", "replay"}:
        results = importlib.import_module(f"benchmarks.{name}").run()
    elif name in LOADS:
        where, verb = LOADS[name]
        results = getattr(importlib.import_module(f"benchmarks.{where}"), verb)()
    elif name in CLUSTER:
        module = importlib.import_module(f"benchmarks.{name.replace('-', '_')}")
        results = module.run()
    else:
        results = with_portal([name])
    for result in results:
        print(result.line(), flush=True)
    if is_small():
        return 0
    save(results)
    write(Path(ROOT / "docs" / "benchmarks.md"))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
