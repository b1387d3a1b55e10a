"""The whole portal on the real cluster: namespaces made, kept, put back, and kubectl for members."""

from __future__ import annotations

import os
import secrets
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

from common.clock import now
from devcluster.kube import Kube
from projects.reconciler import PAUSE_S
from runtime.drivers.kubernetes import names
from tests.cluster.asking import answered, is_refused
from tests.cluster.visitors import named, until
from tests.support.clustered import KEY, ClusteredPortal, ok

pytestmark = [pytest.mark.cluster, pytest.mark.real, pytest.mark.timeout(600)]
ROOT = Path(__file__).resolve().parents[2]
PUT_BACK_WITHIN_S = 10.0
MADE_WITHIN_S = 10.0
LATE_S = 120.0


@pytest.fixture(scope="module")
def portal(devcluster: dict[str, Any]) -> Iterator[ClusteredPortal]:
    made = ClusteredPortal(devcluster, f"h3p-{secrets.token_hex(2)}-")
    try:
        yield made.start()
    finally:
        made.close()


@pytest.fixture(scope="module")
def project(api: httpx.Client) -> str:
    """One that was made a moment ago, by a short name that an earlier try has not taken."""
    slug = f"places-{secrets.token_hex(3)}"
    made = api.post("projects", json={"name": "Ça va? 音声", "slug": slug})
    assert made.status_code == 201, made.text
    return slug


@pytest.fixture(scope="module")
def namespace(api: httpx.Client, project: str) -> str:
    path = f"projects/{project}/places"
    (place,) = until(lambda: [p for p in api.get(path).json() if p["phase"] == "running"], LATE_S)
    return str(place["namespace"])


POLICY = ("networking.k8s.io/v1", "NetworkPolicy")
POLICIES = ("default-deny", "allow-dns", "allow-proxy", "allow-hub", "allow-internet")
BUNDLE = (
    *((*POLICY, name) for name in POLICIES),
    ("v1", "ResourceQuota", "objects"),
    ("v1", "LimitRange", "defaults"),
    ("v1", "ServiceAccount", "default"),
    ("v1", "Secret", "berth-registries"),
)
RBAC = "rbac.authorization.k8s.io/v1"


def test_a_new_project_has_its_whole_bundle_within_ten_seconds(
    kube: Kube, api: httpx.Client
) -> None:
    """The best of three: something else may hold a small machine meanwhile."""
    took = []
    for _ in range(3):
        slug, asked_at = f"bundle-{secrets.token_hex(4)}", time.monotonic()
        made = api.post("projects", json={"name": slug, "slug": slug})
        assert made.status_code == 201, made.text
        namespace = until(lambda slug=slug: _namespace(api, slug), LATE_S)
        until(lambda n=namespace: is_whole(kube, n), LATE_S)
        took.append(time.monotonic() - asked_at)
        assert_closed(kube, namespace)
        if took[-1] <= MADE_WITHIN_S:
            return
    raise AssertionError(took)


def _namespace(api: httpx.Client, slug: str) -> str:
    places = api.get(f"projects/{slug}/places").json()
    return str(places[0]["namespace"] or "") if places else ""


def is_whole(kube: Kube, namespace: str) -> bool:
    """Whether all is there; the account is made by the cluster itself, and then closed."""
    found = [kube.get(*one, namespace) for one in BUNDLE]
    accounts = [one for one in found if one and one["kind"] == "ServiceAccount"]
    return all(found) and accounts[0].get("automountServiceAccountToken") is False


def assert_closed(kube: Kube, namespace: str) -> None:
    """What is there is what keeps a project to itself, and not only called so."""

    def there(version: str, kind: str, name: str, where: str | None = namespace) -> dict[str, Any]:
        found = kube.get(version, kind, name, where)
        assert found is not None, (kind, name)
        return found

    assert there("v1", "ResourceQuota", "objects")["spec"]["hard"]["pods"]
    assert there("v1", "LimitRange", "defaults")["spec"]["limits"]
    deny = there(*POLICY, "default-deny")["spec"]
    assert deny["podSelector"] == {}
    assert set(deny["policyTypes"]) == {"Ingress", "Egress"}
    own = there("v1", "Namespace", namespace, None)["metadata"]["labels"]
    assert own["pod-security.kubernetes.io/enforce"] == "restricted"


