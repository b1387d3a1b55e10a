"""A release of the chart on the development cluster, with images built from this tree."""

from __future__ import annotations

import base64
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import yaml

from devcluster.kube import Kube
from devcluster.programs import PROGRAMS, build
from tests.deploy import images
from tests.deploy.images import podman
from tests.support.namespaces import remove
from tests.support.portal import ROOT

CHART = ROOT / "deploy/helm/berth"
NAMESPACE, PREFIX, RELEASE = "deploytest", "deploytest-", "berth"
HOST, DOMAIN = "berth.example.org", "nb.example.org"
EXPORT = {"server": "nfs.example", "export": "/vols"}  # only named: nothing mounts it
SMALL = {"requests": {"cpu": "60m", "memory": "64Mi"}, "limits": {"memory": "1Gi"}}
READY_WITHIN_S = 480.0


def helm() -> Path:
    program = PROGRAMS["helm"]
    if not program.built():
        build(program, print)
    return program.kept / "helm"


def run_helm(state: dict[str, Any] | None, *words: str | Path) -> subprocess.CompletedProcess[str]:
    env = {
        **os.environ,
        "HELM_CACHE_HOME": "/tmp/berth-helm",
        "HELM_CONFIG_HOME": "/tmp/berth-helm",
    }
    if state is not None:
        env["KUBECONFIG"] = state["kubeconfig"]
    return subprocess.run(
        [helm(), *map(str, words)], capture_output=True, text=True, env=env, check=False
    )


def values(
    registry: str = "127.0.0.1:5000", tags: dict[str, str] | None = None, lab: str = ""
) -> dict[str, Any]:
    """What a trial on a small cluster sets. ``tags``: name → what follows the repository."""
    refs = {name: f":{(tags or {}).get(name, 'test')}" for name in ("postgres", "redis")}
    own = {
        name: {"repository": f"{registry}/berth/{name}", "tag": (tags or {}).get(name, "test")}
        for name in ("server", "proxy")
    }
    options = {"cpu_overcommit": 10, **({"default_image": lab} if lab else {})}
    return {
        "publicUrl": f"https://{HOST}",
        "notebooks": {"domain": DOMAIN},
        "image": own,
        "web": {"replicas": 3, "resources": SMALL},
        "worker": {"replicas": 1, "resources": SMALL},
        "gate": {"replicas": 1, "resources": SMALL},
        "gateway": {"replicas": 2, "resources": SMALL},
        "proxy": {"replicas": 1, "resources": SMALL},
        "cluster": {
            "namespacePrefix": PREFIX,
            "options": options,
            "nfs": [EXPORT],
            "storage": {"kind": "directory"},  # the development cluster has what makes them
        },
        "postgresql": {
            "enabled": True,
            "image": f"{registry}/berth/postgres{refs['postgres']}",
            "storage": {"ephemeral": True},
            "resources": SMALL,
        },
        "redis": {
            "enabled": True,
            "image": f"{registry}/berth/redis{refs['redis']}",
            "resources": SMALL,
        },
    }


def push(env: dict[str, str], registry: str) -> dict[str, str]:
    """Push the images under tags that say what they are made of; return name → tag."""
    tags = {}
    for name, image in {
        "server": images.SERVER,
        "proxy": images.PROXY,
        "postgres": images.POSTGRES,
        "redis": images.REDIS,
    }.items():
        tags[name] = podman(env, "image", "inspect", "--format", "{{.Id}}", image).strip()[:16]
        target = f"{registry}/berth/{name}:{tags[name]}"
        podman(env, "push", "-q", "--tls-verify=false", image, target)
    return tags


