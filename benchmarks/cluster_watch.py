"""How soon the portal knows: pods deleted by hand, at 20 a second and slower, against a bare watch.

The bare watch and the portal's database are read in this process with one clock. Everything is on
one machine, so each rate is measured twice: as it is, and with the portal, its database and the
bare watch before Kubernetes in line for a core, as if they had a machine of their own. Then the
portal is left alone, and what it asks the API server meanwhile is counted.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from benchmarks.cluster_rows import UID, Truth, fill
from benchmarks.cluster_start import the_cluster
from benchmarks.cluster_storm import Storm
from benchmarks.cpu import trees
from benchmarks.lib import Result, percentile, poll, sized

PODS = int(os.environ.get("BERTH_WATCH_PODS", sized("200", "6")))
CHANGED = sized(200, 4)
PER_SECOND = 20  # the churn of Kubernetes' own service levels
# What leaves the machine some of its time, to tell its limit from the portal's: Kubernetes itself
# computes 0.2 s for a pod that is replaced.
SLOWER = (4, 1)
TOLD_WITHIN_S = 30.0
QUIET_S = sized(120.0, 2.0)
FIRST = -15  # of the kernel's "nice"
WITHIN_S = float(os.environ.get("BERTH_WATCH_WITHIN_S", "1800"))


def noticed(
    storm: Storm, wanted: set[str], begun: float, changed: threading.Event
) -> dict[str, float]:
    """Return when the portal told of each uid's change: as its state, or on its timeline.

    What it told before ``begun`` is of an earlier round.
    A pod may be there again before its end was read; then only the timeline tells. What is not
    told ``TOLD_WITHIN_S`` after all was changed is missed.
    """
    import psycopg

    found: dict[str, float] = {}
    until = float("inf")
    with psycopg.connect(storm.portal.env["BERTH_DATABASE_URL"], autocommit=True) as database:
        while len(found) < len(wanted) and time.time() < until:
            rows = database.execute(
                "SELECT uid::text, extract(epoch FROM phase_since) FROM work_workload"
                " WHERE kind = 'workspace' AND phase = 'starting' AND deleted_at IS NULL"
                " UNION ALL SELECT w.uid::text, extract(epoch FROM s.at) FROM notebooks_step s"
                " JOIN work_workload w ON w.id = s.workspace_id WHERE s.word = 'restarted'"
            ).fetchall()
            if changed.is_set():
                until = min(until, time.time() + TOLD_WITHIN_S)
            for uid, since in sorted(rows, key=lambda row: row[1]):
                if uid in wanted and since >= begun:
                    found.setdefault(uid, float(since))
            time.sleep(0.05)
    return found


@dataclass(frozen=True)
class Churn:
    """In ms: of each change how late after its request, and how far the portal behind the watch.

    ``busy``: share of the cores' time.
    """

    ours: list[float]
    bare: list[float]
    missed: int
    busy: float

    def behind(self) -> list[float]:
        return [ours - bare for ours, bare in zip(self.ours, self.bare, strict=True)]

    def p99(self) -> str:
        ours, bare, behind = (
            percentile(one, 0.99) for one in (self.ours, self.bare, self.behind())
        )
        return f"p99 {ours:.0f} ms after the request, bare {bare:.0f} ms, behind it {behind:.0f} ms"

    def note(self) -> str:
        half = percentile(self.behind(), 0.5)
        return f"median {half:.0f} ms, the cores were busy {100 * self.busy:.0f} % of the time"


def churn(storm: Storm, pods: list[dict[str, Any]], per_second: float) -> dict[str, float]:
    """Return when each pod's deletion was asked for, by its uid."""
    asked = {}
    for pod in pods:
        begin = time.perf_counter()
        asked[pod["metadata"]["uid"]] = time.time()
        storm.delete_pod(pod)
        time.sleep(max(0.0, 1 / per_second - (time.perf_counter() - begin)))
    return asked


def cores() -> tuple[float, float]:
    """Return (ticks with something to do, all ticks) of the machine's cores so far."""
    ticks = [int(word) for word in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9]]
    return float(sum(ticks) - ticks[3] - ticks[4]), float(sum(ticks))