@pytest.mark.parametrize(
    ("version", "kind", "name"),
    [
        ("networking.k8s.io/v1", "NetworkPolicy", "default-deny"),
        ("v1", "ResourceQuota", "objects"),
        ("v1", "LimitRange", "defaults"),
    ],
)
def test_what_somebody_deletes_is_back_within_seconds_and_an_event_says_so(
    kube: Kube,
    api: httpx.Client,
    project: str,
    namespace: str,
    version: str,
    kind: str,
    name: str,
) -> None:
    def repairs() -> list[str]:
        rows = api.get(f"projects/{project}/events").json()["results"]
        return [row["message"] for row in rows if row["verb"] == "place.repaired"]

    def told() -> int:
        return sum(f"{kind}/{name}" in message for message in repairs())

    def put_back() -> float:
        time.sleep(PAUSE_S * 2 ** len(repairs()))  # the next one waits half of that
        deleted_at = now()
        assert kube.delete(version, kind, name, namespace)
        again = until(lambda: kube.get(version, kind, name, namespace), LATE_S)
        made_at = datetime.fromisoformat(again["metadata"]["creationTimestamp"])
        return (made_at - deleted_at).total_seconds()

    took, before = [], told()
    for tries in (1, 2):  # something else may hold a small machine meanwhile
        took.append(put_back())
        until(lambda least=tries: told() >= before + least, LATE_S)
        assert told() == before + tries
        if took[-1] < PUT_BACK_WITHIN_S - 1:  # whole seconds
            return
    raise AssertionError(took)


@pytest.fixture(scope="module")
def workspace(portal: ClusteredPortal, api: httpx.Client, project: str) -> dict[str, Any]:
    """A container of the administrator's, running."""
    image = portal.state["images"]["tool"]["reference"]
    preset = portal.preset(
        name=named("Tool"),
        kind="container",
        image=image,
        command=["sh", "-c", "echo it runs; exec tini sleep 3600"],
        cpu_milli=200,
        memory_mib=256,
    )
    made = api.post(
        f"projects/{project}/workspaces", json={"preset": preset, "name": named("tool")}
    )
    assert made.status_code == 202, made.text
    path = f"projects/{project}/workspaces/{made.json()['id']}"
    return dict(
        until(lambda: (r := api.get(path).json())["status"]["phase"] == "running" and r, LATE_S)
    )


def grants_of(api: httpx.Client, project: str) -> str:
    """Where they are, when none is left of what was tried before."""
    grants = f"projects/{project}/kubeconfigs"
    for left in api.get(grants).json()["results"]:
        api.delete(f"{grants}/{left['id']}")
    return grants


