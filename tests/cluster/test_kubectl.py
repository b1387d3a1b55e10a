"""kubectl as members get it: what is one's own, and nothing else (C6, C10)."""

from __future__ import annotations

import os
import subprocess
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from devcluster.kube import Kube
from projects.services.kube import Target, with_token
from runtime.capabilities.tenants import KubeToken, KubeUser, TenantSpec
from runtime.protocol import NotYet
from tests.cluster.asking import answered, is_refused
from tests.cluster.pods import is_ready, pod
from tests.cluster.tenants import World, when_there, world

pytestmark = [pytest.mark.cluster, pytest.mark.pods, pytest.mark.timeout(900)]
ONCE = pytest.mark.flaky(reruns=0)  # what is allowed once is allowed
READY_WITHIN_S = 300.0  # patience with a busy machine
REVOKED_WITHIN_S = 60.0
ALICE, BOB = "a11ce000-0000-4000-8000-000000000001", "b0b00000-0000-4000-8000-000000000002"
GRANT = "6ea47000-0000-4000-8000-00000000000a"
OWN, OTHERS = "ws-a1-0", "ws-b1-0"
SERVE = ["sh", "-c", "echo hello from $HOSTNAME; exec python3 -m http.server 8888"]


@dataclass
class Scene:
    here: World
    spec: TenantSpec
    kubeconfig: Path
    kubectl: str

    def run(self, *arguments: str, timeout: float = 120) -> subprocess.CompletedProcess[str]:
        return answered(
            lambda: subprocess.run(
                [self.kubectl, *arguments],
                env={**os.environ, "KUBECONFIG": str(self.kubeconfig)},
                capture_output=True,
                text=True,
                timeout=timeout,
                check=False,
            )
        )


@pytest.fixture(scope="module")
def scene(
    devcluster: dict[str, Any], kube: Kube, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Scene]:
    here = world(devcluster, kube)
    try:
        alice = KubeUser(ALICE, viewer=True, pods=(OWN,), grants=(GRANT,))
        bob = KubeUser(BOB, viewer=True, pods=(OTHERS,))
        spec = here.ensure(here.tenant("kubectl"), kube_users=(alice, bob))
        image = devcluster["images"]["tool"]["reference"]
        for name in (OWN, OTHERS):
            kube.create(pod(spec.namespace, name, image, command=SERVE))
        kube.create(_idle_set(spec.namespace))
        for name in (OWN, OTHERS):
            kube.until(
                "the pod",
                lambda n=name: is_ready(kube.get("v1", "Pod", n, spec.namespace)),
                READY_WITHIN_S,
            )
        path = tmp_path_factory.mktemp("kubectl") / "config"
        path.write_text(_file(here, spec, GRANT))
        yield Scene(here, spec, path, devcluster["programs"]["kubectl"])
    finally:
        here.close()


def _idle_set(namespace: str) -> dict[str, Any]:
    template = pod(namespace, "idle", "x", labels={"a": "b"})
    del template["spec"]["restartPolicy"]
    metadata = {"labels": {"a": "b"}}
    return {
        "apiVersion": "apps/v1",
        "kind": "StatefulSet",
        "metadata": {"name": "ws-a1", "namespace": namespace},
        "spec": {
            "replicas": 0,
            "serviceName": "",
            "selector": {"matchLabels": {"a": "b"}},
            "template": {"metadata": metadata, "spec": template["spec"]},
        },
    }


def _token(here: World, spec: TenantSpec, grant: str) -> KubeToken:
    return here.driver.kube_token(namespace=spec.namespace, user=ALICE, grant=grant, seconds=900)


def _file(here: World, spec: TenantSpec, grant: str) -> str:
    made = when_there(lambda: _token(here, spec, grant))
    assert 500 < made.expires_at - time.time() <= 905
    access = here.driver.client.access
    pem = access.ca_pem.decode() if isinstance(access.ca_pem, bytes) else access.ca_pem
    target = Target(access.server, pem, "dev", "kubectl", spec.namespace, "alice")
    return with_token(target, token=made.token)


