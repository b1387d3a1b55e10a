"""A1 over a real cluster: whatever a stranger asks for by the API and the gate, nothing of another
project is found, and nothing in the cluster changes.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
import yaml

from devcluster.kube import Kube
from tests.cluster.visitors import Person, portal_of_people, until
from tests.cluster.ways import (
    answers,
    files,
    gate_url,
    needs_ssh,
    register,
    ssh,
    terminal,
    told,
)
from tests.support.clustered import KEY, ClusteredPortal, ok
from tests.support.portal import ROOT

# What is found once is found: nothing here is tried a second time.
pytestmark = [
    pytest.mark.long(
        "every route with every role: architecture/test_route_guard.py; the gate: gate/test_denials.py"
    ),
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
    *(("v1", kind) for kind in ("Namespace", "PersistentVolume", "ConfigMap")),
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


# What a portal keeps of a project, and of one volume and one workspace of it.
LISTS = (
    *("workspaces", "volumes", "loads", "credentials", "kubeconfigs", "members", "invitations"),
    *("volume-transfers", "volumes/{volume}/snapshots", "workspaces/{workspace}/shares"),
)
# Of each row what stays as it is while nobody changes it.
STAYS = (
    *("id", "name", "desired", "generation", "kind", "state", "role", "user", "email"),
    *("cluster", "volume_name", "to_project", "size_limit_mib", "expires_at"),
)

# What gives a kubeconfig its rights; the place makes it a moment after the answer.
RIGHTS = {"ServiceAccount", "Role", "RoleBinding"}
MEASURING = "berth.dev/kind", "measuring"  # by the worker, in its own time


@pytest.fixture(scope="module")
def things(portal: ClusteredPortal, devcluster: dict[str, Any], kube: Kube) -> dict[str, str]:
    """What ann has in the project ``demo``, by the names of the schema's parameters."""
    ann = Person(portal, "ann")
    program = {"image": devcluster["images"]["tool"]["reference"], "command": ["sleep", "3600"]}
    work = ann.launch(kind="container", **program)

    def made(where: str, /, **body: Any) -> dict[str, Any]:
        return dict(ok(ann.api.post(f"projects/demo/{where}", json=body)).json())

    key = made("credentials", kind="generic", name="token", values={"TOKEN": "x" * 20})
    volume = made("volumes", name="papers", size_mib=1024)
    load = made("loads", url="s3://bucket/set", start="no")
    config = made("kubeconfigs", cluster=KEY)
    invitation = made("invitations", email="dora@example.org", role="member")
    path = f"projects/demo/volumes/{volume['id']}"
    until(lambda: ann.api.get(path).json()["phase"] == "running")
    ok(ann.api.post(f"{path}/files"))
    until(lambda: ok(ann.api.get(f"{path}/files")).json()["is_open"])
    until(lambda: rights_of_people(kube, portal.prefix) >= RIGHTS)
    return {
        "workspace": work["id"],
        "credential": key["id"],
        "volume": volume["id"],
        "load": load["id"],
        "uid": config["id"],
        "invitation": invitation["id"],
        "username": "ann",
        "snapshot": a_copy(ann, volume["id"]),
        "transfer": an_offer(ann),
    }


def a_copy(ann: Person, volume: str) -> str:
    """One that is there by its row: the storage of this class makes none."""
    uid = str(
        ann.portal.shell(
            "from volumes.models import Volume, VolumeSnapshot\n"
            f"of = Volume.objects.get(uid={volume!r})\n"
            "made = VolumeSnapshot.objects.create(volume=of, name='first',"
            " cluster_key=of.cluster_key, phase='running', observed_generation=1)\n"
            "answer = str(made.uid)"
        )
    )
    found = ok(ann.api.get(f"projects/demo/volumes/{volume}/snapshots")).json()
    assert [one["id"] for one in found] == [uid]
    return uid


def an_offer(ann: Person) -> str:
    """A volume of another project of ann's that ``demo`` may take, or not."""
    ok(ann.api.post("projects", json={"name": "Second"}))
    volumes = "projects/second/volumes"
    until(lambda: ok(ann.api.get("projects/second/places")).json())
    made = ok(ann.api.post(volumes, json={"name": "notes", "size_mib": 1024})).json()
    path = f"{volumes}/{made['id']}"
    until(lambda: (row := ann.api.get(path).json())["phase"] == "running" and row["can_transfer"])
    offer = ok(ann.api.post(f"{path}/transfer", json={"to": "demo"})).json()
    asked = ok(ann.api.get("projects/demo/volume-transfers")).json()["results"]
    assert [one["id"] for one in asked] == [offer["id"]]
    return str(offer["id"])


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
        paths = ["projects/demo", *(f"projects/demo/{path.format(**things)}" for path in LISTS)]
        return {path: rows_of(ok(ann.api.get(path)).json()) for path in paths}

    before = told(), objects(kube, portal.prefix)
    yield
    assert (told(), objects(kube, portal.prefix)) == before
    places = {ok(ann.api.get(f"projects/{slug}")).json()["uid"] for slug in ("demo", "second")}
    assert [one for one in audited(portal, "cyd", "done") if one["project_uid"] in places] == []


