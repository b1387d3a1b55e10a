"""People at containers with GPUs on the real cluster, and what ends with them.

One container as its user has it (terminal, SSH, kubectl), GPUs that are one's own (C14), an image
that asks for more (C4), no token inside (C5), forged headers from inside (A4), leftovers (E11), and a
person who is disabled while inside (A3).
"""

from __future__ import annotations

import contextlib
import json
import shlex
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from websockets.exceptions import InvalidStatus

from devcluster.kube import Kube
from runtime.drivers.kubernetes import names
from tests.cluster import dials
from tests.cluster.pods import pod
from tests.cluster.test_isolation import LOOK
from tests.cluster.test_root_images import image_of
from tests.cluster.visitors import BASE, Person, named, portal_of_people, until
from tests.cluster.ways import (
    SSH,
    Kubectl,
    answers,
    gate_url,
    needs_ssh,
    register,
    screen,
    ssh,
    terminal,
    told,
)
from tests.security.test_a4_headers import FORGED, PAGES
from tests.support.clustered import KEY, ClusteredPortal, ok

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.real,
    pytest.mark.timeout(900),
    pytest.mark.long(
        "minutes of waiting; each way in: test_gate.py, test_kubectl.py; C4: drivers/kubernetes/test_devices.py; E11: test_leftovers.py"
    ),
]
WAIT = ["bash", "-c", "trap 'exit 0' TERM; sleep 3600 & wait"]
GPUS = "nvidia.com/gpu"
SAY_GPUS = "echo gpus=[$NVIDIA_VISIBLE_DEVICES]"
LOST_WITHIN_S = 60.0
# Two passes of the collection, a grace of 90 s between them, and one more where it must wait.
COLLECTED_WITHIN_S = 300.0


@pytest.fixture(scope="module")
def portal(devcluster: dict[str, Any]) -> Iterator[ClusteredPortal]:
    with portal_of_people(devcluster, "pip") as running:
        with running.api(running.token("admin")) as admin:
            pool = {"name": "real", "node_labels": {"kubernetes.io/hostname": devcluster["node"]}}
            ok(admin.post(f"clusters/{KEY}/pools", json=pool))
        until(lambda: answers(f"{gate_url(running)}/livez"), 180)
        yield running


