"""Press to a job's program running in a pod, against `kubectl apply` of the same Job."""

from __future__ import annotations

import copy
import json
import secrets
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from benchmarks.cluster_start import Object, the_cluster
from benchmarks.jobs import JOBS, PLAIN, began, state
from benchmarks.lib import Result, poll, sized
from devcluster.kube import Kube
from tests.support.clustered import KEY, ClusteredPortal

WITHIN_S = 120.0
_KEPT = ("labels", "annotations", "namespace")
_OF_ONE = ("controller-uid", "job-name")  # what the cluster adds to the labels of each Job


def press(api: httpx.Client, image: str) -> tuple[float, str]:
    """Return (seconds from the request to the moment that the program says, the job's uid)."""
    body = {
        "cluster": KEY,
        "image": image,
        "command": ["python3", "-c", PLAIN],
        "cpu_milli": 200,
        "memory_mib": 256,
    }
    begin = time.time()
    made = api.post(JOBS, json=body)
    assert made.is_success, made.text
    job = made.json()["id"]
    poll(lambda: state(api, job) == "succeeded", within_s=WITHIN_S, every_s=0.05)
    text = api.get(f"{JOBS}/{job}/logs").raise_for_status().json()["text"]
    return began(text) - begin, str(made.json()["uid"])


class Bare:
    """``kubectl apply -f`` of the same Job, as a person without a portal does it."""

    def __init__(self, cluster: Mapping[str, Any], uid: str) -> None:
        self.kube = Kube(Path(cluster["kubeconfig"]))
        self._kubectl = [cluster["programs"]["kubectl"], "--kubeconfig", cluster["kubeconfig"]]
        (self._made,) = self.kube.list("batch/v1", "Job", labelSelector=f"berth.dev/uid={uid}")

    def start(self) -> float:
        name = f"bare-{secrets.token_hex(4)}"
        made = self._copy(name)
        space = made["metadata"]["namespace"]
        begin = time.time()
        done = subprocess.run(
            [*self._kubectl, "apply", "--validate=false", "-f", "-"],
            input=json.dumps(made),
            text=True,
            check=False,
            capture_output=True,
        )
        assert done.returncode == 0, done.stderr
        poll(lambda: self._is_over(name, space), within_s=WITHIN_S, every_s=0.05)
        said = subprocess.run(
            [*self._kubectl, "logs", "-n", space, f"job/{name}"],
            text=True,
            check=True,
            capture_output=True,
        )
        self.kube.delete("batch/v1", "Job", name, space)
        return began(said.stdout) - begin

    def _is_over(self, name: str, space: str) -> bool:
        found = self.kube.get("batch/v1", "Job", name, space) or {}
        return bool((found.get("status") or {}).get("succeeded"))

    def _copy(self, name: str) -> Object:
        """Return it again under another name; the portal must not take it for its own."""
        made = {"apiVersion": "batch/v1", "kind": "Job", **copy.deepcopy(dict(self._made))}
        made.pop("status", None)
        made["metadata"] = {k: v for k, v in made["metadata"].items() if k in _KEPT}
        made["metadata"]["name"] = name
        made["spec"].pop("selector", None)
        for labels in (made["metadata"]["labels"], made["spec"]["template"]["metadata"]["labels"]):
            for label in [x for x in labels if x.endswith(_OF_ONE) or x == "berth.dev/managed"]:
                del labels[label]
            labels["berth.dev/uid"] = name
        return made


def run(rounds: int = sized(9, 1)) -> list[Result]:
    cluster = the_cluster()
    portal = ClusteredPortal(cluster, "bench-jobs-")
    ours: list[float] = []
    peer: list[float] = []
    try:
        portal.start()
        api = portal.api(portal.token("admin"))
        image = cluster["images"]["tool"]["reference"]
        _, uid = press(api, image)
        bare = Bare(cluster, uid)
        bare.start()
        for number in range(rounds):
            if number % 2:
                peer.append(bare.start())
            ours.append(press(api, image)[0])
            if not number % 2:
                peer.append(bare.start())
    finally:
        portal.close()
    what = "press to a job's program in a pod"
    return [Result(what, "s", ours, peer, "kubectl apply, same Job", 1.1, 1.25)]