class Release:
    def __init__(self, state: dict[str, Any], kube: Kube, folder: Path) -> None:
        self.state, self.kube, self.folder = state, kube, folder
        self.chosen: dict[str, Any] = {}

    def install(self, chosen: dict[str, Any], verb: str = "install") -> None:
        self.chosen = chosen
        file = self.folder / "values.yaml"
        file.write_text(yaml.safe_dump(chosen))
        done = run_helm(
            self.state, verb, RELEASE, CHART, "-n", NAMESPACE, "-f", file, "--create-namespace"
        )
        assert done.returncode == 0, done.stderr

    def uninstall(self) -> None:
        done = run_helm(self.state, "uninstall", RELEASE, "-n", NAMESPACE, "--wait")
        assert done.returncode == 0 or "not found" in done.stderr, done.stderr

    def wipe(self) -> None:
        """What a removal leaves on purpose."""
        for row in self.kube.list("v1", "Namespace"):
            name = row["metadata"]["name"]
            if name == NAMESPACE or name.startswith(PREFIX):
                remove(self.kube, name)
        chosen = f"berth.dev/instance={PREFIX.strip('-')}"
        for row in self.kube.list("v1", "PersistentVolume", labelSelector=chosen):
            self.kube.delete("v1", "PersistentVolume", row["metadata"]["name"])
        until("namespaces gone", lambda: not self.namespaces(), 300)

    def namespaces(self) -> list[str]:
        rows = self.kube.list("v1", "Namespace")
        names = [row["metadata"]["name"] for row in rows]
        return [name for name in names if name == NAMESPACE or name.startswith(PREFIX)]

    def upgrade(self, **chosen: Any) -> None:
        """Install again with other values; return when the last process has them."""
        self.install({**self.chosen, **chosen}, "upgrade")
        for name in ("web", "worker", "gate", "gateway"):
            self.wait_for(f"deployment/berth-{name}")
        self.wait_for("statefulset/berth-proxy")

    def wait_for(self, kind: str) -> None:
        done = self.kubectl("rollout", "status", kind, f"--timeout={READY_WITHIN_S:.0f}s")
        assert done.returncode == 0, done.stdout + done.stderr

    # --- looking -------------------------------------------------------------------------------

    def pods(self, process: str, *, ending: bool = False) -> list[dict[str, Any]]:
        return [
            row
            for row in self.kube.list("v1", "Pod", NAMESPACE, labelSelector=f"app={process}")
            if ("deletionTimestamp" in row["metadata"]) == ending
        ]

    def ready(self, process: str) -> int:
        return sum(is_ready(pod) for pod in self.pods(process))

    def address(self, service: str) -> str:
        found = self.kube.get("v1", "Service", service, NAMESPACE)
        assert found is not None
        return f"{found['spec']['clusterIP']}:{found['spec']['ports'][0]['port']}"

    def secret(self, key: str) -> str:
        found = self.kube.get("v1", "Secret", "berth-secrets", NAMESPACE)
        assert found is not None
        return base64.b64decode(found["data"][key]).decode()

    def kubectl(self, *words: str) -> subprocess.CompletedProcess[str]:
        program = self.state["programs"]["kubectl"]
        return subprocess.run(
            [program, "--kubeconfig", self.state["kubeconfig"], "-n", NAMESPACE, *words],
            capture_output=True,
            text=True,
            check=False,
        )


class Browser:
    """Speaks to a Service as an ingress that ends TLS would."""

    def __init__(self, address: str) -> None:
        self.cookies: dict[str, str] = {}
        self.http = httpx.Client(
            base_url=f"http://{address}",
            trust_env=False,
            timeout=90,  # a small machine hashes a password slowly
            headers={
                "Host": HOST,
                "X-Forwarded-Proto": "https",
                "X-Forwarded-For": "192.0.2.7",
                "Referer": f"https://{HOST}/",
            },
        )

    def ask(
        self, method: str, path: str, headers: dict[str, str] | None = None, **more: Any
    ) -> httpx.Response:
        headers = dict(headers or {})
        headers["Cookie"] = "; ".join(f"{k}={v}" for k, v in self.cookies.items())
        if token := self.cookies.get("__Host-berth_csrf"):
            headers["X-CSRFToken"] = token
        answer = self.http.request(method, path, headers=headers, **more)
        for line in answer.headers.get_list("set-cookie"):
            name, _, value = line.split(";")[0].partition("=")
            self.cookies[name] = value
        self.http.cookies.clear()  # marked Secure: kept by hand
        return answer

    def sign_in(self, password: str) -> httpx.Response:
        self.ask("GET", "/accounts/login/")
        token = self.cookies["__Host-berth_csrf"]
        form = {"login": "admin", "password": password, "csrfmiddlewaretoken": token}
        return self.ask("POST", "/accounts/login/", data=form)


def is_ready(pod: dict[str, Any]) -> bool:
    conditions = pod.get("status", {}).get("conditions") or []
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


def until(what: str, probe: Callable[[], Any], within_s: float = READY_WITHIN_S) -> Any:
    end = time.monotonic() + within_s
    while not (found := probe()):
        if time.monotonic() > end:
            message = f"{what}: not within {within_s:.0f} s"
            raise AssertionError(message)
        time.sleep(0.5)
    return found
