"""The replay on simulated nodes with the real Kueue: guarantees with sharing, and each apart.

A busy part of the sample's first day, without its longest jobs, compressed in time: so far only
that Kueue keeps up with it. Every job is a Job of its own pod; a watch tells when it is let in and
when it is over. The queues are those that Berth writes for the tree; *apart* they lend nothing,
borrow nothing and keep to who came first. Both are played at once, so that they find the same
machine; each has simulated devices enough of its own. What is asked back begins again: simulated
programs keep no checkpoints.
"""

from __future__ import annotations

import os
import secrets
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import httpx

from benchmarks.cluster_start import the_cluster
from benchmarks.lib import Result, percentile, poll, sized
from benchmarks.replay import Played, guaranteed
from benchmarks.traces import CAPACITY, SAMPLE, TraceJob, read
from devcluster.fleet import FAKE, RUN_TIME
from devcluster.kube import Kube, KubeError
from devcluster.kueue import MANAGED
from runtime.capabilities.queues import QueueKind, QueuePart, QueueShare, QueueTree
from runtime.drivers.kubernetes.builders import queues
from runtime.drivers.kubernetes.builders.pod_fields import DEVICES
from runtime.drivers.kubernetes.options import KubernetesOptions

JOBS = int(os.environ.get("BERTH_REPLAY_JOBS", sized("200", "12")))
TIMES = float(os.environ.get("BERTH_REPLAY_TIMES", sized("60", "6000")))
FIRST, LONGEST_S = 100, 4 * 3600.0
WITHIN_S = 900.0
GPU, PRODUCT = "nvidia.com/gpu", "nvidia.com/gpu.product"
PRODUCTS = {"h100": "NVIDIA-H100-80GB-HBM3", "a100": "NVIDIA-A100-SXM4-40GB"}
BATCH = "batch/v1"


class Town:
    """The tenants' namespaces and queues."""

    def __init__(self, kube: Kube, has: dict[str, dict[str, int]], *, apart: bool) -> None:
        self.kube, self.prefix = kube, f"replay-{secrets.token_hex(2)}-"
        self.label = f"berth.dev/instance={self.prefix.strip('-')}"
        shares = {
            tenant: {
                kind: QueueShare(n, most=n if apart else None, lends=0 if apart else None)
                for kind, n in own.items()
            }
            for tenant, own in has.items()
        }
        tree = QueueTree(
            tuple(
                QueuePart(t, t, "", self.space(t), Decimal(1), share) for t, share in shares.items()
            ),
            tuple(
                QueueKind(
                    kind,
                    GPU,
                    {PRODUCT: PRODUCTS[kind]},
                    n,
                    beside={"cpu": n * 1000, "memory": n * 1024},
                )
                for kind, n in CAPACITY.items()
            ),
            plain={"cpu": 1000, "memory": 1024},
        )
        options = KubernetesOptions(namespace_prefix=self.prefix, manages_queues=True)
        self.objects = queues.objects(tree, options)
        for item in self.objects:
            if apart and item["kind"] == "ClusterQueue":
                item["spec"]["queueingStrategy"] = "StrictFIFO"
        self.tenants = list(has)

    def space(self, tenant: str) -> str:
        return f"{self.prefix}{tenant}"

    def build(self) -> None:
        for tenant in self.tenants:
            meta = {"name": self.space(tenant), "labels": {"berth.dev/test": "true", **MANAGED}}
            self.kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
        for item in self.objects:
            self.kube.apply(item)

    def end(self) -> None:
        for tenant in self.tenants:
            self.kube.delete("v1", "Namespace", self.space(tenant))
        left = [i for i in reversed(self.objects) if i["kind"] != "LocalQueue"]
        for item in left:
            self.kube.delete(item["apiVersion"], item["kind"], item["metadata"]["name"])
        gone = [(i["kind"], i["metadata"]["name"]) for i in left if i["kind"] == "ClusterQueue"]
        poll(
            lambda: not any(self.kube.get(queues.VERSION, *one) for one in gone),
            within_s=WITHIN_S,
            every_s=1,
        )

    def job(self, number: int, job: TraceJob) -> dict[str, Any]:
        seconds = max(1, round(job.duration_s / TIMES))
        amounts = {"cpu": "100m", "memory": "64Mi", GPU: str(job.gpus)}
        wanted = {"key": PRODUCT, "operator": "In", "values": [PRODUCTS[k] for k in job.kinds]}
        term = {"nodeSelectorTerms": [{"matchExpressions": [wanted]}]}
        every = {"operator": "Exists", "effect": "NoSchedule"}
        pod = {
            "restartPolicy": "Never",
            "tolerations": [{"key": FAKE, **every}, {"key": DEVICES, **every}],
            "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": term}},
            "containers": [
                {
                    "name": "work",
                    "image": "none",
                    "resources": {"requests": amounts, "limits": amounts},
                }
            ],
        }
        meta = {"name": f"job-{number}", "namespace": self.space(job.tenant)}
        labels = {"replay": self.prefix.strip("-"), "kueue.x-k8s.io/queue-name": queues.LOCAL}
        return {
            "apiVersion": BATCH,
            "kind": "Job",
            "metadata": {**meta, "labels": labels},
            "spec": {
                "suspend": True,
                "backoffLimit": 0,
                "template": {"metadata": {"annotations": {RUN_TIME: f"{seconds}s"}}, "spec": pod},
            },
        }