def test_an_unmodified_kubectl_works_with_the_downloaded_file_until_it_is_revoked(
    portal: ClusteredPortal,
    api: httpx.Client,
    project: str,
    namespace: str,
    workspace: dict[str, Any],
    tmp_path: Path,
) -> None:
    env = {
        **os.environ,
        "BERTH_CONFIG": str(tmp_path / "config.json"),
        "BERTH_TOKEN": portal.token("admin"),
        "BERTH_URL": portal.url,
        "PATH": f"{ROOT / 'bin'}:{os.environ['PATH']}",
        "KUBECONFIG": str(tmp_path / "kubeconfig"),
    }

    def run(*command: str) -> subprocess.CompletedProcess[str]:
        return answered(
            lambda: subprocess.run(
                command, env=env, capture_output=True, text=True, timeout=120, check=False
            )
        )

    kubectl, grants = portal.state["programs"]["kubectl"], grants_of(api, project)
    made = run("berth", "-p", project, "kube-config", "-f", env["KUBECONFIG"])
    assert made.returncode == 0, made.stderr
    assert "token" not in Path(env["KUBECONFIG"]).read_text()
    # the API server reads what somebody may by a watch of its own
    listed = until(lambda: (r := run(kubectl, "get", "pods")).returncode == 0 and r, LATE_S)
    pod = f"ws-{workspace['id']}-0"
    assert pod in listed.stdout
    # a pod runs before its program speaks
    assert until(lambda: run(kubectl, "logs", pod).stdout, LATE_S).strip() == "it runs"
    asked = run(kubectl, "exec", pod, "--", "sh", "-c", "echo $HOME $(id -u)")
    assert asked.stdout.split() == ["/home/berth", "1000"], asked.stderr
    assert namespace in run(kubectl, "config", "view", "--minify").stdout
    for words in (("get", "pods", "-n", "kube-system"), ("get", "secrets")):
        assert is_refused(said := run(kubectl, *words)), said.stderr
    (grant,) = api.get(grants).json()["results"]
    assert grant["cluster"] == KEY
    assert grant["last_used_at"]
    assert api.delete(f"{grants}/{grant['id']}").status_code == 204
    refused = until(lambda: (r := run(kubectl, "get", "pods")).returncode and r, 60)
    assert "was revoked" in refused.stderr


def test_the_roles_of_who_asks_for_a_kubeconfig_are_there_within_ten_seconds(
    kube: Kube, api: httpx.Client, project: str, namespace: str
) -> None:
    """Nobody has rights in the namespace before: roles are of people, and name their pods."""
    grants = grants_of(api, project)
    until(lambda: not kube.list(RBAC, "Role", namespace), LATE_S)
    took = []
    for _ in (1, 2, 3):
        asked_at = time.monotonic()
        asked = {"cluster": KEY, "kind": "token", "hours": 1}
        made = api.post(grants, json=asked)
        assert made.status_code == 201, made.text
        for kind in ("Role", "RoleBinding"):
            until(lambda k=kind: kube.list(RBAC, k, namespace), LATE_S)
        took.append(time.monotonic() - asked_at)
        (role,) = kube.list(RBAC, "Role", namespace)
        (binding,) = kube.list(RBAC, "RoleBinding", namespace)
        assert binding["roleRef"]["name"] == role["metadata"]["name"]
        assert "*" not in {word for rule in role["rules"] for word in rule["verbs"]}
        assert api.delete(f"{grants}/{made.json()['id']}").status_code == 204
        until(lambda: not kube.list(RBAC, "Role", namespace), LATE_S)
        if took[-1] <= MADE_WITHIN_S:
            return
    raise AssertionError(took)


# Into each room that a workspace has: its home, and a volume.
WRITES = """
for place in "$HOME" /volumes/*; do
    mkdir "$place/{mark}" && echo of-{mark} > "$place/{mark}/data"
done
sync; echo done-now; trap 'exit 0' TERM; sleep 3600 & wait
"""
LOOKS = """
find "$HOME" /volumes -name "*{mark}*"
grep -rl of-{mark} "$HOME" /volumes
ls -Ad "$HOME" /volumes/*; echo done-now; trap 'exit 0' TERM; sleep 3600 & wait
"""


@dataclass(frozen=True)
class Tenant:
    """A project of the administrator's with a volume ``papers``, and a container with all it has."""

    slug: str
    namespace: str
    volume: str
    said: str

    def folders(self, kube: Kube) -> dict[str, Path]:
        """Where its volumes lie on the node, which is this machine."""
        found = [
            one
            for one in kube.list("v1", "PersistentVolume")
            if one["spec"].get("claimRef", {}).get("namespace") == self.namespace
        ]
        notes = {one["metadata"]["name"]: one["metadata"]["annotations"] for one in found}
        return {name: Path(note[names.DIRECTORY]) for name, note in notes.items()}


