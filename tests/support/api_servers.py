"""etcd and two real API servers on it, for a test that stops one of them. Nothing else runs.

One is the portal's; the other stays up, for whoever acts and looks while the first is away. One
that was started again with settings of its own notes who asked it for what.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from devcluster import pki
from devcluster.control_plane import aggregation, flags
from devcluster.kube import Kube
from devcluster.layout import Layout
from devcluster.programs import binary, unbuilt
from runtime.drivers.kubernetes import kubeconfig
from runtime.drivers.kubernetes.access import KubeAccess
from tests.support.ports import free_ports

READY_WITHIN_S = 120.0
AUDITED = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived", "ResponseStarted"],
    "rules": [{"level": "Metadata"}],
}
PROGRAMS = ("etcd", "kubernetes")


class ApiServers:
    """``kube`` asks the one that stays; ``access`` leads to the one that is stopped."""

    def __init__(self, folder: Path) -> None:
        self.layout = Layout(folder).made()
        pki.make(self.layout)
        self._etcd = free_ports(5)
        self._first, self._second = self._etcd + 2, self._etcd + 3
        self._audit, self._log = self.layout.base / "audit.json", self.layout.logs / "audit.log"
        self._audit.write_text(json.dumps(AUDITED))
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self.access: KubeAccess = replace(
            kubeconfig.parse(self.layout.admin.read_text()),
            server=f"https://127.0.0.1:{self._first}",
        )
        self.kube, self._kube = self._client(self._second), self._client(self._first)

    def start(self) -> None:
        self._run("etcd", self._etcd_words())
        self._run("first", self._server_words(self._first))
        self._run("second", self._server_words(self._second))
        self._await("second", self.kube)
        self._await("first", self._kube)

    def kill(self) -> None:
        process = self._running.pop("first")
        process.kill()
        process.wait()

    def again(self, **more: Any) -> None:
        """Start the killed one, with more settings; return when it says that it is ready."""
        words: dict[str, object] = {k.replace("_", "-"): value for k, value in more.items()}
        if words:
            words = {**words, "audit-policy-file": self._audit, "audit-log-path": self._log}
        self._run("first", [*self._server_words(self._first), *flags(words)])
        self._await("first", self._kube)

    def freeze(self, name: str = "first") -> None:
        """Its connections stay open, are accepted even, and nobody answers."""
        self._running[name].send_signal(signal.SIGSTOP)

    def thaw(self, name: str = "first") -> None:
        self._running[name].send_signal(signal.SIGCONT)

    def account(self) -> KubeAccess:
        """Return what leads to the first one as a service account that may do everything.

        Unlike an administrator by certificate it is turned away where too much is asked at once.
        """
        name, where = "portal", "default"
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole"}
        account = {"kind": "ServiceAccount", "name": name, "namespace": where}
        self.kube.apply(
            {
                "apiVersion": "v1",
                "kind": "ServiceAccount",
                "metadata": {"name": name, "namespace": where},
            }
        )
        self.kube.apply(
            {
                "apiVersion": "rbac.authorization.k8s.io/v1",
                "kind": "ClusterRoleBinding",
                "metadata": {"name": name},
                "roleRef": {**role, "name": "cluster-admin"},
                "subjects": [account],
            }
        )
        path = f"/api/v1/namespaces/{where}/serviceaccounts/{name}/token"
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        token = self.kube.request("POST", path, json=asked)["status"]["token"]
        return replace(self.access, token=token, client_cert_pem="", client_key_pem="")

    def asked(self, agent: str = "berth") -> list[dict[str, Any]]:
        """Return what the first one was asked by whoever calls itself so, as it noted it."""
        lines = self._log.read_text().split("\n")[:-1] if self._log.exists() else []
        return [one for one in map(json.loads, lines) if one.get("userAgent") == agent]

    def close(self) -> None:
        self.kube.close()
        self._kube.close()
        for process in reversed(self._running.values()):
            process.kill()
            process.wait()

    def _run(self, name: str, words: list[str]) -> None:
        with (self.layout.logs / f"{name}.log").open("ab") as log:
            self._running[name] = subprocess.Popen(
                words, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=dict(os.environ)
            )

    def _await(self, name: str, kube: Kube) -> None:
        deadline = time.monotonic() + READY_WITHIN_S
        while not kube.ready():
            if self._running[name].poll() is not None or time.monotonic() > deadline:
                text = (self.layout.logs / f"{name}.log").read_text(errors="replace")
                pytest.fail(f"{name} is not ready:\n{text[-3000:]}")
            time.sleep(0.05)

    def _client(self, port: int) -> Kube:
        content = json.loads(self.layout.admin.read_text())
        content["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{port}"
        path = self.layout.base / f"{port}.kubeconfig"
        pki.write(path, json.dumps(content))
        return Kube(path)

    def _etcd_words(self) -> list[str]:
        client, peer = f"https://127.0.0.1:{self._etcd}", f"http://127.0.0.1:{self._etcd + 1}"
        given = {
            "name": "only",
            "data-dir": self.layout.base / "etcd",
            "listen-client-urls": client,
            "advertise-client-urls": client,
            "listen-peer-urls": peer,
            "initial-advertise-peer-urls": peer,
            "initial-cluster": f"only={peer}",
            "cert-file": self.layout.pki / "etcd.crt",
            "key-file": self.layout.pki / "etcd.key",
            "client-cert-auth": "true",
            "trusted-ca-file": self.layout.pki / "ca.crt",
            "log-level": "warn",
        }
        return [str(binary("etcd")), "--unsafe-no-fsync", *flags(given)]

    def _server_words(self, port: int) -> list[str]:
        keys = self.layout.pki
        given = {
            "bind-address": "127.0.0.1",
            "advertise-address": "127.0.0.1",
            "secure-port": port,
            "etcd-servers": f"https://127.0.0.1:{self._etcd}",
            "etcd-cafile": keys / "ca.crt",
            "etcd-certfile": keys / "apiserver-etcd.crt",
            "etcd-keyfile": keys / "apiserver-etcd.key",
            "client-ca-file": keys / "ca.crt",
            "tls-cert-file": keys / "apiserver.crt",
            "tls-private-key-file": keys / "apiserver.key",
            "service-account-issuer": "https://kubernetes.default.svc",
            "service-account-key-file": keys / "service-accounts.pub",
            "service-account-signing-key-file": keys / "service-accounts.key",
            "authorization-mode": "RBAC",
            "disable-admission-plugins": "ServiceAccount",  # nobody makes accounts here
            "endpoint-reconciler-type": "none",  # its address is a loopback's
            "profiling": "false",
        }
        return [str(binary("kube-apiserver")), *flags(given), *aggregation(keys)]


@contextmanager
def api_servers(folder: Path) -> Iterator[ApiServers]:
    if lacking := unbuilt(PROGRAMS):
        names = ", ".join(program.name for program in lacking)
        pytest.skip(f"not built yet: {names} (make cluster-build)")
    servers = ApiServers(folder)
    try:
        servers.start()
        yield servers
    finally:
        servers.close()