class Looker:
    """What a watch of the jobs tells, by their numbers, as it comes."""

    def __init__(self, kube: Kube, town: Town) -> None:
        self._kube, self._town = kube, town
        self.began: dict[int, float] = {}  # the first time
        self.since: dict[int, float] = {}  # those that hold GPUs now
        self.used_s = 0.0
        self.over: dict[int, float] = {}
        self.sizes: dict[int, int] = {}
        self.reclaims = 0
        self.ended = threading.Event()
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        selected = {"labelSelector": f"replay={self._town.prefix.strip('-')}"}
        while not self.ended.is_set():
            try:
                found = self._kube.request("GET", f"/apis/{BATCH}/jobs", params=selected)
                for job in found["items"]:
                    self._take(job)
                version = found["metadata"]["resourceVersion"]
                for event in self._kube.watch(f"/apis/{BATCH}/jobs", version, 60, **selected):
                    if event["type"] in {"ADDED", "MODIFIED"}:
                        self._take(event["object"])
            except (httpx.HTTPError, KubeError):
                time.sleep(0.05)

    def _take(self, job: dict[str, Any]) -> None:
        at, number = time.monotonic(), int(job["metadata"]["name"].removeprefix("job-"))
        done = any(
            c["type"] in {"Complete", "Failed"} and c["status"] == "True"
            for c in job.get("status", {}).get("conditions", [])
        )
        holds = not job["spec"].get("suspend") and not done
        if holds and number not in self.since:
            self.began.setdefault(number, at)
            self.since[number] = at
        if not holds and number in self.since:
            self.used_s += (at - self.since.pop(number)) * self.sizes[number]
            self.reclaims += not done
        if done:
            self.over.setdefault(number, at)


def played(jobs: list[TraceJob], *, apart: bool) -> tuple[Played, float]:
    """Return what became of them, in the time of the trace, and how late the last was submitted."""
    kube = Kube(Path(the_cluster()["kubeconfig"]), timeout_s=60)
    town = Town(kube, guaranteed(jobs, CAPACITY), apart=apart)
    town.build()
    looker = Looker(Kube(Path(the_cluster()["kubeconfig"]), timeout_s=60), town)
    asked: dict[int, float] = {}
    try:
        begin = time.monotonic() + 2
        for number, job in enumerate(jobs):
            looker.sizes[number] = job.gpus
            time.sleep(max(0.0, begin + job.submit_s / TIMES - time.monotonic()))
            asked[number] = time.monotonic()
            kube.create(town.job(number, job))
        late = time.monotonic() - begin - jobs[-1].submit_s / TIMES
        poll(lambda: len(looker.over) == len(jobs), within_s=WITHIN_S, every_s=0.5)
    finally:
        looker.ended.set()
        town.end()
        kube.close()
    found = Played(CAPACITY, jobs, held_idle_s=None)  # of which kind each got is not looked up
    found.waited = {n: max(0.0, looker.began[n] - asked[n]) * TIMES for n in asked}
    found.used_s = looker.used_s * TIMES
    found.ended_s = (max(looker.over.values()) - begin) * TIMES
    found.reclaims = looker.reclaims
    return found, late


def run() -> list[Result]:
    busy = [job for job in read(SAMPLE) if job.duration_s <= LONGEST_S][FIRST : FIRST + JOBS]
    begin = busy[0].submit_s
    jobs = [replace(j, tenant=j.tenant.lower(), submit_s=j.submit_s - begin) for j in busy]
    with ThreadPoolExecutor(2) as pool:
        both = [pool.submit(played, jobs, apart=apart) for apart in (False, True)]
    (ours, late), (peer, late_apart) = (one.result() for one in both)
    for name, one in (("shared", ours), ("apart", peer)):
        print(one.line(name), flush=True)
    note = f"{ours.line('shared')}; {peer.line('apart')}"
    note += f"; {TIMES:.0f} times as fast, submitted at most {max(late, late_apart):.1f} s late"
    p99 = [percentile(list(one.waited.values()), 0.99) / 60 for one in (ours, peer)]
    return [
        Result(
            f"{JOBS} jobs of {SAMPLE.stem} with Kueue on {sum(CAPACITY.values())} simulated GPUs,"
            " wait p99",
            "min",
            p99[:1],
            p99[1:],
            "Kueue, each tenant on GPUs of its own, first come, first served",
            0.5,
            1.0,
            note=note,
        )
    ]


if __name__ == "__main__":
    for result in run():
        print(result.line())
