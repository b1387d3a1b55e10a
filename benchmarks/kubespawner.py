"""The peer of the storm on a cluster: JupyterHub with KubeSpawner on the same API server.

Its limits are raised, and the HTTP answer that it waits for comes at once: a simulated pod has
none, so every server's address is a stub of this process.
"""

from __future__ import annotations

import concurrent.futures
import http.server
import os
import secrets
import shutil
import signal
import subprocess
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import httpx

from benchmarks.lib import poll
from benchmarks.spawn import answers
from devcluster.kube import Kube
from tests.support.portal import ROOT, environments, free_ports
from tools.setup_steps import TOOLS, base_python, notebook_environment
from tools.setup_uv import find_uv

NAMESPACE = "bench-kubespawner"
AT_ONCE = 16
WITHIN_S = 900.0

_CONFIG = """
from kubespawner import KubeSpawner

class Answered(KubeSpawner):
    async def start(self):
        await super().start()
        return "http://127.0.0.1:{stub}"

c.JupyterHub.spawner_class = Answered
c.JupyterHub.authenticator_class = "dummy"
c.Authenticator.allow_all = True
c.JupyterHub.bind_url = "http://127.0.0.1:{public}"
c.JupyterHub.hub_port = {hub}
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{proxy_api}"
c.ConfigurableHTTPProxy.command = ["node", "{chp}"]
c.JupyterHub.concurrent_spawn_limit = 0
c.JupyterHub.db_url = "sqlite:///{folder}/hub.sqlite"
c.JupyterHub.cookie_secret_file = "{folder}/cookie"
c.KubeSpawner.namespace = "{namespace}"
c.KubeSpawner.image = "{image}"
c.KubeSpawner.cpu_guarantee = 0.1
c.KubeSpawner.mem_guarantee = "256M"
c.KubeSpawner.node_selector = {{"type": "kwok"}}
c.KubeSpawner.tolerations = [
    {{"key": "kwok.x-k8s.io/node", "operator": "Exists", "effect": "NoSchedule"}}]
c.KubeSpawner.k8s_api_threadpool_workers = 64
c.Spawner.start_timeout = 900
c.Spawner.http_timeout = 900
c.JupyterHub.services = [{{"name": "bench", "api_token": "{token}"}}]
c.JupyterHub.load_roles = [{{"name": "bench", "services": ["bench"],
    "scopes": ["admin:users", "admin:servers", "read:hub"]}}]
"""


class Stub(http.server.BaseHTTPRequestHandler):
    """Answers any path as a notebook server would."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("X-JupyterHub-Version", "6.0.0")
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        """Silent: a line for each server would be the test's own cost."""


def storm(cluster: dict[str, Any], kube: Kube, count: int) -> float:
    """Seconds from the first request to the last server that the hub calls ready."""
    folder = Path(tempfile.mkdtemp(prefix="berth-kubespawner-"))
    base, token = free_ports(3), secrets.token_hex(16)
    stub = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Stub)
    threading.Thread(target=stub.serve_forever, daemon=True).start()
    kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": NAMESPACE}})
    (folder / "config.py").write_text(
        _CONFIG.format(
            stub=stub.server_port,
            public=base,
            hub=base + 1,
            proxy_api=base + 2,
            chp=ROOT / "node_modules/configurable-http-proxy/bin/configurable-http-proxy",
            folder=folder,
            namespace=NAMESPACE,
            image=cluster["images"]["jupyterlab"]["reference"],
            token=token,
        )
    )
    hub = started(folder, cluster)
    api = httpx.Client(
        base_url=f"http://127.0.0.1:{base + 1}/hub/api/",
        timeout=300,
        headers={"Authorization": f"token {token}"},
    )
    try:
        poll(lambda: answers(f"http://127.0.0.1:{base + 1}/hub/api"), within_s=90, every_s=0.1)
        return spawned(api, [f"u{number}" for number in range(count)])
    finally:
        api.close()
        ended(hub)
        stub.shutdown()
        kube.delete("v1", "Namespace", NAMESPACE)
        poll(lambda: not there(kube), within_s=WITHIN_S, every_s=1)
        shutil.rmtree(folder, ignore_errors=True)


def started(folder: Path, cluster: dict[str, Any]) -> subprocess.Popen[bytes]:
    notebook_environment(base_python(), find_uv(TOOLS), "kubespawner")
    python = environments() / "kubespawner" / "bin" / "python"
    with (folder / "hub.log").open("wb") as log:
        return subprocess.Popen(
            [python, "-m", "jupyterhub", "-f", folder / "config.py"],
            cwd=folder,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={
                **os.environ,
                "KUBECONFIG": str(cluster["kubeconfig"]),
                "CONFIGPROXY_AUTH_TOKEN": secrets.token_hex(16),
            },
        )


def spawned(api: httpx.Client, names: list[str]) -> float:
    api.post("users", json={"usernames": names}).raise_for_status()
    begin = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        codes = list(pool.map(lambda name: api.post(f"users/{name}/server").status_code, names))
    if refused := [code for code in codes if code not in {201, 202}]:
        message = f"JupyterHub refused {len(refused)} of {len(names)}: {set(refused)}"
        raise RuntimeError(message)
    poll(lambda: ready(api) >= len(names), within_s=WITHIN_S, every_s=1.0)
    return time.perf_counter() - begin


def ready(api: httpx.Client) -> int:
    """The hub answers 200 users at most at once."""
    count = offset = 0
    while page := api.get("users", params={"limit": 200, "offset": offset}).json():
        count += sum(1 for user in page if user.get("server"))
        offset += len(page)
    return count


def ended(hub: subprocess.Popen[bytes]) -> None:
    hub.send_signal(signal.SIGTERM)
    try:
        hub.wait(timeout=120)
    except subprocess.TimeoutExpired:
        os.killpg(hub.pid, signal.SIGKILL)


def there(kube: Kube) -> bool:
    return any(item["metadata"]["name"] == NAMESPACE for item in kube.list("v1", "Namespace"))
