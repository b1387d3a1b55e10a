"""A real Traefik as the Gateway of the tests."""

from __future__ import annotations

import fcntl
import os
import secrets
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from devcluster.kube import Kube
from devcluster.programs import PROGRAMS, build, go
from runtime.routers.gateway import API
from tests.cluster.conftest import MARK
from tests.support.ports import free_port

CONTROLLER = "traefik.io/gateway-controller"
WITHIN_S = 120.0
INSTANCE = "berth.dev/instance"
# Each program looks at its own class only: two lanes of the tests may have one.
OWN = "berth.dev/test-gateway"
CRD = ("apiextensions.k8s.io/v1", "CustomResourceDefinition")
IN_USE = Path(tempfile.gettempdir()) / "berth-test-gateway-api.lock"
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


@contextmanager
def gateway_api(kube: Kube) -> Iterator[None]:
    """The definitions, and the program built; skips where it can't be.

    Whoever needs them last takes those away that the tests made.
    """
    try:
        if not PROGRAMS["traefik"].built():
            build(PROGRAMS["traefik"], print)
        wanted = definitions()
    except Exception as error:  # noqa: BLE001 - whatever keeps it from being built
        pytest.skip(f"Traefik can't be built here: {error}")
    names = [one["metadata"]["name"] for one in wanted]
    with IN_USE.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_SH)
        for one in wanted:
            if kube.get(*CRD, one["metadata"]["name"]) is None:
                one["metadata"].setdefault("labels", {}).update(MARK)
                kube.apply(one)
        kube.until("established", lambda: all(established(kube, name) for name in names))
        kube.until("served", lambda: all(served(kube, one["spec"]) for one in wanted))
        try:
            yield
        finally:
            with suppress(BlockingIOError):
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                take_away(kube)


def take_away(kube: Kube) -> None:
    def made() -> list[Any]:
        return list(kube.list(*CRD, labelSelector=",".join(f"{k}={v}" for k, v in MARK.items())))

    for one in made():
        kube.delete(*CRD, one["metadata"]["name"])
    kube.until("definitions gone", lambda: not made())


def established(kube: Kube, name: str) -> bool:
    found = kube.get(*CRD, name) or {}
    conditions = found.get("status", {}).get("conditions") or []
    return any(c["type"] == "Established" and c["status"] == "True" for c in conditions)


def served(kube: Kube, spec: dict[str, Any]) -> bool:
    """Established is said first; a program that asks before discovery knows it gives up on it."""
    plural = spec["names"]["plural"]
    for version in spec["versions"]:
        if not version["served"]:
            continue
        path = f"/apis/{spec['group']}/{version['name']}"
        if plural not in {one["name"] for one in kube.request("GET", path)["resources"]}:
            return False
        kube.request("GET", f"{path}/{plural}", params={"limit": "1"})
    return True


class Traefik:
    """The real program on a loopback port; ``namespace`` holds its identity and its Gateway.

    ``portal`` is the host of the portal, where that is behind it too.
    """

    def __init__(
        self,
        kube: Kube,
        state: dict[str, Any],
        namespace: str,
        folder: Path,
        domain: str = "nb.example.org",
        portal: str = "",
    ) -> None:
        self.kube, self.state, self.namespace, self.folder = kube, state, namespace, folder
        self.domain, self.portal = domain, portal
        self.port = free_port()  # kept over a restart
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
                "metadata": {"name": self.name, "labels": {OWN: self.name}},
                "spec": {"controllerName": CONTROLLER},
            }
        )
        hosts = {"workspaces": f"*.{self.domain}", "portal": self.portal}
        listeners = [
            {
                "name": name,
                "protocol": "HTTP",
                "port": self.port,
                "hostname": host,
                "allowedRoutes": {"namespaces": {"from": "Selector", "selector": OURS}},
            }
            for name, host in hosts.items()
            if host
        ]
        self.kube.apply(
            {
                "apiVersion": API,
                "kind": "Gateway",
                "metadata": {"name": "public", "namespace": self.namespace},
                "spec": {"gatewayClassName": self.name, "listeners": listeners},
            }
        )

    def start(self, more: Sequence[str] = ()) -> None:
        path = f"/api/v1/namespaces/{self.namespace}/serviceaccounts/traefik/token"
        token = self.kube.request("POST", path, json={"spec": {"expirationSeconds": 3600}})
        gateway = "--providers.kubernetesgateway"
        with (self.folder / "traefik.log").open("ab") as log:
            self.process = subprocess.Popen(
                [
                    PROGRAMS["traefik"].kept / "traefik",
                    f"--entrypoints.web.address=127.0.0.1:{self.port}",
                    f"{gateway}=true",
                    f"{gateway}.labelselector={OWN}={self.name}",
                    f"{gateway}.endpoint={self.state['server']}",
                    f"{gateway}.token={token['status']['token']}",
                    f"{gateway}.certauthfilepath={self.state['authority']}",
                    "--global.checknewversion=false",
                    "--global.sendanonymoususage=false",
                    "--log.level=INFO",
                    *more,
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                cwd=self.folder,
            )

    def stop(self) -> None:
        if self.process:
            self.process.terminate()
            self.process.wait(60)

    def remove(self) -> None:
        self.kube.delete(API, "GatewayClass", self.name)
        self.kube.delete("rbac.authorization.k8s.io/v1", "ClusterRoleBinding", self.name)

    def ask(self, host: str, **headers: str) -> httpx.Response | None:
        with suppress(httpx.HTTPError):
            return httpx.get(
                f"http://127.0.0.1:{self.port}/some/path",
                headers={"Host": host, **headers},
                trust_env=False,
                timeout=30,
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
