"""``BERTH_ROUTER=gateway`` with a real Traefik as the Gateway, and a real pod behind it."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from devcluster.kube import Kube
from devcluster.programs import PROGRAMS, build, go
from runtime.drivers.kubernetes import addresses, kubeconfig
from runtime.drivers.kubernetes.client import KubeClient
from runtime.protocol import RouteEntry
from runtime.routers.gateway import API, Gateway, GatewayRouter, objects
from tests.cluster.conftest import MARK

pytestmark = [pytest.mark.cluster, pytest.mark.slow, pytest.mark.timeout(900)]
CONTROLLER = "traefik.io/gateway-controller"
WITHIN_S = 30.0
INSTANCE = "berth.dev/instance"
# docs/dev/routes.md: from namespaces of projects and from no others
OURS = {"matchExpressions": [{"key": INSTANCE, "operator": "Exists"}]}


def definitions() -> list[dict[str, Any]]:
    """The Gateway API's CRDs, from the module that Traefik is built with."""
    listed = subprocess.run(
        [go(), "list", "-mod=mod", "-m", "-f", "{{.Dir}}", "sigs.k8s.io/gateway-api"],
        cwd=PROGRAMS["traefik"].folder,
        env={**os.environ, "HOME": str(Path.home())},
        capture_output=True,
        text=True,
        check=True,
    )
    folder = Path(listed.stdout.strip()) / "config/crd/standard"
    files = sorted(folder.glob("gateway.networking.k8s.io_*.yaml"))
    return [yaml.safe_load(file.read_text()) for file in files]


@pytest.fixture(scope="module")
def api(kube: Kube) -> Iterator[None]:
    try:
        if not PROGRAMS["traefik"].built():
            build(PROGRAMS["traefik"], print)
        wanted = definitions()
    except Exception as error:  # noqa: BLE001 - whatever keeps it from being built
        pytest.skip(f"Traefik can't be built here: {error}")
    kind = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")
    made = [d for d in wanted if kube.get(*kind, d["metadata"]["name"]) is None]
    for one in made:
        kube.apply(one)
    names = [one["metadata"]["name"] for one in made]
    kube.until("established", lambda: all(established(kube, name) for name in names))
    yield
    for one in made:
        kube.delete(*kind, one["metadata"]["name"])


def established(kube: Kube, name: str) -> bool:
    found = kube.get("apiextensions.k8s.io/v1", "CustomResourceDefinition", name) or {}
    conditions = found.get("status", {}).get("conditions") or []
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)


class Traefik:
    """The real program on a loopback port; ``namespace`` holds its identity and its Gateway."""

    def __init__(self, kube: Kube, state: dict[str, Any], namespace: str, folder: Path) -> None:
        self.kube, self.state, self.namespace, self.folder = kube, state, namespace, folder
        with socket.socket() as one:
            one.bind(("127.0.0.1", 0))
            self.port = one.getsockname()[1]
        self.name = f"test-{secrets.token_hex(3)}"
        self.process: subprocess.Popen[bytes] | None = None

    def prepare(self) -> None:
        own = {"name": self.namespace, "labels": {**MARK, INSTANCE: self.name}}
        self.kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": own})
        account = {"name": "traefik", "namespace": self.namespace}
        self.kube.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": account})
        group = "rbac.authorization.k8s.io"
        self.kube.apply(
            {
                "apiVersion": f"{group}/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": self.name},
                "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "cluster-admin"},
                "subjects": [{"kind": "ServiceAccount", **account}],
            }
        )
        self.kube.apply(
            {
                "apiVersion": API,
                "kind": "GatewayClass",
                "metadata": {"name": self.name},
                "spec": {"controllerName": CONTROLLER},
            }
        )
        listener = {
            "name": "workspaces",
            "protocol": "HTTP",
            "port": self.port,
            "hostname": "*.nb.example.org",
            "allowedRoutes": {"namespaces": {"from": "Selector", "selector": OURS}},
        }
        self.kube.apply(
            {
                "apiVersion": API,
                "kind": "Gateway",
                "metadata": {"name": "public", "namespace": self.namespace},
                "spec": {"gatewayClassName": self.name, "listeners": [listener]},
            }
        )

    def start(self) -> None:
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/traefik/token"
        token = self.kube.request("POST", path, json={"spec": {"expirationSeconds": 3600}})
        gateway = "--providers.kubernetesgateway"
        with (self.folder / "traefik.log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    PROGRAMS["traefik"].kept / "traefik",
                    f"--entrypoints.web.address=127.0.0.1:{self.port}",
                    f"{gateway}=true",
                    f"{gateway}.endpoint={self.state['server']}",
                    f"{gateway}.token={token['status']['token']}",
                    f"{gateway}.certauthfilepath={self.state['authority']}",
                    "--global.checknewversion=false",
                    "--global.sendanonymoususage=false",
                    "--log.level=INFO",
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
            )

    def stop(self) -> None:
        if self.process:
            self.process.terminate()
            self.process.wait(20)

    def remove(self) -> None:
        self.kube.delete(API, "GatewayClass", self.name)
        self.kube.delete("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", self.name)

    def ask(self, host: str, **headers: str) -> httpx.Response | None:
        with suppress(httpx.HTTPError):
            return httpx.get(
                f"http://127.0.0.1:{self.port}/some/path",
                headers={"Host": host, **headers},
                trust_env=False,
                timeout=5,
            )
        return None

    def until(self, host: str, status: int) -> httpx.Response:
        end = time.monotonic() + WITHIN_S
        while time.monotonic() < end:
            answer = self.ask(host)
            if answer is not None and answer.status_code == status:
                return answer
            time.sleep(0.1)
        log = (self.folder / "traefik.log").read_text()[-3000:]
        raise AssertionError(f"{host} did not answer {status}:\n{log}")


