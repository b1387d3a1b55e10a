"""Start of one workspace: API call to HTTP 200 through the route, against a bare singleuser."""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
import time

import httpx

from benchmarks.lib import Result, percentile, poll, sized, timed
from tests.support.portal import Portal, environments, free_ports

WITHIN_S = 60.0


def bare_start(portal: Portal) -> float:
    """Seconds from exec of ``jupyterhub-singleuser`` to its first 200."""
    port = free_ports(1)
    home = tempfile.mkdtemp(prefix="berth-bare-")
    python = environments() / "jupyterlab" / "bin" / "python"
    env = {
        "PATH": os.environ["PATH"],
        "HOME": home,
        "JUPYTER_RUNTIME_DIR": f"{home}/runtime",
        "JUPYTERHUB_API_TOKEN": "bare",
        "JUPYTERHUB_CLIENT_ID": "bare",
        "JUPYTERHUB_API_URL": f"http://127.0.0.1:{portal.port + 2}/hub/api",
        "JUPYTERHUB_SERVICE_URL": f"http://127.0.0.1:{port}/",
        "JUPYTERHUB_SERVICE_PREFIX": "/",
        "JUPYTERHUB_OAUTH_ACCESS_SCOPES": "[]",
        "JUPYTERHUB_USER": "bare",
        "JUPYTERHUB_SERVER_NAME": "",
    }
    begin = time.perf_counter()
    child = subprocess.Popen(
        [python, "-m", "jupyterhub.singleuser", "--allow-root"],
        env=env,
        cwd=home,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        poll(lambda: answers(f"http://127.0.0.1:{port}/api"), within_s=WITHIN_S)
        return time.perf_counter() - begin
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.wait()


def answers(url: str, host: str | None = None) -> bool:
    try:
        headers = {"Host": host} if host else {}
        return httpx.get(url, headers=headers, timeout=2).status_code == httpx.codes.OK
    except httpx.TransportError:
        return False


def launch(api: httpx.Client, portal: Portal, project: str = "demo") -> tuple[float, float, str]:
    """Return (seconds to 200 through the route, seconds the route lagged "running", id)."""
    begin = time.perf_counter()
    made = api.post(f"projects/{project}/workspaces", json={}).raise_for_status().json()
    host = f"{made['id']}.nb.localhost:{portal.port + 1}"
    url = f"http://127.0.0.1:{portal.port + 1}/api"
    poll(lambda: answers(url, host), within_s=WITHIN_S)
    return time.perf_counter() - begin, begin, made["id"]


def remove(api: httpx.Client, workspace: str, project: str = "demo") -> None:
    path = f"projects/{project}/workspaces/{workspace}"
    api.delete(path)
    poll(lambda: api.get(path).status_code == httpx.codes.NOT_FOUND, within_s=WITHIN_S, every_s=0.1)


def route_lag(api: httpx.Client, portal: Portal, project: str = "demo") -> float:
    """Milliseconds from "running" in the API to the first 200 through the route."""
    made = api.post(f"projects/{project}/workspaces", json={}).raise_for_status().json()
    path = f"projects/{project}/workspaces/{made['id']}"
    poll(lambda: api.get(path).json()["status"]["phase"] == "running", within_s=WITHIN_S)
    host = f"{made['id']}.nb.localhost:{portal.port + 1}"
    url = f"http://127.0.0.1:{portal.port + 1}/api"
    lag = timed(lambda: poll(lambda: answers(url, host), within_s=5, every_s=0.001))
    remove(api, made["id"], project)
    return lag * 1000


def run(portal: Portal, rounds: int = sized(7, 1)) -> list[Result]:
    api = portal.api(portal.token("admin"))
    ours: list[float] = []
    peer: list[float] = []
    for number in range(rounds + 1):
        if number % 2:
            bare, (seconds, _, made) = bare_start(portal), launch(api, portal)
        else:
            seconds, _, made = launch(api, portal)
            bare = None
        remove(api, made)
        bare = bare if bare is not None else bare_start(portal)
        if number:  # the first round warms the page cache for both
            ours.append(seconds)
            peer.append(bare)
    lags = [route_lag(api, portal) for _ in range(rounds)]
    return [
        Result("spawn to HTTP 200", "s", ours, peer, "bare jupyterhub-singleuser", 1.05, 1.15),
        Result(
            "route usable after running, p99",
            "ms",
            [percentile(lags, 0.99)],
            goal=50,
            floor=50,
            note="one GET through the route included",
        ),
    ]
