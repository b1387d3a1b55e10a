"""C14: a pod stuck in its end, on a real API server: said in words, not hung on, and gone on from."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from devcluster.kube import Kube
from tests.cluster.test_faults import body, gone, pod_of, portal, status, tool
from tests.cluster.visitors import BASE, Person, until
from tests.support.clustered import ok

__all__ = ["portal", "tool"]  # the portal of this module is its own

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.beside,
    pytest.mark.real,
    pytest.mark.timeout(900),
    pytest.mark.long("minutes of waiting; what is told: drivers/kubernetes/test_held.py"),
]
LATE_S = 180.0
TOLD_WITHIN_S = 5.0  # of the moment at which it should have been gone, and at which it was
MARK = "example.com/hold"
TRIES = 3  # the machine may be busy with something else
Mark = Callable[[dict[str, Any]], dict[str, Any]]
RUNS = "trap 'exit 0' TERM; sleep 600 & wait"


@pytest.fixture
def mark(kube: Kube) -> Iterator[Mark]:
    """Put a finalizer on the pod of a row, as a storage or network controller does."""
    made: list[dict[str, Any]] = []

    def put(row: dict[str, Any]) -> dict[str, Any]:
        pod = pod_of(kube, row)
        assert pod is not None
        kube.patch(path_of(pod), {"metadata": {"finalizers": [MARK]}})
        made.append(pod)
        return pod

    yield put
    for pod in made:
        take_off(kube, pod)


def path_of(pod: dict[str, Any]) -> str:
    meta = pod["metadata"]
    return f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"


def take_off(kube: Kube, pod: dict[str, Any]) -> None:
    found = kube.get("v1", "Pod", pod["metadata"]["name"], pod["metadata"]["namespace"])
    if found is not None and found["metadata"]["uid"] == pod["metadata"]["uid"]:
        kube.patch(path_of(pod), {"metadata": {"finalizers": None}})


def is_going(kube: Kube, row: dict[str, Any]) -> bool:
    return bool((pod_of(kube, row) or {}).get("metadata", {}).get("deletionTimestamp"))


def told(person: Person, row: dict[str, Any], phase: str, reason: str) -> float:
    """Wait until it is said with what keeps it; return how long that took."""
    began = time.monotonic()

    def look() -> bool:
        now = status(person, row)
        return (now["phase"], now["reason"], MARK in now["message"]) == (phase, reason, True)

    until(look, LATE_S)
    return time.monotonic() - began


def test_c14_a_stop_names_what_keeps_the_pod_and_goes_on_when_it_is_gone(
    ann: Person, kube: Kube, tool: dict[str, Any], mark: Mark
) -> None:
    def once() -> float:
        row = ann.launch(**body(tool, RUNS))
        pod = mark(row)
        ok(ann.api.post(f"{BASE}/{row['id']}/stop"))
        until(lambda: not ready(pod_of(kube, row)), LATE_S)
        took = told(ann, row, "stopping", "held")
        assert pod_of(kube, row) is not None
        take_off(kube, pod)
        began = time.monotonic()
        ann.settle(row, "stopped")
        assert status(ann, row)["reason"] == "user"
        took = max(took, time.monotonic() - began)
        gone(ann, row)
        return took

    # its node says at once that the program ended; 1 s of grace and 3 s of patience follow
    assert any(once() < TOLD_WITHIN_S + 4 for _ in range(TRIES))


def ready(pod: dict[str, Any] | None) -> bool:
    conditions = (pod or {}).get("status", {}).get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def test_c14_a_start_waits_for_the_pod_before_it_says_why_and_then_runs_once(
    ann: Person, kube: Kube, tool: dict[str, Any], mark: Mark
) -> None:
    row = ann.launch(**body(tool, RUNS))
    pod = mark(row)
    ok(ann.api.post(f"{BASE}/{row['id']}/stop"))
    until(lambda: is_going(kube, row), LATE_S)
    ok(ann.api.post(f"{BASE}/{row['id']}/start"))
    told(ann, row, "starting", "previous-ending")
    until(lambda: is_scaled_down(set_of(kube, pod)), LATE_S)
    version = set_of(kube, pod)["metadata"]["resourceVersion"]
    time.sleep(5)
    found = set_of(kube, pod)
    assert found["metadata"]["resourceVersion"] == version  # it is waited for, not written at
    take_off(kube, pod)
    ann.settle(row)
    successor = pod_of(kube, row)
    assert successor is not None
    assert successor["metadata"]["uid"] != pod["metadata"]["uid"]
    gone(ann, row)


def is_scaled_down(found: dict[str, Any]) -> bool:
    """Its controller has nothing more to say of the pod that ends."""
    status = found["status"]
    told = status.get("observedGeneration") == found["metadata"]["generation"]
    return told and not status.get("readyReplicas")


def set_of(kube: Kube, pod: dict[str, Any]) -> dict[str, Any]:
    meta = pod["metadata"]
    found = kube.get("apps/v1", "StatefulSet", meta["name"].removesuffix("-0"), meta["namespace"])
    assert found is not None
    return found


def test_c14_what_is_deleted_is_said_to_be_held_and_goes_when_it_may(
    ann: Person, kube: Kube, tool: dict[str, Any], mark: Mark
) -> None:
    row = ann.launch(**body(tool, RUNS))
    pod = mark(row)
    ok(ann.api.delete(f"{BASE}/{row['id']}"))
    told(ann, row, "deleting", "held")
    take_off(kube, pod)
    until(lambda: ann.api.get(f"{BASE}/{row['id']}").status_code == 404, LATE_S)


def test_c14_a_pod_that_somebody_deleted_and_a_mark_keeps_is_named_while_it_is_wanted(
    ann: Person, kube: Kube, tool: dict[str, Any], mark: Mark
) -> None:
    row = ann.launch(**body(tool, RUNS))
    pod = mark(row)
    kube.delete("v1", "Pod", pod["metadata"]["name"], pod["metadata"]["namespace"])
    told(ann, row, "starting", "replaced")
    take_off(kube, pod)
    ann.settle(row)
    gone(ann, row)
