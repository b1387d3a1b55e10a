"""Click to an answering JupyterLab in a pod, against `kubectl apply` of the same manifest."""

from __future__ import annotations

import copy
import json
import secrets
import subprocess
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx

from benchmarks.lib import Result, percentile, poll, sized
from benchmarks.spawn import answers, remove
from devcluster import state
from devcluster.kube import Kube
from devcluster.layout import Layout
from tests.support.clustered import ClusteredPortal, ok

_WHAT = "click to JupyterLab in a pod"
WITHIN_S = 120.0
PROJECT = "demo"
PORT = 8888
_SERVERS_OWN = ("uid", "resourceVersion", "generation", "creationTimestamp", "managedFields")
Object = dict[str, Any]


def bare_copy(live: Object, name: str) -> Object:
    """Return the manifest again under another name, as somebody would write it by hand."""
    made = copy.deepcopy(live)
    made.pop("status", None)
    old = made["metadata"]["name"]
    for field in _SERVERS_OWN:
        made["metadata"].pop(field, None)
    text = json.dumps(made).replace(old, name)
    made = json.loads(text)
    for labels in _labels(made):
        labels["berth.dev/uid"] = name  # the portal must not take it for its own
        labels.pop("berth.dev/managed", None)
    return dict(made)


def _labels(made: Object) -> list[dict[str, str]]:
    found = [made["metadata"].get("labels", {})]
    if made["kind"] == "StatefulSet":
        spec = made["spec"]
        found += [spec["selector"]["matchLabels"], spec["template"]["metadata"]["labels"]]
    return found


class Bare:
    """``kubectl apply -f`` and a poll of the pod, as a person without a portal does it."""

    def __init__(self, cluster: Mapping[str, Any], manifests: list[Object]) -> None:
        self.kube = Kube(Path(cluster["kubeconfig"]))
        self._kubectl = [cluster["programs"]["kubectl"], "--kubeconfig", cluster["kubeconfig"]]
        self._manifests = manifests

    def start(self) -> float:
        """Seconds from the command to HTTP 200 of the pod."""
        name = f"ws-bare-{secrets.token_hex(4)}"
        made = [bare_copy(m, name) for m in self._manifests]
        namespace = made[0]["metadata"]["namespace"]
        text = json.dumps({"apiVersion": "v1", "kind": "List", "items": made})
        begin = time.perf_counter()
        subprocess.run(
            [*self._kubectl, "apply", "--validate=false", "-f", "-"],
            input=text,
            text=True,
            check=True,
            capture_output=True,
        )
        poll(lambda: self._answers(namespace, f"{name}-0"), within_s=WITHIN_S)
        seconds = time.perf_counter() - begin
        self._delete(made, namespace, f"{name}-0")
        return seconds

    def _answers(self, namespace: str, pod: str) -> bool:
        found = self.kube.get("v1", "Pod", pod, namespace)
        address = (found or {}).get("status", {}).get("podIP")
        return bool(address) and answers(f"http://{address}:{PORT}/api")

    def _delete(self, made: list[Object], namespace: str, pod: str) -> None:
        for item in made:
            self.kube.delete(item["apiVersion"], item["kind"], item["metadata"]["name"], namespace)
        poll(lambda: self.kube.get("v1", "Pod", pod, namespace) is None, within_s=WITHIN_S)


def click(api: httpx.Client, portal: ClusteredPortal, preset: str) -> tuple[float, str]:
    """Return (seconds from the request to HTTP 200 through the route, id)."""
    begin = time.perf_counter()
    made = ok(api.post(f"projects/{PROJECT}/workspaces", json={"preset": preset})).json()
    host = f"{made['id']}.nb.localhost:{portal.port + 1}"
    url = f"http://127.0.0.1:{portal.port + 1}/api"
    poll(lambda: answers(url, host), within_s=WITHIN_S)
    return time.perf_counter() - begin, str(made["id"])


def manifests_of(portal: ClusteredPortal, short_id: str) -> list[Object]:
    """Return what Berth made for one launch: its Secret and its StatefulSet."""
    kube = Kube(Path(portal.state["kubeconfig"]))
    name = f"ws-{short_id}"
    spaces = [n["metadata"]["name"] for n in kube.list("v1", "Namespace")]
    for space in (s for s in spaces if s.startswith(portal.prefix)):
        found = kube.get("apps/v1", "StatefulSet", name, space)
        secret = kube.get("v1", "Secret", name, space)
        if found and secret:
            kube.close()
            return [secret, found]
    message = f"no StatefulSet {name} in the namespaces of the portal"
    raise LookupError(message)


def the_cluster() -> dict[str, Any]:
    """Return what is known of the cluster that ``make cluster-up`` made here."""
    found = state.read(Layout.usual())
    if found is None:
        message = "There is no cluster; `make cluster-up` makes one."
        raise SystemExit(message)
    return found


def run(rounds: int = sized(10, 1)) -> list[Result]:
    cluster = the_cluster()
    portal = ClusteredPortal(cluster, "bench-start-")
    ours: list[float] = []
    peer: list[float] = []
    try:
        portal.start()
        api = portal.api(portal.token("admin"))
        preset = portal.preset(name="Notebook in a pod", cpu_milli=500, memory_mib=1024)
        _, first = click(api, portal, preset)
        bare = Bare(cluster, manifests_of(portal, first))
        remove(api, first)
        bare.start()
        for number in range(rounds):
            if number % 2:
                peer.append(bare.start())
            seconds, made = click(api, portal, preset)
            ours.append(seconds)
            remove(api, made)
            if not number % 2:
                peer.append(bare.start())
    finally:
        portal.close()
    over = [1000 * (a - b) for a, b in zip(ours, peer, strict=True)]
    return [
        Result(
            "click to JupyterLab in a pod",
            "s",
            ours,
            peer,
            "kubectl apply, same manifest",
            1.1,
            1.25,
        ),
        Result(
            f"{_WHAT}, overhead p95",
            "ms",
            [percentile(over, 0.95)],
            goal=500,
            floor=1500,
        ),
    ]
