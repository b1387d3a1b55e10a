"""How soon all rows are right after a fault: the API server gone for a minute, the worker killed.

What changes is pods deleted by a bare client: in the moment the API server is back, or while
nobody watches. A row is right when it says that its workspace is starting again.
"""

from __future__ import annotations

import concurrent.futures
import os
import signal
import subprocess
import time
from collections.abc import Callable
from typing import Any

from benchmarks.cluster_storm import AT_ONCE, Storm
from benchmarks.cluster_watch import noticed
from benchmarks.lib import Result, poll
from devcluster import state
from devcluster.layout import Layout
from devcluster.processes import Processes

ROWS = int(os.environ.get("BERTH_OUTAGE_ROWS", "1000"))
CHANGED = 100
AWAY_S = float(os.environ.get("BERTH_OUTAGE_SECONDS", "60"))
WITHIN_S = 540.0
API = "kube-apiserver"


def pods(storm: Storm) -> list[dict[str, Any]]:
    return storm.kube.list("v1", "Pod", labelSelector="berth.dev/instance=bench-storm")


def right_after(storm: Storm, fault: Callable[[], None]) -> tuple[float, int]:
    """Seconds from the end of ``fault`` to the last right row, and how many never came right."""
    chosen = pods(storm)[:CHANGED]
    uids = {pod["metadata"]["labels"]["berth.dev/uid"] for pod in chosen}
    fault()
    back = time.time()
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        changing = [pool.submit(storm.delete_pod, pod) for pod in chosen]
        rows = noticed(storm, uids, back + 60)
        for one in changing:
            one.result()
    return max(rows.values(), default=back + 60) - back, len(uids) - len(rows)


def api_server_away() -> None:
    layout = Layout.usual()
    processes = Processes(layout)
    command = processes.records[API].command
    processes.stop(API, timeout_s=60)
    time.sleep(AWAY_S)
    processes.start(API, command)


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


def settled(storm: Storm) -> None:
    poll(lambda: storm.running() >= ROWS, within_s=WITHIN_S, every_s=1)
    time.sleep(5)


def run() -> list[Result]:
    cluster = state.read(Layout.usual())
    if cluster is None:
        message = "There is no cluster; `make cluster-up` makes one."
        raise SystemExit(message)
    storm = Storm(cluster)

    def away() -> None:
        api_server_away()
        poll(storm.kube.ready, within_s=WITHIN_S, every_s=0.05)

    try:
        storm.prepare()
        storm.launch(max(0, ROWS - len(storm.first)))
        settled(storm)
        killed, lost = right_after(storm, lambda: worker_killed(storm))
        settled(storm)
        gone, missed = right_after(storm, away)
    finally:
        storm.close()
    return [
        Result(
            f"the API server is back after {AWAY_S:.0f} s: {ROWS} rows right again",
            "s",
            [gone],
            goal=5,
            floor=10,
        ),
        Result(f"the worker is killed: {ROWS} rows right again", "s", [killed], goal=5, floor=10),
        Result(
            "rows that stayed wrong after these faults", "", [float(lost + missed)], goal=0, floor=0
        ),
    ]