def rows_of(said: Any) -> list[dict[str, Any]]:
    """Of an object, a list or a page of one: what stays, by what each row is called."""
    rows = said.get("results", [said]) if isinstance(said, dict) else said
    return [{name: row[name] for name in STAYS if name in row} for row in rows]


def audited(portal: ClusteredPortal, name: str, outcome: str) -> list[dict[str, Any]]:
    """The lines of the audit log about what somebody did, or was refused; newest first."""
    with portal.api(portal.token("admin")) as admin:
        page = f"audit?actor={name}&outcome={outcome}&page_size=200"
        return list(ok(admin.get(page)).json()["results"])


def objects(kube: Kube, prefix: str) -> dict[tuple[str, ...], Any]:
    found: dict[tuple[str, ...], Any] = {}
    for api, kind in KINDS:
        for one in kube.list(api, kind):
            meta = one["metadata"]
            place = place_of(kind, one)
            if not place.startswith(f"{prefix}demo"):
                continue
            if MEASURING in meta.get("labels", {}).items():
                continue
            said = {
                name: one.get(name) for name in ("spec", "data", "rules", "roleRef", "subjects")
            }
            where = (kind, place, meta["name"])
            labels = meta.get("labels")
            found[where] = (meta["uid"], meta.get("deletionTimestamp"), labels, said)
    assert {"StatefulSet", "PersistentVolumeClaim", "NetworkPolicy"} <= {kind for kind, *_ in found}
    return found


def place_of(kind: str, one: dict[str, Any]) -> str:
    """In which namespace it is, or whose it is where it is in none."""
    if kind == "PersistentVolume":
        return str(one["spec"].get("claimRef", {}).get("namespace", ""))
    meta = one["metadata"]
    return str(meta["name"] if kind == "Namespace" else meta["namespace"])


def rights_of_people(kube: Kube, prefix: str) -> set[str]:
    """Which kinds there are of somebody's own."""
    return {kind for kind, _place, name in objects(kube, prefix) if name.startswith("user-")}


