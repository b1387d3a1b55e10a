"""What a pod of one tenant can reach, tried from real pods (L2, C5, C10).

A pod without our policies tries the same first: so a refusal is the policy's, not a dead listener's.
"""

from __future__ import annotations

import socket
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from devcluster.kube import Kube
from runtime.protocol import TenantSpec
from tests.cluster import dials
from tests.cluster.pods import is_ready, phase, pod
from tests.cluster.tenants import HUB_PORT, World, world

pytestmark = [pytest.mark.cluster, pytest.mark.root, pytest.mark.timeout(900)]
METADATA = "169.254.169.254"
DATABASE, REDIS, OTHER = 12432, 12379, 12803
LISTEN = ["python3", "-m", "http.server", "8888"]
UDP = 8889
ECHO = f"""
import socket
heard = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
heard.bind(("", {UDP}))
while True:
    data, sender = heard.recvfrom(2048)
    heard.sendto(data, sender)
"""


@dataclass
class Scene:
    here: World
    ours: TenantSpec
    theirs: TenantSpec
    targets: dict[str, str]  # what it is → host:port


@pytest.fixture(scope="module")
def listeners(devcluster: dict[str, Any]) -> Iterator[None]:
    """On this machine: the portal's listener, a database, Redis, a metadata service."""
    address = [f"{METADATA}/32", "dev", devcluster["bridge"]]
    subprocess.run(["ip", "address", "replace", *address], check=True)
    open_: list[socket.socket] = []
    try:
        host = devcluster["host"]
        for where, port in (
            (host, HUB_PORT),
            (host, DATABASE),
            (host, REDIS),
            (host, OTHER),
            (METADATA, 80),
        ):
            found = socket.create_server((where, port))
            threading.Thread(target=_accept, args=(found,), daemon=True).start()
            open_.append(found)
        yield
    finally:
        for found in open_:
            found.close()
        subprocess.run(["ip", "address", "delete", *address], check=True)


def _accept(listener: socket.socket) -> None:
    while True:
        try:
            listener.accept()[0].close()
        except OSError:
            return


@pytest.fixture(scope="module")
def scene(devcluster: dict[str, Any], kube: Kube, listeners: None) -> Iterator[Scene]:
    del listeners
    here = world(devcluster, kube, proxy_peers=("h3-proxy/proxy",))
    try:
        ours, theirs = here.ensure(here.tenant("ours")), here.ensure(here.tenant("theirs"))
        kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "h3-proxy"}})
        kube.until(
            "service account", lambda: kube.get("v1", "ServiceAccount", "default", "h3-proxy")
        )
        image = devcluster["images"]["tool"]["reference"]
        for spec in (ours, theirs):
            kube.create(pod(spec.namespace, "listener", image, command=LISTEN))
        host = devcluster["host"]
        targets = {
            "another tenant": f"{_address(kube, theirs.namespace)}:8888",
            "another pod of the same project": f"{_address(kube, ours.namespace)}:8888",
            "API server": f"{host}:6443",
            "API server by its service": "10.96.0.1:443",
            "kubelet": f"{host}:10250",
            "metadata service": f"{METADATA}:80",
            "database": f"{host}:{DATABASE}",
            "Redis": f"{host}:{REDIS}",
            "another port of the portal": f"{host}:{OTHER}",
            "the portal's listener for workloads": f"{host}:{HUB_PORT}",
            "DNS": f"{devcluster['dns']}:53",
        }
        yield Scene(here, ours, theirs, targets)
    finally:
        kube.delete("v1", "Namespace", "h3-proxy")
        here.close()


def _address(kube: Kube, namespace: str, name: str = "listener") -> str:
    def ready() -> Any:
        found = kube.get("v1", "Pod", name, namespace)
        return found if is_ready(found) else None

    return str(kube.until("a listening pod", ready)["status"]["podIP"])


def _tried(
    scene: Scene, namespace: str, name: str, wanted: dict[str, bool], **more: Any
) -> dict[str, bool]:
    """Run a pod that tries to connect; return target → whether it could."""
    kube, image = scene.here.kube, scene.here.state["images"]["tool"]["reference"]
    return dials.tcp(kube, namespace, name, image, wanted, **more)


ALLOWED = {"the portal's listener for workloads", "DNS"}


def test_without_policies_everything_can_be_reached(scene: Scene) -> None:
    """The listeners live, and so does the way to them: but for what the tenants' side refuses."""
    refused_by_them = {"another tenant", "another pod of the same project"}
    targets = {k: v for k, v in scene.targets.items() if k not in refused_by_them}
    wanted = dict.fromkeys(targets.values(), True)
    found = _tried(scene, "h3-proxy", "free", wanted)
    assert {k: found[v] for k, v in targets.items()} == dict.fromkeys(targets, True)


def test_l2_c5_c10_a_tenants_pod_reaches_the_portals_listener_and_dns_only(scene: Scene) -> None:
    wanted = {where: what in ALLOWED for what, where in scene.targets.items()}
    found = _tried(scene, scene.ours.namespace, "tenant", wanted)
    reached = {what for what, where in scene.targets.items() if found[where]}
    assert reached == ALLOWED


def test_only_the_proxy_reaches_a_workspace_and_only_its_ports(scene: Scene) -> None:
    address = scene.targets["another tenant"].partition(":")[0]
    open_, closed = f"{address}:8888", f"{address}:9999"
    wanted = {open_: True, closed: False}
    assert _tried(scene, "h3-proxy", "proxy", wanted, labels={"app": "proxy"}) == wanted
    wanted = {open_: False}
    assert _tried(scene, "h3-proxy", "other", wanted, labels={"app": "web"}) == wanted


def test_l2_another_tenants_udp_port_answers_without_policies_and_not_with_them(
    scene: Scene,
) -> None:
    kube, image = scene.here.kube, scene.here.state["images"]["tool"]["reference"]
    namespace = scene.theirs.namespace
    kube.create(pod(namespace, "udp", image, command=["python3", "-c", ECHO]))
    address = _address(kube, namespace, "udp")

    def answered(where: str, name: str, *, wanted: bool) -> bool:
        return dials.udp(kube, where, name, image, f"{address}:{UDP}", wanted=wanted)

    for policy in kube.list("networking.k8s.io/v1", "NetworkPolicy", namespace):
        kube.delete("networking.k8s.io/v1", "NetworkPolicy", policy["metadata"]["name"], namespace)
    assert answered("h3-proxy", "udp-open", wanted=True)
    scene.here.ensure(scene.theirs)
    assert not answered("h3-proxy", "udp-closed", wanted=False)  # their side refuses
    assert not answered(scene.ours.namespace, "udp-ours", wanted=False)


def test_c5_no_token_is_in_a_tenants_pod(scene: Scene) -> None:
    kube, namespace = scene.here.kube, scene.ours.namespace
    image = scene.here.state["images"]["tool"]["reference"]
    look = "find / -xdev -path '*serviceaccount*' -name 'token*' 2>/dev/null; env | grep -c TOKEN"
    made = pod(namespace, "looks", image, command=["sh", "-c", look])
    del made["spec"]["automountServiceAccountToken"]  # the account's own setting must do
    kube.create(made)
    kube.until(
        "the end of the looking pod",
        lambda: phase(kube.get("v1", "Pod", "looks", namespace)) in {"Succeeded", "Failed"},
    )
    assert str(kube.request("GET", f"/api/v1/namespaces/{namespace}/pods/looks/log")).strip() == "0"
