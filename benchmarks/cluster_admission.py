"""How fast Kueue lets in what the portal makes, against a bare client with the same objects.

The queues are those that Berth keeps in Kueue; every launch asks for one simulated GPU, and there
are enough. From the first request until the last Workload is admitted, as Kueue says.
"""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from benchmarks.cluster_start import the_cluster
from benchmarks.cluster_storm import LAUNCHES, PROJECTS, WITHIN_S, Storm
from benchmarks.lib import Result, poll, sized
from devcluster.kube import Kube
from runtime.drivers.kubernetes.builders.queues import VERSION
from tests.support.clustered import ok

ROUNDS = sized(3, 1)
GPUS = 171  # of the simulated fleet; each project's first launch has one, too
NAME = "bench-admission"


class Admission(Storm):
    count = min(LAUNCHES, GPUS - PROJECTS - 1)
    size = {"cpu_milli": 100, "memory_mib": 256, "gpus": 1}

    def __init__(self, cluster: dict[str, Any]) -> None:
        super().__init__(cluster, NAME, manages_queues=True)
        self.asked_s: list[float] = []  # until the portal had answered all of a round

    def admitted(self, *, bare: bool) -> int:
        """Count the Workloads that Kueue let in."""
        return sum(
            1
            for item in self.kube.list(VERSION, "Workload")
            if item["metadata"]["namespace"].startswith(f"{NAME}-")
            and _owner(item).startswith("ws-bare-") == bare
            and any(
                c["type"] == "Admitted" and c["status"] == "True"
                for c in item.get("status", {}).get("conditions", [])
            )
        )

    def ours(self) -> float:
        there = self.admitted(bare=False)
        begin = time.perf_counter()
        made = self.launch(self.count)
        self.asked_s.append(time.perf_counter() - begin)
        wanted = there + self.count
        poll(lambda: self.admitted(bare=False) >= wanted, within_s=WITHIN_S, every_s=0.25)
        seconds = time.perf_counter() - begin
        for number, short_id in enumerate(made):
            slug, api = self.people[number % len(self.people)]
            ok(api.delete(f"projects/{slug}/workspaces/{short_id}"))
        poll(lambda: self.admitted(bare=False) <= there, within_s=WITHIN_S, every_s=1)
        return seconds

    def _bare_ready(self) -> int:
        return self.admitted(bare=True)

    def close(self) -> None:
        super().close()
        kube = Kube(Path(self.cluster["kubeconfig"]))
        label = f"berth.dev/instance={NAME},berth.dev/kind=queue"
        for kind in ("ClusterQueue", "Cohort", "ResourceFlavor", "WorkloadPriorityClass"):
            for found in kube.list(VERSION, kind, labelSelector=label):
                kube.delete(VERSION, kind, found["metadata"]["name"])
        kube.close()


def _owner(item: dict[str, Any]) -> str:
    owners = item["metadata"].get("ownerReferences") or [{}]
    return str(owners[0].get("name", ""))


def run() -> list[Result]:
    storm = Admission(the_cluster())
    try:
        storm.prepare()
        rounds = [(storm.bare(), storm.ours()) for _round in range(ROUNDS)]
    finally:
        storm.close()
    return [
        Result(
            f"{storm.count} launches of {PROJECTS} projects let in by Kueue, launches/s",
            "launches/s",
            [storm.count / ours for _bare, ours in rounds],
            [storm.count / bare for bare, _ours in rounds],
            "bare client, same objects and queues",
            0.9,
            0.5,
            "higher",
            note=f"all asked for within {max(storm.asked_s):.1f} s",
        )
    ]


if __name__ == "__main__":
    for result in run():
        print(result.line())