class TestOwn:
    def test_get(self, scene: Scene) -> None:
        said = scene.run("get", "pods,statefulsets,pvc,events", "-o", "name")
        assert said.returncode == 0, said.stderr
        assert {f"pod/{OWN}", f"pod/{OTHERS}"} <= set(said.stdout.split())

    def test_exec(self, scene: Scene) -> None:
        said = scene.run("exec", OWN, "--", "sh", "-c", "id -u; exit 7")
        assert (said.stdout.strip(), said.returncode) == ("1000", 7), said.stderr

    def test_logs(self, scene: Scene) -> None:
        # a pod is ready before its program speaks
        said = scene.here.kube.until("its words", lambda: scene.run("logs", OWN).stdout)
        assert said.strip() == f"hello from {OWN}"

    def test_copy(self, scene: Scene, tmp_path: Path) -> None:
        source = tmp_path / "a file"
        source.write_bytes(os.urandom(100_000))
        assert scene.run("cp", str(source), f"{OWN}:/tmp/there").returncode == 0
        back = scene.run("exec", OWN, "--", "sha256sum", "/tmp/there")
        import hashlib

        assert back.stdout.split()[0] == hashlib.sha256(source.read_bytes()).hexdigest()

    def test_port_forward(self, scene: Scene) -> None:
        listens = (
            "until python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 8888))'"
        )
        scene.run("exec", OWN, "--", "sh", "-c", f"{listens} 2>/dev/null; do sleep 0.2; done")
        forwarding = subprocess.Popen(
            [scene.kubectl, "port-forward", OWN, ":8888"],
            env={**os.environ, "KUBECONFIG": str(scene.kubeconfig)},
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            assert forwarding.stdout is not None
            port = forwarding.stdout.readline().split("127.0.0.1:")[1].split(" ")[0]
            assert (
                httpx.get(f"http://127.0.0.1:{port}/", trust_env=False, timeout=60).status_code
                == 200
            )
        finally:
            forwarding.terminate()
            forwarding.wait(60)
            if forwarding.stdout is not None:
                forwarding.stdout.close()


FORBIDDEN = {
    "exec into another's": ("exec", OTHERS, "--", "id"),
    "another's log": ("logs", OTHERS),
    "ports of another's": ("port-forward", OTHERS, ":8888"),
    "attach": ("attach", OWN),
    "pods everywhere": ("get", "pods", "--all-namespaces"),
    "pods of the system": ("get", "pods", "--namespace", "kube-system"),
    "secrets": ("get", "secrets"),
    "configmaps": ("get", "configmaps"),
    "a pod of one's own making": ("run", "mine", "--image=x"),
    "a job": ("create", "job", "mine", "--image=x"),
    "a deployment": ("create", "deployment", "mine", "--image=x"),
    "scaling": ("scale", "statefulset", "ws-a1", "--replicas=5"),
    "deleting": ("delete", "pod", OWN),
    "labels of the namespace": ("label", "namespace", "--all", "a=b"),
    "a label of a pod": ("label", "pod", OWN, "app=proxy"),
    "a debugging container": ("debug", OWN, "--image=x", "--attach=false"),
    "a binding": ("create", "rolebinding", "mine", "--clusterrole=admin", "--user=me"),
    "a token of another account": ("create", "token", "default"),
    "network policies": ("delete", "networkpolicy", "--all"),
    "nodes": ("get", "nodes"),
    "other people": ("get", "pods", "--as=system:admin"),
}


@ONCE
@pytest.mark.parametrize("what", FORBIDDEN)
def test_c6_everything_else_is_forbidden(scene: Scene, what: str) -> None:
    said = scene.run(*FORBIDDEN[what])
    assert said.returncode != 0
    assert "forbidden" in said.stderr.lower(), said.stderr


DANGEROUS = [
    *[(v, "", "pods") for v in ("create", "update", "patch", "delete", "deletecollection")],
    *[(v, "", "secrets") for v in ("get", "list", "watch", "create", "update", "patch", "delete")],
    *[(v, "", "serviceaccounts") for v in ("get", "create", "patch", "impersonate")],
    ("create", "", "serviceaccounts/token"),
    *[("create", "", f"pods/{sub}") for sub in ("exec", "portforward", "attach", "proxy")],
    *[("get", "", f"pods/{sub}") for sub in ("exec", "portforward", "attach", "proxy", "log")],
    *[("patch", "", f"pods/{sub}") for sub in ("ephemeralcontainers", "resize", "status")],
    ("create", "", "pods/eviction"),
    ("create", "", "pods/binding"),
    *[(v, "", "namespaces") for v in ("get", "list", "update", "patch", "delete", "create")],
    *[(v, "", "persistentvolumeclaims") for v in ("create", "patch", "delete")],
    *[(v, "", "persistentvolumes") for v in ("get", "list", "create", "patch")],
    *[(v, "", "resourcequotas") for v in ("patch", "update", "delete")],
    *[(v, "", "limitranges") for v in ("patch", "delete")],
    *[(v, "", "services") for v in ("create", "patch", "proxy")],
    *[("get", "", f"nodes/{sub}") for sub in ("proxy", "log", "stats", "metrics")],
    *[("create", "", "nodes/proxy"), ("get", "", "nodes"), ("list", "", "nodes")],
    *[("impersonate", "", kind) for kind in ("users", "groups")],
    *[
        (v, "apps", kind)
        for kind in ("statefulsets", "deployments", "daemonsets", "replicasets")
        for v in ("create", "patch", "delete")
    ],
    *[("patch", "apps", "statefulsets/scale"), ("create", "batch", "jobs")],
    ("create", "batch", "cronjobs"),
    *[
        (v, "rbac.authorization.k8s.io", kind)
        for kind in ("roles", "rolebindings", "clusterroles", "clusterrolebindings")
        for v in ("create", "patch", "bind", "escalate")
    ],
    *[(v, "networking.k8s.io", "networkpolicies") for v in ("create", "patch", "delete")],
    ("create", "networking.k8s.io", "ingresses"),
    ("create", "gateway.networking.k8s.io", "httproutes"),
    ("create", "k8s.cni.cncf.io", "network-attachment-definitions"),
    ("create", "certificates.k8s.io", "certificatesigningrequests"),
    ("create", "admissionregistration.k8s.io", "mutatingwebhookconfigurations"),
    ("create", "apiextensions.k8s.io", "customresourcedefinitions"),
    ("create", "storage.k8s.io", "storageclasses"),
    ("patch", "kueue.x-k8s.io", "clusterqueues"),
    ("create", "kueue.x-k8s.io", "workloads"),
    ("create", "resource.k8s.io", "resourceclaims"),
    ("*", "*", "*"),
]


def _may(scene: Scene, account: str, verb: str, group: str, resource: str, name: str = "") -> bool:
    kind, _, sub = resource.partition("/")
    asked = {
        "namespace": scene.spec.namespace,
        "verb": verb,
        "group": group,
        "resource": kind,
        "subresource": sub,
        "name": name,
    }
    who = f"system:serviceaccount:{scene.spec.namespace}:{account}"
    groups = ["system:serviceaccounts", f"system:serviceaccounts:{scene.spec.namespace}"]
    said = scene.here.kube.create(
        {
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "metadata": {},
            "spec": {
                "user": who,
                "groups": [*groups, "system:authenticated"],
                "resourceAttributes": {k: v for k, v in asked.items() if v},
            },
        }
    )
    return bool(said["status"]["allowed"])


@ONCE
@pytest.mark.parametrize("account", ["user-a11ce0000000", "default"])
def test_c6_the_whole_dangerous_list_is_denied(scene: Scene, account: str) -> None:
    allowed = [
        (verb, group, resource)
        for verb, group, resource in DANGEROUS
        if _may(scene, account, verb, group, resource)
    ]
    assert allowed == []


@ONCE
def test_c6_the_rights_are_those_and_for_those_pods(scene: Scene) -> None:
    account = "user-a11ce0000000"
    for verb, resource in (
        ("create", "pods/exec"),
        ("get", "pods/log"),
        ("create", "pods/portforward"),
    ):
        assert _may(scene, account, verb, "", resource, OWN)
        assert not _may(scene, account, verb, "", resource, OTHERS)
    assert _may(scene, account, "list", "", "pods")
    assert not _may(scene, "user-b0b000000000", "list", "", "pods")  # holds no kubeconfig


@ONCE
class TestRevocation:
    def test_a3_a_revoked_file_ends_within_a_minute_and_another_one_goes_on(
        self, scene: Scene, tmp_path: Path
    ) -> None:
        """Last in the module: it takes all grants away.

        The best of two: something else may hold a small machine meanwhile.
        """
        took = []
        for number in range(2):
            took.append(_revoked(scene, tmp_path / str(number)))
            if max(took[-1]) < REVOKED_WITHIN_S:
                return
        raise AssertionError(took)


def _revoked(scene: Scene, folder: Path) -> tuple[float, float]:
    """Give two grants and take one after the other; return how long each file went on."""
    here, kube, grants = scene.here, scene.here.kube, (str(uuid.uuid4()), str(uuid.uuid4()))
    alice = KubeUser(ALICE, viewer=True, pods=(OWN,), grants=grants)
    here.ensure(scene.spec, kube_users=(alice,))
    folder.mkdir()
    first, second = files = [replace(scene, kubeconfig=folder / grant) for grant in grants]
    for one, grant in zip(files, grants, strict=True):
        one.kubeconfig.write_text(_file(here, scene.spec, grant))
        kube.until("its rights", lambda one=one: one.run("get", "pods").returncode == 0)
    here.ensure(scene.spec, kube_users=(replace(alice, grants=grants[1:]),))
    took = _until_refused(first)
    assert second.run("exec", OWN, "--", "true").returncode == 0
    with pytest.raises(NotYet):
        _token(here, scene.spec, grants[0])
    here.ensure(scene.spec, kube_users=())
    return took, _until_refused(second)


def _until_refused(scene: Scene) -> float:
    started = time.monotonic()
    scene.here.kube.until("a refusal", lambda: is_refused(scene.run("get", "pods")), READY_WITHIN_S)
    return time.monotonic() - started
