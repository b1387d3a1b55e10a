"""C12 through the front door: fifty press at once for the last GPU of a real node.

The rule: what a project's limit has room for is taken up, and of these only as many run as there
are GPUs; the others wait and say so; the rest is refused by the limit. A bare watch of the pods is
the judge: played again from its beginning, at no instant was more asked for or held.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from devcluster.kube import Kube, KubeError
from tests.cluster.visitors import BASE, Person, portal_of_people, until
from tests.support.clustered import KEY, ClusteredPortal, ok

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.real,
    pytest.mark.timeout(600),
    pytest.mark.long("fifty launches at once; the race itself: quotas/test_c12_last_gpu.py"),
]
GPUS = "nvidia.com/gpu"
AT_ONCE, WAITING = 50, 3
OVER = {"Succeeded", "Failed"}
WAIT = ["bash", "-c", "trap 'exit 0' TERM; sleep 3600 & wait"]


@pytest.fixture(scope="module")
def portal(devcluster: dict[str, Any]) -> Iterator[ClusteredPortal]:
    with portal_of_people(devcluster, "last") as running:
        with running.api(running.token("admin")) as admin:
            pool = {"name": "real", "node_labels": {"kubernetes.io/hostname": devcluster["node"]}}
            ok(admin.post(f"clusters/{KEY}/pools", json=pool))
        yield running


@pytest.fixture
def there(kube: Kube, devcluster: dict[str, Any]) -> int:
    """How many GPUs the node has for all."""
    node = kube.get("v1", "Node", devcluster["node"])
    assert node is not None
    return int(node["status"]["allocatable"][GPUS])


class Judge(threading.Thread):
    """All that a bare client is told of a portal's pods, in the API server's own order."""

    def __init__(self, portal: ClusteredPortal) -> None:
        super().__init__(daemon=True)
        self.selector = f"berth.dev/instance={portal.prefix.strip('-')}"
        self.kube = Kube(Path(portal.state["kubeconfig"]))
        self.over = threading.Event()
        selected = {"labelSelector": self.selector}
        found = self.kube.request("GET", "/api/v1/pods", params=selected)
        self.told: list[tuple[str, dict[str, Any]]] = [("ADDED", pod) for pod in found["items"]]
        self.version = found["metadata"]["resourceVersion"]

    def run(self) -> None:
        while not self.over.is_set():
            with suppress(httpx.HTTPError, KubeError):  # it goes on from where it was
                self._follow()
        self.kube.close()

    def _follow(self) -> None:
        selected = {"labelSelector": self.selector}
        for event in self.kube.watch("/api/v1/pods", self.version, timeout_s=20, **selected):
            assert event["type"] != "ERROR", event
            self.version = event["object"]["metadata"]["resourceVersion"]
            if event["type"] != "BOOKMARK":
                self.told.append((event["type"], event["object"]))

    def instants(self) -> Iterator[tuple[int, int]]:
        """After each thing told: how many GPUs all pods ask for, and how many are held on nodes."""
        pods: dict[str, tuple[int, int]] = {}
        for kind, pod in list(self.told):
            asked = asked_by(pod)
            gone = kind == "DELETED" or pod["status"].get("phase") in OVER
            held = asked if "nodeName" in pod["spec"] else 0
            pods[pod["metadata"]["uid"]] = (0, 0) if gone else (asked, held)
            yield sum(a for a, _ in pods.values()), sum(h for _, h in pods.values())


def asked_by(pod: dict[str, Any]) -> int:
    found = (c["resources"].get("requests", {}) for c in pod["spec"]["containers"])
    return sum(int(one.get(GPUS, 0)) for one in found)


@pytest.fixture
def judge(portal: ClusteredPortal) -> Iterator[Judge]:
    made = Judge(portal)
    made.start()
    yield made
    made.over.set()


def body(person: Person, name: str, gpus: int = 1) -> dict[str, Any]:
    return {
        "kind": "container",
        "cluster": KEY,
        "name": name,
        "image": person.portal.state["images"]["tool"]["reference"],
        "command": WAIT,
        "gpus": gpus,
        "pool": "real",
        "cpu_milli": 100,
        "memory_mib": 256,
    }


def at_once(person: Person, word: str) -> list[dict[str, Any]]:
    """Return what was taken up of so many creates in one moment; all others are the limit's."""
    barrier = threading.Barrier(AT_ONCE)

    def press(number: int) -> httpx.Response:
        barrier.wait()
        return person.api.post(BASE, json=body(person, f"{word}-{number}"))

    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = list(pool.map(press, range(AT_ONCE)))
    refused = [one for one in answers if one.status_code != 202]
    told = Counter((one.status_code, one.json()["code"]) for one in refused)
    assert set(told) <= {(409, "limit-exceeded")}, told
    return [one.json() for one in answers if one.status_code == 202]


def states(person: Person, rows: list[dict[str, Any]]) -> list[tuple[str, str]]:
    found = [ok(person.api.get(f"{BASE}/{row['id']}")).json()["status"] for row in rows]
    return sorted((one["phase"], one["reason"]) for one in found)


def runs(person: Person, rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    phases = [(ok(person.api.get(f"{BASE}/{row['id']}")).json()["status"]["phase"]) for row in rows]
    return [row for row, phase in zip(rows, phases, strict=True) if phase == "running"]


def test_c12_fifty_creates_at_once_for_the_last_gpu_give_it_to_one_and_never_more_is_held(
    portal: ClusteredPortal, ann: Person, there: int, judge: Judge
) -> None:
    limit = there + WAITING
    with portal.api(portal.token("admin")) as admin:
        ok(admin.put("quotas/projects/demo", json={"gpus": limit}))
    first = ann.launch(**body(ann, "holds", gpus=there - 1))

    taken = at_once(ann, "press")
    assert len(taken) == 1 + WAITING
    wanted = [("pending", "nodes-full")] * WAITING + [("running", "")]
    until(lambda: states(ann, taken) == wanted)

    (winner,) = runs(ann, taken)
    ok(ann.api.delete(f"{BASE}/{winner['id']}"))
    left = [row for row in taken if row["id"] != winner["id"]]
    # its place in the limit is free once its pod is gone, and there is one of it again
    again = list(until(lambda: at_once(ann, "again")))
    assert len(again) == 1
    until(lambda: len(runs(ann, [*left, *again])) == 1)

    for row in (first, *left, *again):
        ok(ann.api.delete(f"{BASE}/{row['id']}"))
    until(lambda: list(judge.instants())[-1] == (0, 0))
    asked, held = (max(numbers) for numbers in zip(*judge.instants(), strict=True))
    assert (asked, held) == (limit, there)
