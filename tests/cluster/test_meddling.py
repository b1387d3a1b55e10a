"""E10, E11: what somebody did with kubectl, while the portal looked or was away, is told and mended.

Whoever may do this owns the cluster: Berth says what is so, does not quarrel, and starts again
when it is asked.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from typing import Any

import pytest

from devcluster.kube import Kube
from tests.cluster.visitors import BASE, Person, portal_of_people, until
from tests.support.clustered import KEY, ClusteredPortal, ok

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.beside,
    pytest.mark.real,
    pytest.mark.timeout(600),
    pytest.mark.long(
        "minutes of looking for a quarrel; the writes: drivers/kubernetes/test_apply.py"
    ),
]
LATE_S = 120.0
QUIET_S = 20.0
WAITS = ["bash", "-c", "trap 'exit 0' TERM; sleep 3600 & wait"]


@pytest.fixture(scope="module")
def portal(devcluster: dict[str, Any]) -> Iterator[ClusteredPortal]:
    with portal_of_people(devcluster, "mdl") as running:
        yield running


@pytest.fixture
def rows(ann: Person, devcluster: dict[str, Any]) -> Iterator[list[dict[str, Any]]]:
    """Three that run."""
    body = {
        "kind": "container",
        "cluster": KEY,
        "image": devcluster["images"]["tool"]["reference"],
        "command": WAITS,
        "cpu_milli": 200,
        "memory_mib": 256,
    }
    names = [f"m-{secrets.token_hex(3)}" for _ in range(3)]
    made = [ok(ann.api.post(BASE, json={**body, "name": name})).json() for name in names]
    yield [ann.settle(row) for row in made]
    for row in made:
        ok(ann.api.delete(f"{BASE}/{row['id']}"))


def status(person: Person, row: dict[str, Any]) -> dict[str, Any]:
    return dict(ok(person.api.get(f"{BASE}/{row['id']}")).json()["status"])


def says(person: Person, row: dict[str, Any]) -> tuple[str, str]:
    found = status(person, row)
    return found["phase"], found["reason"]


def set_of(kube: Kube, row: dict[str, Any]) -> dict[str, Any]:
    name = f"ws-{row['id']}"
    found = kube.list("apps/v1", "StatefulSet", fieldSelector=f"metadata.name={name}")
    assert len(found) == 1, found
    return dict(found[0])


def uids_of(kube: Kube, row: dict[str, Any]) -> list[str]:
    return [pod["metadata"]["uid"] for pod in pods_of(kube, row)]


def pods_of(kube: Kube, row: dict[str, Any]) -> list[dict[str, Any]]:
    return list(kube.list("v1", "Pod", labelSelector=f"berth.dev/uid={row['uid']}"))


def start(person: Person, rows: list[dict[str, Any]]) -> None:
    for row in rows:
        ok(person.api.post(f"{BASE}/{row['id']}/start"))
    for row in rows:
        person.settle(row)


def test_e11_rows_whose_things_went_while_the_portal_was_down_say_so_and_start_again(
    portal: ClusteredPortal, ann: Person, kube: Kube, rows: list[dict[str, Any]]
) -> None:
    """As after a cluster was made anew, or a database restored to before a removal."""
    metas = [set_of(kube, row)["metadata"] for row in rows]
    portal.down()
    try:
        for meta in metas:
            kube.delete("apps/v1", "StatefulSet", meta["name"], meta["namespace"])
        until(lambda: not any(pods_of(kube, row) for row in rows), LATE_S)
    finally:
        portal.up()
    for row in rows:
        until(lambda r=row: says(ann, r) == ("failed", "vanished"), LATE_S)
    start(ann, rows)
    for row in rows:
        assert len(pods_of(kube, row)) == 1


def test_e10_a_namespace_that_somebody_deleted_is_made_again_once(
    ann: Person, kube: Kube, rows: list[dict[str, Any]]
) -> None:
    namespace = set_of(kube, rows[0])["metadata"]["namespace"]
    before = uid_of(kube, namespace)
    kube.delete("v1", "Namespace", namespace)
    for row in rows:
        until(lambda r=row: says(ann, r) == ("failed", "vanished"), LATE_S)
    until(lambda: uid_of(kube, namespace) not in {"", before}, LATE_S)
    again = uid_of(kube, namespace)
    until(lambda: is_kept_apart(kube, namespace), LATE_S)
    start(ann, rows)
    assert uid_of(kube, namespace) == again


def uid_of(kube: Kube, namespace: str) -> str:
    found = kube.get("v1", "Namespace", namespace)
    return str(found["metadata"]["uid"]) if found else ""


def is_kept_apart(kube: Kube, namespace: str) -> bool:
    policy = kube.get("networking.k8s.io/v1", "NetworkPolicy", "default-deny", namespace)
    return bool(policy and kube.get("v1", "ResourceQuota", "objects", namespace))


def test_e10_a_statefulset_that_somebody_edited_is_told_of_without_a_quarrel(
    ann: Person, kube: Kube, rows: list[dict[str, Any]]
) -> None:
    image, env, label = rows
    right = set_of(kube, image)["spec"]["template"]["spec"]["containers"][0]["image"]
    pods = {row["id"]: pods_of(kube, row)[0]["metadata"]["uid"] for row in rows}
    edit(kube, image, {"image": f"{right.rpartition('/')[0]}/no-such-image:1"})
    edit(kube, env, {"env": [{"name": "BERTH_MEDDLED", "value": "yes"}]})
    meta = set_of(kube, label)["metadata"]
    path = f"/apis/apps/v1/namespaces/{meta['namespace']}/statefulsets/{meta['name']}"
    kube.patch(path, {"metadata": {"labels": {"berth.dev/uid": "nobodys"}}})

    until(lambda: says(ann, image)[0] == "starting" and "image" in says(ann, image)[1], LATE_S)
    until(lambda: uids_of(kube, env) not in ([], [pods[env["id"]]]), LATE_S)
    ann.settle(env)

    generations = [set_of(kube, row)["metadata"]["generation"] for row in rows]
    time.sleep(QUIET_S)
    assert [set_of(kube, row)["metadata"]["generation"] for row in rows] == generations
    assert says(ann, label) == ("running", "")  # its pod is as it was
    assert pods_of(kube, label)[0]["metadata"]["uid"] == pods[label["id"]]

    for row in rows:
        ok(ann.api.post(f"{BASE}/{row['id']}/stop"))
    for row in rows:
        ann.settle(row, "stopped")
        assert not pods_of(kube, row)
    start(ann, rows)
    containers = set_of(kube, image)["spec"]["template"]["spec"]["containers"]
    assert containers[0]["image"] == right
    assert set_of(kube, label)["metadata"]["labels"]["berth.dev/uid"] == label["uid"]


def edit(kube: Kube, row: dict[str, Any], change: dict[str, Any]) -> None:
    found = set_of(kube, row)
    container = {**found["spec"]["template"]["spec"]["containers"][0], **change}
    meta = found["metadata"]
    path = f"/apis/apps/v1/namespaces/{meta['namespace']}/statefulsets/{meta['name']}"
    kube.patch(path, {"spec": {"template": {"spec": {"containers": [container]}}}})