@pytest.fixture
def traefik(
    api: None, kube: Kube, devcluster: dict[str, Any], namespace: str, tmp_path: Path
) -> Iterator[Traefik]:
    one = Traefik(kube, devcluster, namespace, tmp_path)
    one.prepare()
    one.start()
    try:
        yield one
    finally:
        one.stop()
        one.remove()


def pod(namespace: str, uid: str, state: dict[str, Any], name: str = "echo") -> dict[str, Any]:
    container = {
        "name": "main",
        "image": state["images"]["echo"]["reference"],
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}},
        "readinessProbe": {"tcpSocket": {"port": 8888}, "periodSeconds": 1},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"berth.dev/uid": uid}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 1},
    }


def test_a_workspaces_host_leads_to_its_pod_until_it_is_dropped(
    traefik: Traefik, kube: Kube, devcluster: dict[str, Any], namespace: str
) -> None:
    uid = secrets.token_hex(8)
    kube.apply(pod(namespace, uid, devcluster))
    address = kube.until("pod", lambda: running(kube, namespace), 60)
    client = KubeClient(
        kubeconfig.parse(Path(devcluster["kubeconfig"]).read_text()),
        check=addresses.check_for(loopback=True),
    )
    gateway = Gateway(namespace, "public", "workspaces", "gwtest-")
    router = GatewayRouter(gateway, lambda: client, lambda _uid: {"namespace": namespace})
    host = f"{uid}.nb.example.org"
    try:
        begun = time.monotonic()
        router.put(RouteEntry(f"/{host}", f"http://{address}:8888", uid))
        assert client.writes == 2
        traefik.until(host, 200)
        print(f"open after {time.monotonic() - begun:.2f} s")  # noqa: T201
        heard = traefik.ask(host, **{"X-Forwarded-User": "root", "X-Auth-Request-Email": "a@b.c"})
        assert heard is not None
        assert "root" not in heard.text
        assert "a@b.c" not in heard.text
        assert traefik.ask("nobody.nb.example.org").status_code == 404  # type: ignore[union-attr]

        traefik.stop()
        traefik.start()
        traefik.until(host, 200)  # nobody had to tell it again

        router.drop(f"/{host}")
        traefik.until(host, 404)
        assert not kube.list("v1", "Service", namespace)
    finally:
        client.close()


@pytest.fixture
def stranger(kube: Kube) -> Iterator[str]:
    """A namespace that is nobody's project."""
    name = f"test-{secrets.token_hex(4)}"
    kube.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": MARK}}
    )
    kube.until("service account", lambda: kube.get("v1", "ServiceAccount", "default", name))
    yield name
    kube.delete("v1", "Namespace", name)


def test_c7_a_host_stays_with_its_pod_when_a_stranger_claims_it(
    traefik: Traefik, kube: Kube, devcluster: dict[str, Any], namespace: str, stranger: str
) -> None:
    """Claimed by hand, from outside of the projects: whoever is in one can't make a route at all
    (``test_kubectl``), and Berth's own rows have one owner for each host (``tests/runtime``)."""
    uid, rival = secrets.token_hex(8), secrets.token_hex(8)
    kube.apply(pod(namespace, uid, devcluster))
    kube.apply(pod(stranger, rival, devcluster, "rival"))
    address = kube.until("pod", lambda: running(kube, namespace), 60)
    theirs = kube.until("the other pod", lambda: running(kube, stranger, "rival"), 60)
    client = KubeClient(
        kubeconfig.parse(Path(devcluster["kubeconfig"]).read_text()),
        check=addresses.check_for(loopback=True),
    )
    gateway = Gateway(namespace, "public", "workspaces", "gwtest-")
    router = GatewayRouter(gateway, lambda: client, lambda _uid: {"namespace": namespace})
    host = f"{uid}.nb.example.org"
    entry = RouteEntry(f"/{host}", f"http://{address}:8888", uid)
    try:
        router.put(entry)
        assert traefik.until(host, 200).json()["host"] == "echo"
        for claim in objects(
            RouteEntry(entry.key, f"http://{theirs}:8888", rival), stranger, gateway
        ):
            kube.apply(claim)
        # the gateway reads both in their order: once the later host answers, it knew the claim
        later = f"{rival}.nb.example.org"
        router.put(RouteEntry(f"/{later}", entry.target, uid))
        traefik.until(later, 200)
        answers = [traefik.ask(host) for _ in range(20)]
        assert [a and (a.status_code, a.json()["host"]) for a in answers] == [(200, "echo")] * 20
        router.drop(f"/{later}")
        router.drop(entry.key)
        traefik.until(host, 404)  # nor does it inherit the host
    finally:
        client.close()


def running(kube: Kube, namespace: str, name: str = "echo") -> str:
    found = kube.get("v1", "Pod", name, namespace) or {}
    status = found.get("status", {})
    ready = any(
        c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions") or []
    )
    return str(status["podIP"]) if ready else ""
