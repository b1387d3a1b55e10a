"""How soon the portal knows: pods deleted by hand at 20 a second, against a bare watch.

The bare watch and the portal's database are read in this process with one clock. Then the
portal is left alone, and what it asks the API server meanwhile is counted.
"""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Any

from benchmarks.cluster_storm import Storm
from benchmarks.lib import Result, percentile, poll
from devcluster import state
from devcluster.kube import Kube
from devcluster.layout import Layout

PODS = 200
PER_SECOND = 20
QUIET_S = 120.0
WITHIN_S = 300.0


@dataclass
class Watched:
    """When a bare watch saw each StatefulSet's pod go, by the workload's uid."""

    kube: Kube
    seen: dict[str, float] = field(default_factory=dict)
    over: bool = False

    def follow(self, version: str) -> None:
        for event in self.kube.watch("/api/v1/pods", version, timeout_s=240):
            if self.over:
                return
            meta = event["object"]["metadata"]
            uid = (meta.get("labels") or {}).get("berth.dev/uid", "")
            if uid and meta.get("deletionTimestamp"):
                self.seen.setdefault(uid, time.time())


def noticed(storm: Storm, wanted: set[str], until: float) -> dict[str, float]:
    """Return when the row of each uid said that it is not running any more."""
    import psycopg

    found: dict[str, float] = {}
    with psycopg.connect(storm.portal.env["BERTH_DATABASE_URL"], autocommit=True) as database:
        while len(found) < len(wanted) and time.time() < until:
            rows = database.execute(
                "SELECT uid::text, extract(epoch FROM phase_since) FROM notebooks_workspace"
                " WHERE phase = 'starting' AND deleted_at IS NULL"
            ).fetchall()
            for uid, since in rows:
                if uid in wanted:
                    found.setdefault(uid, float(since))
            time.sleep(0.02)
    return found


def churn(storm: Storm, pods: list[dict[str, Any]]) -> None:
    for pod in pods:
        begin = time.perf_counter()
        storm.delete_pod(pod)
        time.sleep(max(0.0, 1 / PER_SECOND - (time.perf_counter() - begin)))


def freshness(storm: Storm) -> tuple[list[float], int]:
    """Return the portal's lag behind the bare watch in ms, and how many changes it missed."""
    ours = storm.kube.list("v1", "Pod", labelSelector="berth.dev/instance=bench-storm")[:PODS]
    uids = {pod["metadata"]["labels"]["berth.dev/uid"] for pod in ours}
    version = storm.kube.request("GET", "/api/v1/pods?limit=1")["metadata"]["resourceVersion"]
    bare = Watched(storm.kube)
    threading.Thread(target=bare.follow, args=(version,), daemon=True).start()
    rows: dict[str, float] = {}
    until = time.time() + PODS / PER_SECOND + 30
    reader = threading.Thread(target=lambda: rows.update(noticed(storm, uids, until)))
    reader.start()
    time.sleep(0.5)
    churn(storm, ours)
    reader.join()
    bare.over = True
    lags = [1000 * (rows[uid] - at) for uid, at in bare.seen.items() if uid in rows]
    return lags, len(uids) - len(rows)


def run() -> list[Result]:
    cluster = state.read(Layout.usual())
    if cluster is None:
        message = "There is no cluster; `make cluster-up` makes one."
        raise SystemExit(message)
    storm = Storm(cluster)
    try:
        storm.prepare()
        storm.launch(max(0, PODS - len(storm.first)))
        poll(lambda: storm.running() >= PODS, within_s=WITHIN_S, every_s=1)
        lags, missed = freshness(storm)
        poll(lambda: storm.running() >= PODS, within_s=WITHIN_S, every_s=1)
        time.sleep(10)
        since = time.time()
        time.sleep(QUIET_S)
        lists = storm.requests(since, ("list",))
    finally:
        storm.close()
    what = f"a pod deleted by hand ({PODS} pods, {PER_SECOND}/s)"
    return [
        Result(
            f"{what}, lag behind a bare watch, p99",
            "ms",
            [percentile(lags, 0.99)],
            goal=100,
            floor=100,
        ),
        Result(f"{what}, changes missed", "", [float(missed)], goal=0, floor=0),
        Result(f"LISTs in {QUIET_S:.0f} quiet seconds", "", [float(lists)], goal=0, floor=0),
    ]
