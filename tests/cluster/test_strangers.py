"""A1 over a real cluster: whatever a stranger asks for by the API and the gate, nothing of another
project is found, and nothing in the cluster changes.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest
import yaml

from devcluster.kube import Kube
from tests.cluster.visitors import Person, people, until
from tests.cluster.ways import answers, files, gate_url, terminal, told
from tests.support.clustered import KEY, ClusteredPortal, ok
from tests.support.portal import ROOT

pytestmark = [pytest.mark.cluster, pytest.mark.real, pytest.mark.timeout(900)]
BASE = "/api/v1/"
PROJECT = f"{BASE}projects/{{project}}"
VERBS = ("get", "post", "put", "patch", "delete")
GATE = "/gate/"
# Where something must be said before anything is looked for.
BODIES = {
    "members/{username}": {"role": "viewer"},
    "shares": {"username": "ben"},
    "transfer": {"to": "demo"},
}
# What a cluster keeps of a project; of a pod and its owner not what the node says of it.
KINDS = (
    *(("v1", kind) for kind in ("Secret", "Service", "PersistentVolumeClaim", "Pod")),
    *(("v1", kind) for kind in ("ResourceQuota", "LimitRange", "ServiceAccount")),
    *(("apps/v1", "StatefulSet"), ("batch/v1", "Job")),
    *(("rbac.authorization.k8s.io/v1", kind) for kind in ("Role", "RoleBinding")),
    ("networking.k8s.io/v1", "NetworkPolicy"),
)


@pytest.fixture(scope="module")
def portal(devcluster: dict[str, Any]) -> Iterator[ClusteredPortal]:
    env = {
        "BERTH_EMAIL_BACKEND": "django.core.mail.backends.dummy.EmailBackend",
        "BERTH_LOCAL_CLUSTER": "no",
        "BERTH_FILES_IDLE_MINUTES": "120",  # what is looked at does not end by itself
    }
    running = ClusteredPortal(devcluster, f"a1{secrets.token_hex(2)}-", env)
    try:
        running.start()
        people(running)
        yield running
    finally:
        running.close()


# What gives a kubeconfig its rights; the place makes it a moment after the answer.
RIGHTS = {"ServiceAccount", "Role", "RoleBinding"}
MEASURING = "berth.dev/kind", "measuring"  # by the worker, in its own time


@pytest.fixture(scope="module")
def things(portal: ClusteredPortal, devcluster: dict[str, Any], kube: Kube) -> dict[str, str]:
    """What ann has in the project ``demo``, by the names of the schema's parameters."""
    ann = Person(portal, "ann")
    program = {"image": devcluster["images"]["tool"]["reference"], "command": ["sleep", "600"]}
    work = ann.launch(kind="container", **program)

    def made(where: str, /, **body: Any) -> dict[str, Any]:
        return dict(ok(ann.api.post(f"projects/demo/{where}", json=body)).json())

    key = made("credentials", kind="generic", name="token", values={"TOKEN": "x" * 20})
    volume = made("volumes", name="papers", size_mib=1024)
    load = made("loads", url="s3://bucket/set", start="no")
    config = made("kubeconfigs", cluster=KEY)
    path = f"projects/demo/volumes/{volume['id']}"
    until(lambda: ann.api.get(path).json()["phase"] == "running")
    ok(ann.api.post(f"{path}/files"))
    until(lambda: ok(ann.api.get(f"{path}/files")).json()["is_open"])
    until(lambda: rights_of_people(kube, portal.prefix) >= RIGHTS)
    ids = {
        "workspace": work["id"],
        "credential": key["id"],
        "volume": volume["id"],
        "load": load["id"],
        "uid": config["id"],
    }
    return {**ids, "username": "ann", "snapshot": str(uuid4()), "transfer": str(uuid4())}


@pytest.fixture(scope="module")
def cyd(portal: ClusteredPortal, things: dict[str, str]) -> Person:
    """Owner of a project of his own on the same cluster; in ``demo`` he is nobody."""
    person = Person(portal, "cyd")
    ok(person.api.post("projects", json={"name": "Other"}))
    until(lambda: ok(person.api.get("projects/other/places")).json())
    return person


@pytest.fixture
def untouched(portal: ClusteredPortal, kube: Kube, things: dict[str, str]) -> Iterator[None]:
    """What ann has is the same before and after, in the portal and in the cluster."""
    ann = Person(portal, "ann")

    def told() -> Any:
        rows = {
            kind: {
                row["id"]: row for row in ok(ann.api.get(f"projects/demo/{kind}")).json()["results"]
            }
            for kind in ("workspaces", "volumes", "loads")
        }
        return {
            (kind, uid): (row["name"], row["desired"], row.get("generation"))
            for kind, found in rows.items()
            for uid, row in found.items()
        }

    before = told(), objects(kube, portal.prefix)
    yield
    assert (told(), objects(kube, portal.prefix)) == before


