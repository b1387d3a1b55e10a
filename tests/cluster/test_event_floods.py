"""C11: ten thousand events about one tenant's pod are bounded in memory and delay no other tenant."""

from __future__ import annotations

import itertools
import math
import statistics
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Self

import httpx
import pytest

from devcluster.kube import Kube, KubeError
from gate import rpc
from runtime.drivers.kubernetes import names
from runtime.protocol import DriverError, Seen
from runtime.spec import Probe
from tests.drivers.kubernetes.harness import RESTRICTED, Ground, _no_sign_ins, ground_of, wait_for
from tests.drivers.kubernetes.test_on_a_cluster import removed, told
from tests.drivers.kubernetes.test_watch import Follower

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.timeout(900),
    pytest.mark.long(
        "a flood; the bound: drivers/kubernetes/test_world.py and test_recent_events.py"
    ),
]
EVENTS, WRITERS = 10_000, 4
MORE = range(EVENTS, EVENTS + 2_500)  # where a pause in the wrong place spoilt the first measure
KEPT = 8
TOLD_WITHIN_S = 1.0  # what is true in the cluster is known to Berth
ANSWERS_S = 5.0  # then the page says that the cluster did not answer in time
TRIES = 3  # two cores, and the flood itself is made on them
LONG = "x" * 2_000


@pytest.fixture
def ground() -> Iterator[Ground]:
    made = ground_of()
    yield made
    made.close()


@pytest.fixture
def follower(ground: Ground) -> Iterator[Follower]:
    made = Follower(ground.driver)
    yield made
    made._over.set()
    made._thread.join(60)


@pytest.fixture
def elsewhere(ground: Ground) -> Iterator[str]:
    """Another tenant's namespace."""
    name = f"{ground.namespace}y"
    labels = {"berth.dev/test": "true", **RESTRICTED}
    meta = {"name": name, "labels": labels}
    ground.kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
    ground.kube.until(
        "service account", lambda: ground.kube.get("v1", "ServiceAccount", "default", name)
    )
    ground.kube.apply(_no_sign_ins(name))
    yield name
    ground.kube.delete("v1", "Namespace", name)


class Flood:
    """Events about one pod, written as fast as the API server takes them."""

    def __init__(self, ground: Ground, pod: dict[str, Any], numbers: range) -> None:
        self.ground, self.pod, self.numbers = ground, pod, numbers
        self.made, self.problems = 0, list[Exception]()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._thread.join()

    @property
    def is_on(self) -> bool:
        return self._thread.is_alive()

    def _run(self) -> None:
        with ThreadPoolExecutor(WRITERS) as pool:
            list(pool.map(self._write, range(WRITERS)))

    def _write(self, writer: int) -> None:
        kube = Kube(Path(self.ground.state["kubeconfig"]))
        try:
            for number in self.numbers[writer::WRITERS]:
                make(kube, self._event(number))
                self.made += 1
        except Exception as problem:  # noqa: BLE001 - judged by the test
            self.problems.append(problem)
        finally:
            kube.close()

    def _event(self, number: int) -> dict[str, Any]:
        meta, at = self.pod["metadata"], datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        about = {"apiVersion": "v1", "kind": "Pod", "uid": meta["uid"]}
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {
                "name": f"{meta['name']}.{number:08x}",
                "namespace": meta["namespace"],
            },
            "involvedObject": {
                **about,
                "name": meta["name"],
                "namespace": meta["namespace"],
            },
            "type": "Warning",
            "reason": "FailedMount",
            "message": f"try {number} {LONG}",
            "firstTimestamp": at,
            "lastTimestamp": at,
            "count": 1,
        }


def make(kube: Kube, event: dict[str, Any]) -> None:
    """Create it, again where the server, or its answer, was lost in the flood."""
    for left in reversed(range(TRIES)):
        try:
            kube.create(event)
        except KubeError as problem:
            if problem.status == httpx.codes.CONFLICT:
                return  # it was made, and nobody heard
            if not left or (problem.status < 500 and problem.status != 429):
                raise
        except httpx.TransportError:
            if not left:
                raise
        else:
            return
        time.sleep(1)


def changed(ground: Ground, follower: Follower, spec: Any, number: int) -> float:
    """Change another tenant's workload; return how late that was told."""
    path = f"/apis/apps/v1/namespaces/{spec.namespace}/statefulsets/ws-{spec.name}"
    change = {"metadata": {"annotations": {names.LAUNCH: str(number)}}}
    ground.kube.until("a change", lambda: ground.kube.patch(path, change))
    answered = time.monotonic()
    told(follower, spec.uid, lambda o: o.launch == number)
    return time.monotonic() - answered


def told_after(
    ground: Ground, follower: Follower, loud: Any, quiet: Any, numbers: range
) -> list[float]:
    """Flood one tenant; return how late each change of the other was told meanwhile."""
    late: list[float] = []
    launches = itertools.count(2 + numbers.start)
    with Flood(ground, ground.pod(loud), numbers) as flood:
        wait_for(lambda: flood.made > len(numbers) // 20, seconds=120)
        while flood.is_on:
            late.append(changed(ground, follower, quiet, next(launches)))
    assert (flood.problems, flood.made) == ([], len(numbers))
    assert len(late) >= TRIES
    middle = statistics.median_high(late)
    print(f"[events] told after {middle:.3f} s, at most {max(late):.3f} s")  # noqa: T201
    return late


def test_c11_ten_thousand_events_of_one_tenant_are_bounded_and_delay_no_other(
    ground: Ground, follower: Follower, elsewhere: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    loud = ground.spec(probe=None)
    quiet = ground.spec(probe=Probe("/", 200), namespace=elsewhere)
    for spec in (loud, quiet):
        ground.driver.ensure(spec)
    for spec in (loud, quiet):
        told(follower, spec.uid, lambda o: o.seen == Seen.READY)
    assert any(
        statistics.median_high(told_after(ground, follower, loud, quiet, numbers)) < TOLD_WITHIN_S
        for numbers in (range(EVENTS), MORE)
    )

    told(follower, loud.uid, lambda o: o.seen == Seen.READY)
    world = ground.driver._world
    assert world is not None
    with world._lock:  # the follower goes on
        every = [(key, list(rows.values())) for key, rows in world._events.items()]
    kept = [rows for key, rows in every if key[0].startswith(ground.namespace)]
    assert max(map(len, kept)) == KEPT
    assert sum(len(str(row)) for rows in kept for row in rows) < 100_000

    monkeypatch.setattr(rpc, "driver_for", lambda _key: ground.driver)
    asked = {
        "cluster": "dev",
        "namespace": ground.namespace,
        "name": f"ws-{loud.name}",
        "pod": f"ws-{loud.name}-0",
    }

    def page() -> float:
        began = time.monotonic()
        try:
            rows = rpc.read_objects(asked)["events"]
        except DriverError as problem:
            print(f"[events] no page: {problem}")  # noqa: T201
            return math.inf
        took = time.monotonic() - began
        assert len(rows) == rpc.MOST_EVENTS
        assert sum(len(row["message"]) for row in rows) <= 600 * rpc.MOST_EVENTS
        print(f"[events] the page answered after {took:.2f} s")  # noqa: T201
        return took

    assert any(page() < ANSWERS_S for _ in range(TRIES))
    removed(ground, loud.uid, quiet.uid)