def a_tenant(portal: ClusteredPortal, api: httpx.Client, script: str) -> Tenant:
    """Made by the API, as is its container, whose program is ``script``; returns when it is done."""
    slug = f"tenant-{secrets.token_hex(4)}"
    ok(api.post("projects", json={"name": slug, "slug": slug}))
    namespace = str(until(lambda: _namespace(api, slug), LATE_S))
    wanted = {"name": "papers", "size_mib": 1024, "cluster": KEY}
    volume = ok(api.post(f"projects/{slug}/volumes", json=wanted)).json()["id"]
    path = f"projects/{slug}/volumes/{volume}"
    until(lambda: ok(api.get(path)).json()["phase"] == "running", LATE_S)
    work = {**container(portal, script), "volumes": [volume]}
    made = ok(api.post(f"projects/{slug}/workspaces", json=work)).json()
    mine = f"projects/{slug}/workspaces/{made['id']}"

    def said() -> str:
        text = str(ok(api.get(f"{mine}/logs")).json()["text"])
        return text if "done-now" in text else ""

    until(lambda: ok(api.get(mine)).json()["status"]["phase"] == "running", LATE_S)
    return Tenant(slug, namespace, volume, until(said, LATE_S))


def container(portal: ClusteredPortal, script: str) -> dict[str, Any]:
    return {
        "kind": "container",
        "cluster": KEY,
        "name": named("tool"),
        "image": portal.state["images"]["tool"]["reference"],
        "command": ["sh", "-c", script],
        "cpu_milli": 200,
        "memory_mib": 256,
    }


def delete_whole(api: httpx.Client, slug: str) -> None:
    """With all that it has, while its container runs."""
    assert api.delete(f"projects/{slug}", params={"confirm": slug}).status_code == 202
    until(lambda: api.get(f"projects/{slug}").status_code == 404, 2 * LATE_S)


def left_of(mark: str, top: Path) -> list[Path]:
    """Whatever is named so below the folder of all volumes, wherever it was moved."""
    return [
        Path(at, name)
        for at, folders, files in os.walk(top)
        for name in (*folders, *files)
        if mark in name
    ]


def test_c9_what_a_deleted_project_wrote_is_wiped_and_no_new_tenant_finds_it(
    portal: ClusteredPortal, api: httpx.Client, kube: Kube
) -> None:
    mark, top = f"old-{secrets.token_hex(6)}", Path(portal.state["volumes"])
    old = a_tenant(portal, api, WRITES.replace("{mark}", mark))
    before = old.folders(kube)
    written = [at for at in before.values() if (at / mark / "data").exists()]
    assert len(written) == 2, before  # its home, and what it asked for
    assert {(at / mark / "data").read_text() for at in written} == {f"of-{mark}\n"}
    assert set(left_of(mark, top)) == {at / mark for at in written}  # who looks so finds it

    delete_whole(api, old.slug)
    until(lambda: not any(kube.get("v1", "PersistentVolume", name) for name in before), LATE_S)
    until(lambda: kube.get("v1", "Namespace", old.namespace) is None, LATE_S)
    assert [folder for folder in before.values() if folder.exists()] == []
    assert left_of(mark, top) == []

    new = a_tenant(portal, api, LOOKS.replace("{mark}", mark))  # of the same class and place
    try:
        assert mark not in new.said
        assert "/volumes/papers" in new.said.split()
        after = new.folders(kube)
        assert len(after) >= len(written)
        assert not set(after) & set(before)
        assert not set(after.values()) & set(before.values())
        asked = {**container(portal, "true"), "volumes": [old.volume]}
        refused = api.post(f"projects/{new.slug}/workspaces", json=asked)
        assert refused.status_code in {400, 404}, refused.text
    finally:
        delete_whole(api, new.slug)


def test_a_deleted_project_leaves_no_namespace(
    kube: Kube, api: httpx.Client, project: str, namespace: str
) -> None:
    """Last in the module."""
    gone = api.delete(f"projects/{project}", params={"confirm": project})
    assert gone.status_code in {202, 404}, gone.text  # 404: it went after an earlier try
    until(lambda: kube.get("v1", "Namespace", namespace) is None, LATE_S)
    until(lambda: api.get(f"projects/{project}").status_code == 404, LATE_S)