@pytest.fixture(scope="module")
def key(ann: Person, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return register(ann, tmp_path_factory.mktemp("keys"))


@pytest.fixture(scope="module")
def row(ann: Person) -> dict[str, Any]:
    """One running container with one GPU, for the tests here."""
    return ann.launch(**body(ann, "with-gpu", gpus=1))


def body(person: Person, name: str, gpus: int = 0) -> dict[str, Any]:
    return {
        "kind": "container",
        "cluster": KEY,
        "name": named(name),
        "image": person.portal.state["images"]["tool"]["reference"],
        "command": WAIT,
        "gpus": gpus,
        "pool": "real",
        "cpu_milli": 200,
        "memory_mib": 256,
    }


def pod_of(kube: Kube, row: dict[str, Any]) -> dict[str, Any]:
    (found,) = kube.list("v1", "Pod", labelSelector=f"berth.dev/uid={row['uid']}")
    return dict(found)


LEFT = ("set", "pod")
OTHERS = ("another's", "another Berth's", "nobody's")


@pytest.fixture(scope="module")
def leftovers(kube: Kube, ann: Person, row: dict[str, Any]) -> dict[str, str]:
    """What looks like ours and stands for nothing: made early, looked at last.

    Some are another's: by their prefix, by the mark of another Berth, and by having none.
    """
    ours = pod_of(kube, row)["metadata"]
    namespace, mark = ours["namespace"], ours["labels"][names.INSTALLATION]
    uids = {word: str(uuid4()) for word in (*LEFT, *OTHERS)}
    for word, uid in uids.items():
        prefix = "another-" if word == "another's" else ann.portal.prefix
        whose = {"another Berth's": str(uuid4()), "nobody's": ""}.get(word, mark)
        labels = names.labels(prefix, whose, uid=uid, kind="workspace")
        name = f"ws-{uid[:8]}"
        owner, itself = _stray(ann, namespace, name, labels)
        kube.create(
            {
                "apiVersion": "v1",
                "kind": "Secret",
                "metadata": {"name": name, "namespace": namespace, "labels": labels},
            }
        )
        kube.create(owner if word == "set" else itself)
        kube.until(
            "the leftover's pod",
            lambda u=uid: kube.list("v1", "Pod", labelSelector=f"berth.dev/uid={u}"),
        )
    return uids


def _stray(
    person: Person, namespace: str, name: str, labels: dict[str, str]
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a StatefulSet, and the pod that it would have."""
    size = {"cpu": "50m", "memory": "64Mi"}
    image = person.portal.state["images"]["tool"]["reference"]
    resources = {"requests": size, "limits": size}
    itself = pod(namespace, f"{name}-0", image, command=WAIT, resources=resources, labels=labels)
    template = {k: v for k, v in itself["spec"].items() if k != "restartPolicy"}
    owner = {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": name, "namespace": namespace, "labels": labels},
        "spec": {
            "replicas": 1,
            "serviceName": "",
            "selector": {"matchLabels": {"berth.dev/uid": labels["berth.dev/uid"]}},
            "template": {"metadata": {"labels": labels}, "spec": template},
        },
    }
    return owner, itself


@pytest.mark.usefixtures("leftovers")
class TestOneGpu:
    def test_the_pod_has_one_gpu_of_the_node(
        self, kube: Kube, row: dict[str, Any], devcluster: dict[str, Any]
    ) -> None:
        spec = pod_of(kube, row)["spec"]
        assert spec["nodeName"] == devcluster["node"]
        assert spec["containers"][0]["resources"]["limits"][GPUS] == "1"

    def test_a_terminal_answers(self, ann: Person, row: dict[str, Any]) -> None:
        with terminal(ann, row) as ws:
            assert told(ws)["type"] == "ready"
            # What was typed comes back too: only the sum is the program's own word.
            ws.send(b'[ "$NVIDIA_VISIBLE_DEVICES" != void ] && echo sees-$((40+2))\r')
            screen(ws, b"sees-42")

    def test_b5_a_script_of_another_page_gets_no_terminal(
        self, ann: Person, row: dict[str, Any]
    ) -> None:
        a_workspaces = f"http://{row['id']}.nb.localhost:{ann.portal.port + 1}"
        for page in (a_workspaces, "https://evil.example", "null"):
            with pytest.raises(InvalidStatus) as refused, terminal(ann, row, page=page):
                pass
            assert refused.value.response.status_code == 403, page

    @needs_ssh
    def test_ssh_enters(self, ann: Person, row: dict[str, Any], key: Path) -> None:
        said = ssh(ann, key, row, f"hostname; {SAY_GPUS}")
        name, gpus = said.stdout.decode().split()
        assert (said.returncode, name) == (0, f"ws-{row['id']}-0"), said.stderr
        assert "void" not in gpus

    def test_kubectl_enters_and_only_work_without_gpus_is_told_to_see_none(
        self, ann: Person, row: dict[str, Any], tmp_path: Path
    ) -> None:
        none = ann.launch(**body(ann, "no-gpu"))
        kubectl = Kubectl(ann, tmp_path)
        with_one = until(lambda: (r := kubectl.inside(row, SAY_GPUS)).returncode == 0 and r)
        assert "void" not in with_one.stdout
        without = until(lambda: (r := kubectl.inside(none, SAY_GPUS)).returncode == 0 and r)
        assert without.stdout.strip() == "gpus=[void]"
        ok(ann.api.delete(f"{BASE}/{none['id']}"))


def test_c14_a_gpu_is_one_containers_own_and_who_finds_none_waits_and_then_starts(
    ann: Person, kube: Kube, row: dict[str, Any], devcluster: dict[str, Any]
) -> None:
    node = kube.get("v1", "Node", devcluster["node"])
    assert node is not None
    count = int(node["status"]["allocatable"][GPUS])
    made: list[dict[str, Any]] = []

    def asked(name: str) -> dict[str, Any]:
        made.append(ok(ann.api.post(BASE, json=body(ann, name, gpus=1))).json())
        return made[-1]

    def waits() -> Any:
        status = ann.api.get(f"{BASE}/{late['id']}").json()["status"]
        return status if status["reason"] == "nodes-full" else None

    try:
        first = [asked(f"gpu-{number}") for number in range(1, count)]
        rows = [row, *[ann.settle(one) for one in first]]
        late = asked("gpu-late")
        status = until(waits)
        assert status["phase"] == "pending"
        assert f"{GPUS} (1)" in status["message"]  # of all nodes only this one would do
        time.sleep(3)
        assert waits()
        assert "nodeName" not in pod_of(kube, late)["spec"]

        ann.act(rows[-1], "stop", "stopped")
        ann.settle(late)
    finally:  # who tries again needs every GPU
        for one in made:
            ok(ann.api.delete(f"{BASE}/{one['id']}"))
        until(lambda: all(ann.api.get(f"{BASE}/{m['id']}").status_code == 404 for m in made))


# By the program that the image would load into everything, and by what it has in its environment.
ENVIRONMENT = "env | grep -E '^(LD_|NVIDIA_)' | sort"
EMPTIED = ["LD_AUDIT=", "LD_PRELOAD="]


def entered_by_kubectl(kubectl: Kubectl, row: dict[str, Any], script: str) -> list[str]:
    """The lines that it says inside; rights for a new pod come a moment later."""
    said = until(lambda: (r := kubectl.inside(row, script)).returncode == 0 and r)
    return list(said.stdout.splitlines())


def test_c4_what_an_image_asks_of_the_nodes_hooks_is_void_inside(
    ann: Person, kube: Kube, devcluster: dict[str, Any], tmp_path: Path
) -> None:
    """It is there where nobody takes it out: in a pod of the test's own, beside.

    Which GPUs one with GPUs sees is for the device plugin to say, and this cluster has none.
    """
    image, kubectl = image_of(devcluster, "greedy"), Kubectl(ann, tmp_path)
    rows = [ann.launch(**{**body(ann, "greedy", gpus), "image": image}) for gpus in (0, 1)]
    try:
        none, one = (entered_by_kubectl(kubectl, row, ENVIRONMENT) for row in rows)
        namespace = pod_of(kube, rows[0])["metadata"]["namespace"]
        assert greedy_as_it_is(kube, namespace, image) == [
            "LD_AUDIT=/opt/of-the-image.so",
            "LD_PRELOAD=/opt/of-the-image.so",
            "NVIDIA_DRIVER_CAPABILITIES=all",
            "NVIDIA_VISIBLE_DEVICES=all",
        ]
        assert [*EMPTIED, "NVIDIA_VISIBLE_DEVICES=void"] == [
            line for line in none if not line.startswith("NVIDIA_DRIVER_CAPABILITIES")
        ]  # with none to see, what could be done with them says nothing
        assert [*EMPTIED, "NVIDIA_DRIVER_CAPABILITIES=compute,utility"] == [
            line for line in one if not line.startswith("NVIDIA_VISIBLE_DEVICES")
        ]
        main = [entered_by_kubectl(kubectl, r, "tr '\\0' '\\n' < /proc/1/environ") for r in rows]
        assert [set(EMPTIED) <= set(lines) for lines in main] == [True, True]
    finally:
        for row in rows:
            ok(ann.api.delete(f"{BASE}/{row['id']}"))


def greedy_as_it_is(kube: Kube, namespace: str, image: str) -> list[str]:
    """Its first program already tells that what it is made to load is not there."""
    size = {"cpu": "50m", "memory": "64Mi"}
    resources = {"requests": size, "limits": size}
    command = ["sh", "-c", f"({ENVIRONMENT}) 2>/dev/null"]
    made = pod(namespace, named("greedy"), image, command=command, resources=resources)
    kube.create(made)
    try:
        lines = str(dials.printed(kube, made)).splitlines()
        return [line for line in lines if not line.startswith("ERROR: ld.so: ")]
    finally:
        kube.delete("v1", "Pod", made["metadata"]["name"], namespace)


# What a notebook has of the portal: its own token there, and a setting.
PORTALS = ("JUPYTERHUB_API_TOKEN=", "JUPYTERHUB_ALLOW_TOKEN_IN_URL=")


def test_c5_no_token_is_in_what_berth_launched(
    ann: Person, kube: Kube, row: dict[str, Any], tmp_path: Path
) -> None:
    """A container with a GPU, and a notebook. That who looks so finds one: test_isolation.py."""
    lab, kubectl = ann.launch(name=named("lab")), Kubectl(ann, tmp_path)
    try:
        for one in (row, lab):
            lines = entered_by_kubectl(kubectl, one, f"({LOOK}) 2>/dev/null")
            assert lines[-1] == "looked"
            assert [found for found in lines[:-1] if not found.startswith(PORTALS)] == []
            spec = pod_of(kube, one)["spec"]
            assert spec["automountServiceAccountToken"] is False
            mounted = [v for v in spec.get("volumes", []) if "projected" in v]
            assert mounted == []
    finally:
        ok(ann.api.delete(f"{BASE}/{lab['id']}"))


FORGE = """
import json, sys, urllib.error, urllib.request
base, paths, headers = json.loads(sys.argv[1])
found = {}
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
for path in paths:
    try:
        answer = opener.open(urllib.request.Request(base + path, headers=headers), timeout=60)
    except urllib.error.HTTPError as error:
        answer = error
    found[path] = [answer.status, "Set-Cookie" in answer.headers]
print(json.dumps(found))
"""


def test_a4_forged_headers_from_a_pod_are_nobody_on_the_listener_of_workloads(
    ann: Person, row: dict[str, Any], tmp_path: Path
) -> None:
    headers = {k: "admin" if v == "olga" else v for k, v in FORGED.items()}  # who exists here
    given = json.dumps([ann.portal.hub_url, PAGES, headers])
    script = f"python3 -c {shlex.quote(FORGE)} {shlex.quote(given)}"
    kubectl = Kubectl(ann, tmp_path)
    said = until(lambda: (r := kubectl.inside(row, script)).returncode == 0 and r)
    found = json.loads(said.stdout)
    assert set(found) == set(PAGES)
    for path, (status, cookie) in found.items():
        assert status in {401, 403, 404}, (path, status)
        assert not cookie, path


@pytest.fixture
def ben(portal: ClusteredPortal) -> Iterator[Person]:
    """Let in again afterwards: else nobody could try it a second time."""
    person = Person(portal, "ben")
    yield person
    set_active(person, active=True)


@needs_ssh
def test_a3_who_is_disabled_while_inside_loses_terminal_ssh_and_kubectl_within_a_minute(
    ann: Person, ben: Person, row: dict[str, Any], tmp_path: Path
) -> None:
    """Terminal and SSH lead into a container that goes on: it is not its end that cuts them."""
    theirs, own = register(ben, tmp_path), ben.launch(**body(ben, "bens"))
    kubectl = Kubectl(ben, tmp_path)
    until(lambda: kubectl.inside(own, "true").returncode == 0)
    ok(ann.api.post(f"{BASE}/{row['id']}/shares", json={"username": "ben"}))
    with contextlib.ExitStack() as stack:
        port = str(ben.portal.port + 5)
        enter = ["ssh", *SSH, "-i", str(theirs), "-p", port, f"{row['id']}@localhost"]
        stay = "echo in; sleep 600"
        by_ssh = entered(stack, [*enter, stay])
        by_kubectl = entered(
            stack, *kubectl.command("exec", f"ws-{own['id']}-0", "--", "sh", "-c", stay)
        )
        ws = stack.enter_context(terminal(ben, row))
        assert told(ws)["type"] == "ready"

        set_active(ben, active=False)
        end = time.monotonic() + LOST_WITHIN_S
        assert told(ws, LOST_WITHIN_S)["type"] == "error"
        assert by_ssh.wait(end - time.monotonic()) == 255
        assert by_kubectl.wait(end - time.monotonic()) != 0
        until(lambda: kubectl.run("get", "pods").returncode != 0, end - time.monotonic())
    assert ssh(ben, theirs, row, "true").returncode == 255
    assert ben.api.get(BASE).status_code == 401
    assert ann.settle(row)["status"]["phase"] == "running"


def entered(
    stack: contextlib.ExitStack, command: list[str], env: dict[str, str] | None = None
) -> subprocess.Popen[bytes]:
    """Start it, and wait for the word ``in`` of what it runs inside."""
    streams: dict[str, Any] = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE}
    process = stack.enter_context(subprocess.Popen(command, env=env, **streams))
    stack.callback(process.kill)
    assert process.stdout is not None
    assert process.stdout.readline() == b"in\n"
    return process


def set_active(person: Person, *, active: bool) -> None:
    uid = person.portal.shell(
        "from accounts.models import User\n"
        f"answer = str(User.objects.get(username={person.name!r}).uid)"
    )
    with person.portal.api(person.portal.token("admin")) as admin:
        ok(admin.patch(f"users/{uid}", json={"is_active": active}))


def things(kube: Kube, uid: str) -> set[str]:
    kinds = (("apps/v1", "StatefulSet"), ("v1", "Pod"), ("v1", "Secret"))
    mine = f"berth.dev/uid={uid}"
    return {kind for version, kind in kinds if kube.list(version, kind, labelSelector=mine)}


@pytest.mark.parametrize("word", LEFT)
def test_e11_what_stands_for_nothing_is_removed_and_nothing_else_is(
    ann: Person, kube: Kube, row: dict[str, Any], leftovers: dict[str, str], word: str
) -> None:
    """By the worker's own passes; at the end, since a leftover has a time of grace."""
    until(lambda: not things(kube, leftovers[word]), COLLECTED_WITHIN_S)
    for other in OTHERS:
        assert things(kube, leftovers[other]) == {"Pod", "Secret"}, other
    assert ann.settle(row)["status"]["phase"] == "running"


def test_e11_the_removal_is_told(ann: Person, leftovers: dict[str, str]) -> None:
    with ann.portal.api(ann.portal.token("admin")) as admin:

        def removed() -> set[str]:
            found = ok(admin.get("audit", params={"verb": "orphan.removed"})).json()["results"]
            return {one["target_name"] for one in found}

        wanted = {leftovers[word] for word in LEFT}
        until(lambda: len(removed()) >= len(wanted), COLLECTED_WITHIN_S + 60)  # and the next pass
        assert removed() == wanted