def routes() -> list[tuple[str, str]]:
    """Every verb and path of the schema that lies in a project."""
    schema = yaml.safe_load((ROOT / "docs/openapi.yaml").read_text())
    return [
        (verb, path.replace("invitations/{uid}", "invitations/{invitation}"))
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


# One way for each kind of id; as many as are noted of one person within a minute.
NOTED = (
    ("get", "workspaces/{workspace}"),
    ("delete", "volumes/{volume}"),
    ("get", "credentials/{credential}"),
    ("post", "loads/{load}/start"),
    ("post", "kubeconfigs/{uid}/token"),
    ("delete", "invitations/{invitation}"),
    ("delete", "members/{username}"),
    ("post", "volumes/{volume}/snapshots/{snapshot}/restore"),
    ("post", "volume-transfers/{transfer}/accept"),
    ("get", "events"),
)


@pytest.mark.usefixtures("untouched")
def test_a1_what_a_stranger_asked_for_is_in_the_audit_log(
    portal: ClusteredPortal, things: dict[str, str]
) -> None:
    """By somebody of whom nothing was noted yet in this minute."""
    eve, place = a_stranger(portal), {"project": "demo", **things}
    demo = ok(Person(portal, "ann").api.get("projects/demo")).json()["uid"]
    for verb, path in NOTED:
        assert asked(eve, verb, f"{PROJECT}/{path}", place).status_code == 404
    lines = audited(portal, eve.name, "denied")
    assert {(one["verb"], one["project_uid"]) for one in lines} == {("access.not-found", demo)}
    told = [(one["data"]["method"].lower(), set(one["data"].values())) for one in reversed(lines)]
    assert [verb for verb, _values in told] == [verb for verb, _path in NOTED]
    for (_verb, values), (_asked, path) in zip(told, NOTED, strict=True):
        named = {things[name] for name in re.findall(r"{(\w+)}", path)}
        assert {"demo", *named} <= values, path


def a_stranger(portal: ClusteredPortal) -> Person:
    """A new one, who is nobody in every project."""
    name = f"eve{secrets.token_hex(4)}"
    portal.shell(
        "from accounts.models import User\n"
        "known = User.objects.get(username='ben').password\n"
        f"User.objects.create(username={name!r}, email='{name}@example.org', password=known)\n"
        "answer = True"
    )
    return Person(portal, name)


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


SOCKETS = {"terminal": "cols=100&rows=30", "exec": "command=id"}
# Method, address and what is sent; of each workspace and volume by its id.
ASKED_OF_GATE: tuple[tuple[str, str, dict[str, Any]], ...] = (
    ("get", "files/{workspace}/list", {}),
    ("get", "files/{workspace}/download?path=.profile", {}),
    ("get", "files/{workspace}/archive?path=.", {}),
    ("put", "files/{workspace}/upload?path=strange", {"content": b"from a stranger"}),
    ("post", "files/{workspace}/act", {"json": {"act": "mkdir", "path": "strange"}}),
    ("get", "logs/{workspace}", {}),
    ("get", "volumes/{volume}/list", {}),
    ("get", "volumes/{volume}/info", {}),
    ("get", "volumes/{volume}/zip?path=.", {}),
    ("put", "volumes/{volume}/file?path=strange", {"content": b"from a stranger"}),
    ("post", "volumes/{volume}/uploads", {"json": {"path": "strange", "size": 4}}),
    ("post", "volumes/{volume}/mkdir", {"json": {"path": "strange"}}),
    ("post", "volumes/{volume}/delete", {"json": {"paths": ["strange"]}}),
)


@pytest.mark.usefixtures("untouched")
def test_a1_nor_through_the_gate(cyd: Person, things: dict[str, str]) -> None:
    until(lambda: answers(f"{gate_url(cyd.portal)}/livez"), 180)
    unknown = nowhere(things)

    def refusal(ids: dict[str, str], way: str) -> dict[str, Any]:
        with terminal(cyd, {"id": ids["workspace"]}, SOCKETS[way], way=way) as ws:
            said = told(ws)
        assert said["code"] == "not-found"
        return {name: plain(str(value), ids) for name, value in said.items()}

    for way in SOCKETS:
        assert refusal(things, way) == refusal(unknown, way)
    before = in_the_files(cyd.portal, things)
    with files(cyd) as http:
        for verb, path, sent in ASKED_OF_GATE:
            own_page = {"Sec-Fetch-Site": "same-origin"}
            theirs, nobodys = (
                http.request(verb, f"{GATE}{path.format(**ids)}", headers=own_page, **sent)
                for ids in (things, unknown)
            )
            assert (theirs.status_code, nobodys.status_code) == (404, 404), path
            assert plain(theirs.text, things) == plain(nobodys.text, unknown)
    assert in_the_files(cyd.portal, things) == before


def in_the_files(portal: ClusteredPortal, ids: dict[str, str]) -> list[list[str]]:
    """What ann sees in her home, and in her volume: she is let in by the same ways."""
    with files(Person(portal, "ann")) as http:
        lists = (f"files/{ids['workspace']}/list", f"volumes/{ids['volume']}/list")
        found = [ok(http.get(f"{GATE}{path}")).json()["entries"] for path in lists]
    return [sorted(entry["name"] for entry in entries) for entries in found]


@needs_ssh
@pytest.mark.usefixtures("untouched")
def test_a1_nor_by_ssh_and_the_refusal_is_in_the_audit_log(
    cyd: Person, things: dict[str, str], tmp_path: Path
) -> None:
    """The way is open: the owner's own key enters."""
    until(lambda: answers(f"{gate_url(cyd.portal)}/livez"), 180)
    ann, theirs = Person(cyd.portal, "ann"), {"id": things["workspace"]}
    own = register(ann, tmp_path)
    until(lambda: ssh(ann, own, theirs, "true").returncode == 0)
    key = register(cyd, tmp_path)
    for words, extra in ((("id",), ()), ((), ("-W", "localhost:22")), (("sftp",), ("-s",))):
        said, nobodys = (
            ssh(cyd, key, row, *words, extra=extra)
            for row in (theirs, {"id": nowhere(things)["workspace"]})
        )
        assert (said.returncode, said.stdout) == (255, b"")
        assert b"Permission denied" in said.stderr
        assert plain(said.stderr.decode(), things) == plain(
            nobodys.stderr.decode(), nowhere(things)
        )
    with cyd.portal.api(cyd.portal.token("admin")) as admin:

        def noted() -> set[str]:
            found = ok(admin.get("audit", params={"verb": "ssh.denied"})).json()["results"]
            return {one["target_name"] for one in found}

        until(lambda: theirs["id"] in noted(), 60)  # after the connection has ended
