"""How soon all rows are right after a fault: the API server gone for a minute, the worker killed.

What changes is pods deleted by a bare client: in the moment the API server is back, or while
nobody watches. A row is right when it says what a bare watch says: running in the very pod that
is ready, or not running. One whose pod was deleted counts only after the bare watch has seen it go.
"""

from __future__ import annotations

import concurrent.futures
import contextlib
import os
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.cluster_rows import Rows, Truth, fill, room
from benchmarks.cluster_start import the_cluster
from benchmarks.cluster_storm import AT_ONCE, Storm
from benchmarks.lib import Result, poll, sized
from devcluster.layout import Layout
from devcluster.processes import Processes

ROWS = int(os.environ.get("BERTH_OUTAGE_ROWS", sized("2000", "6")))
# Each costs Kubernetes 0.2 s of CPU, which one small machine has not in the same seconds.
CHANGED = int(os.environ.get("BERTH_OUTAGE_CHANGED", sized("10", "2")))
AWAY_S = float(os.environ.get("BERTH_OUTAGE_SECONDS", sized("60", "5")))
WITHIN_S = float(os.environ.get("BERTH_OUTAGE_WITHIN_S", "1800"))
RIGHT_WITHIN_S = 90.0
API = "kube-apiserver"
# Here they have no lease to lose; where they have one they end with it and begin anew.
LEASED = ("kube-controller-manager", "kube-scheduler")


@dataclass
class Found:
    """Seconds from the return to the last right row, and how many never came right.

    ``bare``: seconds until a bare client had its one list, where it needed one.
    """

    seconds: float
    wrong: int
    bare: float


def right_after(storm: Storm, truth: Truth, rows: Rows, fault: Callable[[], None]) -> Found:
    changed = {uid: pod for uid, (pod, _ready) in list(truth.pods.items())[:CHANGED]}
    pods = [p for p in _pods(storm) if p["metadata"]["uid"] in changed.values()]
    left = set(truth.pods)
    fault()
    back = last = time.time()
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        changing = [pool.submit(storm.delete_pod, pod) for pod in pods]
        while left and time.time() < back + RIGHT_WITHIN_S:
            rows.read()
            unseen = {uid for uid, pod in changed.items() if pod not in truth.went}
            if right := {uid for uid in left - unseen if rows.agrees(uid, truth)}:
                left, last = left - right, time.time()
            time.sleep(0.1)
        for one in changing:
            one.result()
    return Found(last - back, len(left), max(0.0, truth.listed_at - back))


def _pods(storm: Storm) -> list[dict[str, dict[str, str]]]:
    return storm.kube.list("v1", "Pod", labelSelector=storm.ours_only)


def api_server_away(storm: Storm) -> None:
    processes = Processes(Layout.usual())
    commands = {name: processes.records[name].command for name in (API, *LEASED)}
    processes.stop(API, timeout_s=1)  # it would be away all the while that it waits for watches
    for name in LEASED:
        processes.stop(name, timeout_s=1)
    time.sleep(AWAY_S)
    for name, command in commands.items():
        processes.start(name, command)
    poll(storm.kube.ready, within_s=WITHIN_S, every_s=0.05)


def worker_killed(storm: Storm) -> None:
    """``berth up`` starts it again; what happens until then nobody sees."""
    above = storm.portal.process
    listed = subprocess.run(
        ["ps", "-o", "pid=,args=", "--ppid", str(above.pid if above else 0)],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    (pid,) = [
        int(line.split()[0]) for line in listed.splitlines() if "portal.server.worker" in line
    ]
    os.kill(pid, signal.SIGKILL)


def settled(truth: Truth, rows: Rows) -> None:
    def all_run() -> bool:
        rows.read()
        ready = [uid for uid, (_pod, is_ready) in list(truth.pods.items()) if is_ready]
        return len(ready) >= ROWS and all(rows.agrees(uid, truth) for uid in ready)

    poll(all_run, within_s=WITHIN_S, every_s=1)
    time.sleep(5)


def faults(storm: Storm) -> tuple[Found, Found]:
    """Return what was found after the worker was killed, and after the API server was away."""
    truth = Truth(storm.kube, storm.ours_only)
    try:
        storm.prepare()
        fill(storm, ROWS)
        rows = Rows(storm)
        truth.start()
        settled(truth, rows)
        killed = right_after(storm, truth, rows, lambda: worker_killed(storm))
        print(f"  the worker was killed: {killed}", flush=True)
        settled(truth, rows)
        # last: the simulated nodes were away too, and their pods stay "not ready" afterwards
        away = right_after(storm, truth, rows, lambda: api_server_away(storm))
        print(f"  the API server was away: {away}", flush=True)
        rows.close()
        return killed, away
    finally:
        truth.over.set()


def run() -> list[Result]:
    cluster = the_cluster()
    storm = Storm(cluster, "bench-outage")
    with contextlib.closing(storm), room(storm.kube, ROWS):
        killed, away = faults(storm)
    return [
        Result(
            f"the API server is back after {AWAY_S:.0f} s: {ROWS} rows right again",
            "s",
            [away.seconds],
            goal=5,
            floor=10,
        ),
        Result(
            f"the worker is killed: {ROWS} rows right again",
            "s",
            [killed.seconds],
            goal=5,
            floor=10,
        ),
        Result(
            "rows that stayed wrong after these faults",
            "",
            [float(killed.wrong + away.wrong)],
            goal=0,
            floor=0,
        ),
    ]
