"""C14, E1, E10, E11 through the whole portal: what somebody does to a pod is told and put right."""

from __future__ import annotations

import os
import secrets
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devcluster.kube import Kube
from tests.cluster.visitors import BASE, Person, portal_of_people, until
from tests.support.clustered import ClusteredPortal, ok

pytestmark = [pytest.mark.cluster, pytest.mark.real, pytest.mark.timeout(900)]
LATE_S = 180.0
DONE_WITHIN_S = 60.0  # of a kill, whatever it interrupted


@pytest.fixture(scope="module")
def portal(devcluster: dict[str, Any]) -> Iterator[ClusteredPortal]:
    with portal_of_people(devcluster, "flt") as running:
        yield running


@pytest.fixture
def tool(devcluster: dict[str, Any]) -> dict[str, Any]:
    """What a small container asks for."""
    return {
        "kind": "container",
        "image": devcluster["images"]["tool"]["reference"],
        "cpu_milli": 500,
        "memory_mib": 256,
    }


def body(tool: dict[str, Any], script: str) -> dict[str, Any]:
    return {
        **tool,
        "cluster": "dev",
        "name": f"f-{secrets.token_hex(4)}",
        "command": ["bash", "-c", script],
    }


def status(person: Person, row: dict[str, Any]) -> dict[str, Any]:
    return dict(person.api.get(f"{BASE}/{row['id']}").json()["status"])


def gone(person: Person, row: dict[str, Any]) -> None:
    ok(person.api.delete(f"{BASE}/{row['id']}"))
    until(lambda: person.api.get(f"{BASE}/{row['id']}").status_code == 404, LATE_S)


def pod_of(kube: Kube, row: dict[str, Any]) -> dict[str, Any] | None:
    found = kube.list("v1", "Pod", labelSelector=f"berth.dev/uid={row['uid']}")
    return found[0] if found else None


def test_c14_a_program_that_fails_is_failed_with_its_last_words(
    ann: Person, kube: Kube, tool: dict[str, Any]
) -> None:
    row = ok(ann.api.post(BASE, json=body(tool, "sleep 1; echo no data; exit 3"))).json()
    until(lambda: status(ann, row)["phase"] == "failed", LATE_S)
    found = status(ann, row)
    assert found["reason"] == "exit"
    until(lambda: pod_of(kube, row) is None, LATE_S)  # and the cluster does not start it again
    text = ann.api.get(f"{BASE}/{row['id']}/logs").json()["text"]
    assert "no data" in text
    gone(ann, row)


def test_c14_memory_is_named(ann: Person, tool: dict[str, Any]) -> None:
    eats = "x = [bytearray(b'x' * 2**20) for _ in range(4096)]"
    asked = {**body(tool, ""), "command": ["python3", "-c", eats]}
    row = ok(ann.api.post(BASE, json=asked)).json()
    until(lambda: status(ann, row)["phase"] == "failed", LATE_S)
    assert status(ann, row)["reason"] == "oom"
    gone(ann, row)


def test_c14_a_pod_deleted_with_kubectl_runs_again(
    ann: Person, kube: Kube, tool: dict[str, Any]
) -> None:
    # it goes slowly enough that somebody sees it going
    row = ann.launch(**body(tool, "trap 'sleep 45; exit 0' TERM; sleep 600 & wait"))
    pod = pod_of(kube, row)
    assert pod is not None
    meta = pod["metadata"]
    kube.delete("v1", "Pod", meta["name"], meta["namespace"], gracePeriodSeconds="60")
    found = until(lambda: (now := status(ann, row))["reason"] == "replaced" and now, LATE_S)
    assert found["phase"] == "starting"
    ann.settle(row)
    assert pod_of(kube, row)["metadata"]["uid"] != meta["uid"]  # type: ignore[index]
    gone(ann, row)


