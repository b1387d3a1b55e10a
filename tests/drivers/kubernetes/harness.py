"""The Kubernetes driver against the development cluster, in namespaces of the test's own."""

import json
import secrets
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from devcluster.kube import Kube, KubeError
from runtime import training
from runtime.drivers.kubernetes import kubeconfig, names
from runtime.drivers.kubernetes.access import check_for
from runtime.drivers.kubernetes.driver import KubernetesDriver
from runtime.drivers.kubernetes.options import KubernetesOptions
from runtime.protocol import NotYet
from runtime.spec import Probe, Resources, WorkloadSpec
from tests.drivers.local.harness import wait_for
from tests.support.cluster_state import cluster_state

__all__ = ["Ground", "cluster_subject", "ground_of", "wait_for"]

# Answers on its port; /end ends it with code 3, /eat eats memory, /say writes a line.
SERVER = """
import http.server, os, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/end": print("the end", flush=True); os._exit(3)
        if self.path == "/eat": self.eaten = [bytearray(b"x" * 2**20) for _ in range(4096)]
        if self.path == "/well": os._exit(0)
        said = b"ok"
        note = os.environ.get("HOME", "/tmp") + "/note"
        if self.path == "/write": open(note, "w").write("kept")
        if self.path == "/read": said = open(note).read().encode()
        if self.path == "/env": said = repr(dict(os.environ)).encode()
        self.send_response(200); self.end_headers(); self.wfile.write(said)
    def log_message(self, *_): pass
print("serving", flush=True)
http.server.HTTPServer(("0.0.0.0", int(sys.argv[1])), Handler).serve_forever()
"""
COMMAND = ("python3", "-u", "-c", SERVER, "{port}")
SMALL = Resources(cpu_milli=1000, memory_mib=64)  # asks for a fiftieth of it
RESTRICTED = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}


@dataclass
class Ground:
    """A driver, a namespace, and an administrator who looks from outside."""

    state: dict[str, Any]
    kube: Kube
    driver: KubernetesDriver
    namespace: str
    image: str

    def spec(self, **options: Any) -> WorkloadSpec:
        uid = options.pop("uid", "") or secrets.token_hex(16)
        defaults: dict[str, Any] = {
            "uid": uid,
            "kind": "workspace",
            "name": f"t{uid[:9]}",
            "launch": 1,
            "generation": 1,
            "project": "p" * 8,
            "owner": "o" * 8,
            "environment": "",
            "command": COMMAND,
            "resources": SMALL,
            "probe": Probe("/", 200),
            "stop_grace_s": 1.0,
            "namespace": self.namespace,
            "image": self.image,
        }
        return WorkloadSpec(**{**defaults, **options})

    def seen(self, uid: str) -> Any:
        return self.driver.observe([uid])[uid]

    def until(self, uid: str, good: Callable[[Any], object], *, seconds: float = 180.0) -> Any:
        last: list[Any] = [None]

        def look() -> Any:
            last[0] = self.seen(uid)
            return last[0] if good(last[0]) else None

        try:
            return wait_for(look, seconds=seconds, every=0.1)
        except AssertionError:
            raise AssertionError(f"last seen: {last[0]}") from None

    def call(self, uid: str, path: str) -> str:
        """Ask the workload itself; it may end without an answer."""
        try:
            with urllib.request.urlopen(
                f"http://{self.seen(uid).address}{path}", timeout=30
            ) as got:
                return got.read().decode()
        except OSError:
            return ""

    def stopped(self, uid: str, *, grace_s: float = 1) -> Any:
        def done() -> bool:
            try:
                self.driver.stop(uid, grace_s=grace_s)
            except NotYet:
                return False
            return True

        wait_for(done, seconds=180, every=0.1)
        return self.seen(uid)

    def pod(self, spec: WorkloadSpec) -> Any:
        return self.kube.get("v1", "Pod", f"ws-{spec.name}-0", self.namespace)

    def close(self) -> None:
        of_searches = names.searches(self.driver.options.namespace_prefix)
        for name in (self.namespace, of_searches):
            self.kube.delete("v1", "Namespace", name)
        self.driver.close()


def ground_of(*, through: str = "", **options: Any) -> Ground:
    found = cluster_state()
    prefix = f"h2-{secrets.token_hex(3)}-"
    namespace = f"{prefix}x"
    kube = Kube(Path(found["kubeconfig"]))
    labels = {"berth.dev/test": "true", **RESTRICTED, **options.pop("labels", {})}
    kube.apply(
        {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": namespace, "labels": labels}}
    )
    kube.until("service account", lambda: kube.get("v1", "ServiceAccount", "default", namespace))
    kube.apply(_no_sign_ins(namespace))
    access = kubeconfig.parse(Path(found["kubeconfig"]).read_text())
    if through:  # another way to the same server, whose certificate names the old one
        old = urllib.parse.urlsplit(access.server).hostname or ""
        access = replace(access, server=through, tls_server_name=old)
    driver = KubernetesDriver(
        access,
        KubernetesOptions(
            namespace_prefix=prefix, volume_path=found["volumes"], cpu_overcommit=50, **options
        ),
        "dev",
        lambda _uid: {"namespace": namespace},
        check=check_for(loopback=True),
    )
    return Ground(found, kube, driver, namespace, found["images"]["tool"]["reference"])


def _no_sign_ins(namespace: str) -> dict[str, Any]:
    """What each project's namespace has: without it the node warns again and again at every pod."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": names.REGISTRIES, "namespace": namespace},
        "type": "kubernetes.io/dockerconfigjson",
        "stringData": {".dockerconfigjson": json.dumps({"auths": {}})},
    }


def cluster_subject(_request: Any, subject: Any) -> Iterator[Any]:
    """The contract suite's way in."""
    ground = ground_of(operators=(training.KSERVE,))
    try:
        yield subject(
            driver=ground.driver,
            command=COMMAND,
            end=lambda uid: ground.call(uid, "/end"),
            more={"namespace": ground.namespace, "image": ground.image, "resources": SMALL},
            timeout_s=90.0,
            measures_volumes=False,
            salt=f"-{secrets.token_hex(4)}",
            has_metrics=_has_metrics(ground.kube),
        )
    finally:
        ground.close()


def _has_metrics(kube: Kube) -> bool:
    try:
        return bool(kube.list("metrics.k8s.io/v1beta1", "Pod"))
    except KubeError:
        return False
