"""A1 over a real cluster: whatever a stranger asks for by the API and the gate, nothing of another
project is found, and nothing in the cluster changes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest
import yaml

from devcluster.kube import Kube
from tests.cluster.visitors import Person, portal_of_people, until
from tests.cluster.ways import answers, files, gate_url, terminal, told
from tests.support.clustered import KEY, ClusteredPortal, ok
from tests.support.portal import ROOT

# What is found once is found: nothing here is tried a second time.
pytestmark = [
    pytest.mark.cluster,
    pytest.mark.beside,
    pytest.mark.real,
    pytest.mark.timeout(900),
    pytest.mark.flaky(reruns=0),
]
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
        "BERTH_LOCAL_CLUSTER": "no",
        "BERTH_FILES_IDLE_MINUTES": "120",  # what is looked at does not end by itself
    }
    with portal_of_people(devcluster, "a1", env) as running:
        yield running


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


def nowhere(values: dict[str, str]) -> dict[str, str]:
    """Names of the same shape for which there is nothing at all."""
    return {
        name: str(uuid4()) if len(value) == len(str(uuid4())) else "".join(sorted(value))[::-1]
        for name, value in values.items()
    }


def plain(text: str, values: dict[str, str]) -> str:
    """Without what was asked by."""
    for name, value in values.items():
        text = re.sub(rf"\b{re.escape(value)}\b", name, text)
    return text


def told_apart(
    person: Person, ways: list[tuple[str, str]], values: dict[str, str], unknown: dict[str, str]
) -> dict[str, Any]:
    """By which ways what is there is answered otherwise than what is not, which is 404."""
    found = {}
    for verb, path in ways:
        theirs, nobodys = (asked(person, verb, path, each) for each in (values, unknown))
        said = plain(theirs.text, values), plain(nobodys.text, unknown)
        codes = theirs.status_code, nobodys.status_code
        if codes != (404, 404) or said[0] != said[1]:
            found[f"{verb} {path}"] = codes, said
    return found


@pytest.mark.usefixtures("untouched")
def test_a1_a_strangers_api_finds_nothing_of_the_project(
    cyd: Person, things: dict[str, str]
) -> None:
    theirs = {"project": "demo", **things}
    assert len(routes()) > 80
    assert told_apart(cyd, routes(), theirs, nowhere(theirs)) == {}


@pytest.mark.usefixtures("untouched")
def test_a1_nor_by_its_ids_below_a_project_of_his_own(cyd: Person, things: dict[str, str]) -> None:
    own = {"project": "other"}
    named = [(v, p) for v, p in routes() if "{" in p.removeprefix(PROJECT)]
    assert len(named) > 50
    assert told_apart(cyd, named, {**things, **own}, {**nowhere(things), **own}) == {}


@pytest.mark.usefixtures("untouched")
def test_a1_nor_by_what_he_asks_to_be_given(cyd: Person, things: dict[str, str]) -> None:
    size = {"cluster": KEY, "cpu_milli": 100, "memory_mib": 256}
    unknown = nowhere(things)

    def refused(kind: str, field: str, body: Callable[[dict[str, str]], dict[str, Any]]) -> None:
        """For this field and no other reason, and as what there is not."""
        path = f"projects/other/{kind}"
        theirs, nobodys = (cyd.api.post(path, json=body(each)) for each in (things, unknown))
        assert theirs.status_code == nobodys.status_code
        assert plain(theirs.text, things) == plain(nobodys.text, unknown)
        said = theirs.json()
        assert theirs.status_code == 404 or set(said["fields"]) == {field}, said

    for field, what in (("volumes", "volume"), ("credentials", "credential"), ("needs", "load")):
        refused("workspaces", field, lambda ids, f=field, w=what: {**size, f: [ids[w]]})
    copied = {"url": "s3://bucket/set", "start": "no"}
    refused("loads", "volume", lambda ids: {**copied, "volume": ids["volume"]})
    assert ok(cyd.api.get("projects/other/workspaces")).json()["results"] == []
    assert ok(cyd.api.get("projects/other/loads")).json()["results"] == []


@pytest.mark.usefixtures("untouched")
def test_a1_nor_through_the_gate(cyd: Person, things: dict[str, str]) -> None:
    until(lambda: answers(f"{gate_url(cyd.portal)}/livez"), 180)
    unknown = nowhere(things)

    def refusal(ids: dict[str, str]) -> dict[str, Any]:
        with terminal(cyd, {"id": ids["workspace"]}) as ws:
            said = told(ws)
        assert said["code"] == "not-found"
        return {name: plain(str(value), ids) for name, value in said.items()}

    assert refusal(things) == refusal(unknown)
    with files(cyd) as http:
        for path in (
            "files/{workspace}/list",
            "files/{workspace}/download?path=.profile",
            "logs/{workspace}",
            "volumes/{volume}/list",
            "volumes/{volume}/info",
        ):
            theirs, nobodys = (
                http.get(f"{GATE}{path.format(**ids)}", headers={"Sec-Fetch-Site": "same-origin"})
                for ids in (things, unknown)
            )
            assert (theirs.status_code, nobodys.status_code) == (404, 404), path
            assert plain(theirs.text, things) == plain(nobodys.text, unknown)
