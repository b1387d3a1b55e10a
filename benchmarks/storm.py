"""Fifty launches at once, to the last one ready, against JupyterHub on the same machine."""

from __future__ import annotations

import concurrent.futures
import os
import secrets
import signal
import subprocess
import tempfile
import time
from pathlib import Path

import httpx

from benchmarks.lib import Result, poll, sized
from benchmarks.spawn import answers, remove
from tests.support.portal import ROOT, Portal, environments, free_ports

WITHIN_S = 600.0
SMALL = {"cpu_milli": 1000, "memory_mib": 512}
# The peer admits everybody; the queue of one machine would not, so it is told to give more.
SETTINGS = {"BERTH_CPU_OVERCOMMIT": "100", "BERTH_MEMORY_OVERCOMMIT": "4"}

_HUB_CONFIG = """
c.JupyterHub.spawner_class = "simple"
c.JupyterHub.authenticator_class = "dummy"
c.Authenticator.allow_all = True
c.JupyterHub.bind_url = "http://127.0.0.1:{public}"
c.JupyterHub.hub_port = {hub}
c.ConfigurableHTTPProxy.api_url = "http://127.0.0.1:{proxy_api}"
c.ConfigurableHTTPProxy.command = ["node", "{chp}"]
c.JupyterHub.concurrent_spawn_limit = 0
c.JupyterHub.db_url = "sqlite:///{folder}/hub.sqlite"
c.JupyterHub.cookie_secret_file = "{folder}/cookie"
c.SimpleLocalProcessSpawner.home_dir_template = "{folder}/home/{{username}}"
c.Spawner.start_timeout = 600
c.Spawner.http_timeout = 600
c.Spawner.cmd = ["{python}", "-m", "jupyterhub.singleuser", "--allow-root"]
c.JupyterHub.services = [{{"name": "bench", "api_token": "{token}"}}]
c.JupyterHub.load_roles = [{{"name": "bench", "services": ["bench"],
    "scopes": ["admin:users", "admin:servers", "read:hub"]}}]
"""


def jupyterhub(count: int) -> float:
    """Seconds from the first request to the last server ready; raises when one is refused."""
    folder = Path(tempfile.mkdtemp(prefix="berth-hub-"))
    base, token = free_ports(3), secrets.token_hex(16)
    python = environments() / "jupyterlab" / "bin" / "python"
    chp = ROOT / "node_modules/configurable-http-proxy/bin/configurable-http-proxy"
    (folder / "config.py").write_text(
        _HUB_CONFIG.format(
            public=base,
            hub=base + 1,
            proxy_api=base + 2,
            chp=chp,
            folder=folder,
            python=python,
            token=token,
        )
    )
    with (folder / "hub.log").open("wb") as log:
        hub = subprocess.Popen(
            [python, "-m", "jupyterhub", "-f", folder / "config.py"],
            cwd=folder,
            stdout=log,
            stderr=log,
            start_new_session=True,
            env={**os.environ, "CONFIGPROXY_AUTH_TOKEN": secrets.token_hex(16)},
        )
    api = httpx.Client(
        base_url=f"http://127.0.0.1:{base + 1}/hub/api/",
        timeout=120,
        headers={"Authorization": f"token {token}"},
    )
    try:
        poll(lambda: answers(f"http://127.0.0.1:{base + 1}/hub/api"), within_s=60, every_s=0.1)
        names = [f"u{i}" for i in range(count)]
        api.post("users", json={"usernames": names}).raise_for_status()
        begin = time.perf_counter()
        with concurrent.futures.ThreadPoolExecutor(count) as pool:
            codes = list(pool.map(lambda n: api.post(f"users/{n}/server").status_code, names))
        refused = [c for c in codes if c not in {201, 202}]
        if refused:
            message = f"JupyterHub refused {len(refused)} of {count}"
            raise RuntimeError(message)
        poll(lambda: _hub_ready(api, count), within_s=WITHIN_S, every_s=1.0)
        return time.perf_counter() - begin
    finally:
        _end_hub(api, hub)


def _hub_ready(api: httpx.Client, count: int) -> bool:
    users = api.get("users", params={"limit": 200}).json()
    return sum(1 for u in users if u.get("server")) >= count


def _end_hub(api: httpx.Client, hub: subprocess.Popen[bytes]) -> None:
    hub.send_signal(signal.SIGTERM)
    try:
        hub.wait(timeout=120)
    except subprocess.TimeoutExpired:
        os.killpg(hub.pid, signal.SIGKILL)
    api.close()


def berth(portal: Portal, count: int) -> float:
    api = portal.api(portal.token("admin"))
    begin = time.perf_counter()
    with concurrent.futures.ThreadPoolExecutor(count) as pool:
        made = list(
            pool.map(lambda _: api.post("projects/demo/workspaces", json=SMALL), range(count))
        )
    refused = [
        m.status_code
        for m in made
        if m.status_code not in (httpx.codes.ACCEPTED, httpx.codes.CREATED)
    ]
    if refused:
        message = f"Berth refused {len(refused)} of {count}: {set(refused)}"
        raise RuntimeError(message)
    ids = {m.json()["id"] for m in made}
    poll(lambda: _berth_ready(api, ids), within_s=WITHIN_S, every_s=1.0)
    seconds = time.perf_counter() - begin
    for workspace in ids:
        api.delete(f"projects/demo/workspaces/{workspace}")
    for workspace in ids:
        remove(api, workspace)
    return seconds


def _berth_ready(api: httpx.Client, ids: set[str]) -> bool:
    rows = api.get("projects/demo/workspaces", params={"page_size": 200}).json()["results"]
    return sum(1 for r in rows if r["id"] in ids and r["status"]["phase"] == "running") == len(ids)


def run(portal: Portal, rounds: int = sized(3, 1), count: int = sized(50, 3)) -> list[Result]:
    ours, peer = [], []
    for number in range(rounds):
        first, second = (berth, jupyterhub) if number % 2 else (jupyterhub, berth)
        for side in (first, second):
            if side is berth:
                ours.append(berth(portal, count))
            else:
                peer.append(jupyterhub(count))
    return [
        Result(
            f"{count} launches at once, last ready",
            "s",
            ours,
            peer,
            "JupyterHub 6, SimpleLocalProcessSpawner",
            1.0,
            1.0,
        )
    ]