def test_e10_a_statefulset_deleted_with_kubectl_is_told_and_starts_again_when_asked(
    ann: Person, kube: Kube, tool: dict[str, Any]
) -> None:
    row = ann.launch(**body(tool, "trap 'exit 0' TERM; sleep 600 & wait"))
    meta = pod_of(kube, row)["metadata"]  # type: ignore[index]
    kube.delete("apps/v1", "StatefulSet", meta["name"].removesuffix("-0"), meta["namespace"])
    until(lambda: status(ann, row)["phase"] == "failed", LATE_S)
    assert status(ann, row)["reason"] == "vanished"
    until(lambda: pod_of(kube, row) is None, LATE_S)
    ann.act(row, "start", "running")
    gone(ann, row)


@pytest.mark.timeout(1800)
def test_e1_a_worker_killed_during_launches_leaves_nothing_double_or_lost(
    portal: ClusteredPortal, ann: Person, kube: Kube, tool: dict[str, Any]
) -> None:
    """The best of three: something else may hold a small machine meanwhile."""
    took = []
    for _ in range(3):
        took.append(_four_with_killed_workers(portal, ann, kube, tool))
        if max(took[-1]) <= DONE_WITHIN_S:
            return
    raise AssertionError(took)


def _four_with_killed_workers(
    portal: ClusteredPortal, ann: Person, kube: Kube, tool: dict[str, Any]
) -> tuple[float, float]:
    """Launch four and delete them; return how long each took, from the last kill on."""
    kinds = (("apps/v1", "StatefulSet"), ("v1", "Pod"), ("v1", "Secret"))
    others = {kind: set(_uids(portal, kube, *kind)) for kind in kinds}

    def ours(api: str, kind: str) -> list[str]:
        """Whose are those that were not there before: an orphan's or a double one is among them."""
        return [uid for uid in _uids(portal, kube, api, kind) if uid not in others[api, kind]]

    rows: list[dict[str, Any]] = []
    try:
        for number in range(4):
            asked = body(tool, "trap 'exit 0' TERM; sleep 600 & wait")
            rows.append(ok(ann.api.post(BASE, json=asked)).json())
            if number in {1, 3}:
                killed_at = _kill_worker(portal)
        for row in rows:
            ann.settle(row)
        launched = time.monotonic() - killed_at
        assert sorted(ours(*kinds[0])) == sorted(row["uid"] for row in rows)
        for row in rows:
            ok(ann.api.delete(f"{BASE}/{row['id']}"))
        killed_at = _kill_worker(portal)
        for row in rows:
            until(lambda r=row: ann.api.get(f"{BASE}/{r['id']}").status_code == 404, LATE_S)
        for kind in kinds:
            until(lambda k=kind: not ours(*k), LATE_S)
        return launched, time.monotonic() - killed_at
    finally:
        for row in rows:  # one that is gone answers 404
            ann.api.delete(f"{BASE}/{row['id']}")


def _uids(portal: ClusteredPortal, kube: Kube, api: str, kind: str) -> list[str]:
    selector = f"berth.dev/instance={portal.prefix.strip('-')},berth.dev/kind=workspace"
    found = kube.list(api, kind, labelSelector=selector)
    return [one["metadata"]["labels"]["berth.dev/uid"] for one in found]


def _kill_worker(portal: ClusteredPortal) -> float:
    """SIGKILL to the worker of this portal; return when, once `berth up` has started another."""
    time.sleep(0.3)
    killed, at = _workers(portal), time.monotonic()
    assert killed
    for pid in killed:
        os.kill(pid, signal.SIGKILL)
    until(lambda: (now := _workers(portal)) and not now & killed, LATE_S)
    return at


def _workers(portal: ClusteredPortal) -> set[int]:
    found = set()
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            mine = str(portal.var).encode() in (entry / "environ").read_bytes()
        except OSError:
            continue
        if mine and b"portal.server.worker" in words:
            found.add(int(entry.name))
    return found