def freshness(storm: Storm, truth: Truth, per_second: float, count: int) -> Churn:
    ours = storm.kube.list("v1", "Pod", labelSelector=storm.ours_only)[:count]
    uids = {pod["metadata"]["labels"][UID]: pod["metadata"]["uid"] for pod in ours}
    rows: dict[str, float] = {}
    changed = threading.Event()
    begun = time.time()
    reader = threading.Thread(target=lambda: rows.update(noticed(storm, set(uids), begun, changed)))
    reader.start()
    time.sleep(0.5)
    before = cores()
    asked = churn(storm, ours, per_second)
    busy, passed = (b - a for a, b in zip(before, cores(), strict=True))
    changed.set()
    reader.join()
    told = [(rows[uid], pod) for uid, pod in uids.items() if uid in rows]
    return Churn(
        [1000 * (at - asked[pod]) for at, pod in told],
        [1000 * (truth.went[pod] - asked[pod]) for _, pod in told],
        len(uids) - len(rows),
        busy / passed,
    )


@contextlib.contextmanager
def first_in_line(roots: Iterable[int]) -> Iterator[None]:
    """Give these processes, and all that they started, precedence over the rest of the machine.

    Needs root.
    """
    processes = list(trees(roots))
    try:
        for process in processes:
            _precedence(process, FIRST)
        yield
    finally:
        for process in processes:
            _precedence(process, 0)


def _precedence(process: psutil.Process, nice: int) -> None:
    with contextlib.suppress(psutil.NoSuchProcess, ProcessLookupError):
        for thread in process.threads():
            os.setpriority(os.PRIO_PROCESS, thread.id, nice)
        grouped = Path(f"/proc/{process.pid}/autogroup")
        if grouped.exists():  # the kernel groups by session then, and the group's counts
            grouped.write_text(str(nice))


def leave_volumes_alone(storm: Storm) -> None:
    """Each is measured once a day by a Job; the first ones would all fall into these minutes."""
    import psycopg

    with psycopg.connect(storm.portal.env["BERTH_DATABASE_URL"]) as database:
        database.execute("UPDATE volumes_volume SET measure_not_before = now() + interval '1 day'")


def rounds(storm: Storm, truth: Truth) -> dict[float, Churn]:
    found: dict[float, Churn] = {}
    for per_second in (PER_SECOND, *SLOWER):
        count = CHANGED if per_second == PER_SECOND else CHANGED // 2
        found[per_second] = freshness(storm, truth, per_second, count)
        print(
            f"  {per_second}/s: {found[per_second].p99()}; {found[per_second].note()}", flush=True
        )
        poll(lambda: storm.running() >= PODS, within_s=WITHIN_S, every_s=1)
        time.sleep(10)
    return found


def run() -> list[Result]:
    cluster = the_cluster()
    storm = Storm(cluster, "bench-watch")
    truth = Truth(storm.kube, storm.ours_only)
    try:
        storm.prepare()
        leave_volumes_alone(storm)
        fill(storm, PODS)
        poll(lambda: storm.running() >= PODS, within_s=WITHIN_S, every_s=1)
        truth.start()
        time.sleep(10)
        shared = rounds(storm, truth)
        with first_in_line(storm.own_processes()):
            first = rounds(storm, truth)
        since = time.time()
        time.sleep(QUIET_S)
        lists = storm.requests(since, ("list",))
    finally:
        truth.over.set()
        storm.close()
    return [
        *(row for per_second, one in shared.items() for row in told(one, f"{per_second}/s")),
        *(
            row
            for per_second, one in first.items()
            for row in told(one, f"{per_second}/s, first in line for a core")
        ),
        Result(f"LISTs in {QUIET_S:.0f} quiet seconds", "", [float(lists)], goal=0, floor=0),
    ]


def told(found: Churn, how: str) -> list[Result]:
    what = f"a pod deleted by hand ({PODS} pods, {how})"
    ours, bare = percentile(found.ours, 0.99), percentile(found.bare, 0.99)
    return [
        Result(
            f"{what}, lag behind a bare watch, p99",
            "ms",
            [percentile(found.behind(), 0.99)],
            goal=100,
            floor=100,
            note=found.note(),
        ),
        Result(
            f"{what}, p99 beyond a bare watch's p99",
            "ms",
            [ours - bare],
            goal=100,
            floor=100,
            note=f"from the request: {ours:.0f} ms, bare {bare:.0f} ms",
        ),
        Result(f"{what}, changes missed", "", [float(found.missed)], goal=0, floor=0),
    ]