def objects(kube: Kube, prefix: str) -> dict[tuple[str, ...], Any]:
    found: dict[tuple[str, ...], Any] = {}
    for api, kind in KINDS:
        for one in kube.list(api, kind):
            meta = one["metadata"]
            if not meta["namespace"].startswith(f"{prefix}demo"):
                continue
            if MEASURING in meta.get("labels", {}).items():
                continue
            said = {
                name: one.get(name) for name in ("spec", "data", "rules", "roleRef", "subjects")
            }
            where = (kind, meta["namespace"], meta["name"])
            found[where] = (meta["uid"], meta.get("deletionTimestamp"), said)
    assert {"StatefulSet", "PersistentVolumeClaim", "NetworkPolicy"} <= {kind for kind, *_ in found}
    return found


def rights_of_people(kube: Kube, prefix: str) -> set[str]:
    """Which kinds there are of somebody's own."""
    return {kind for kind, _place, name in objects(kube, prefix) if name.startswith("user-")}


def routes() -> list[tuple[str, str]]:
    """Every verb and path of the schema that lies in a project."""
    schema = yaml.safe_load((ROOT / "docs/openapi.yaml").read_text())
    return [
        (verb, path)
        for path, said in sorted(schema["paths"].items())
        if path.startswith(PROJECT)
        for verb in VERBS
        if verb in said
    ]


def asked(person: Person, verb: str, path: str, values: dict[str, str]) -> httpx.Response:
    said = next((body for end, body in BODIES.items() if path.endswith(f"/{end}")), {})
    body = None if verb in {"get", "delete"} else said
    return person.api.request(verb, path.format(**values).removeprefix(BASE), json=body)


@pytest.mark.usefixtures("untouched")
def test_a1_a_strangers_api_finds_nothing_of_the_project(
    cyd: Person, things: dict[str, str]
) -> None:
    seen = {
        f"{verb} {path}": asked(cyd, verb, path, {"project": "demo", **things}).status_code
        for verb, path in routes()
    }
    assert len(seen) > 80
    assert {route: code for route, code in seen.items() if code != 404} == {}


@pytest.mark.usefixtures("untouched")
def test_a1_nor_by_its_ids_below_a_project_of_his_own(cyd: Person, things: dict[str, str]) -> None:
    own = {"project": "other", **things}
    named = [(v, p) for v, p in routes() if "{" in p.removeprefix(PROJECT)]
    seen = {f"{verb} {path}": asked(cyd, verb, path, own).status_code for verb, path in named}
    assert len(seen) > 50
    assert {route: code for route, code in seen.items() if code != 404} == {}


@pytest.mark.usefixtures("untouched")
def test_a1_nor_by_what_he_asks_to_be_given(cyd: Person, things: dict[str, str]) -> None:
    size = {"cluster": KEY, "cpu_milli": 100, "memory_mib": 256}
    for body in (
        {"volumes": [things["volume"]]},
        {"credentials": [things["credential"]]},
        {"needs": [things["load"]]},
    ):
        refused(cyd.api.post("projects/other/workspaces", json={**size, **body}), *body)
    copied = {"url": "s3://bucket/set", "volume": things["volume"], "start": "no"}
    refused(cyd.api.post("projects/other/loads", json=copied), "volume")
    assert ok(cyd.api.get("projects/other/workspaces")).json()["results"] == []
    assert ok(cyd.api.get("projects/other/loads")).json()["results"] == []


def refused(answer: httpx.Response, field: str) -> None:
    """For this field and no other reason, or as if there were no such thing."""
    said = answer.json()
    assert answer.status_code == 404 or set(said["fields"]) == {field}, said


@pytest.mark.usefixtures("untouched")
def test_a1_nor_through_the_gate(cyd: Person, things: dict[str, str]) -> None:
    until(lambda: answers(f"{gate_url(cyd.portal)}/livez"), 180)
    row = {"id": things["workspace"]}
    with terminal(cyd, row) as ws:
        assert told(ws)["code"] in {"forbidden", "not-found"}
    with files(cyd) as http:
        for path in (
            f"files/{things['workspace']}/list",
            f"logs/{things['workspace']}",
            f"volumes/{things['volume']}/list",
            f"volumes/{things['volume']}/info",
        ):
            assert http.get(f"{GATE}{path}").status_code in {403, 404}, path
