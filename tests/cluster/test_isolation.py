"""What a pod of one tenant can reach, tried from real pods (L2, C5, C10).

A pod without our policies tries the same first: so a refusal is the policy's, not a dead listener's.
"""

from __future__ import annotations

import socket
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from devcluster.kube import Kube
from runtime.capabilities.tenants import TenantSpec
from tests.cluster import dials
from tests.cluster.pods import is_ready, phase, pod
from tests.cluster.tenants import HUB_PORT, World, world

# A way that is open once is open: nothing here is tried a second time.
pytestmark = [
    pytest.mark.pods,
    pytest.mark.cluster,
    pytest.mark.root,
    pytest.mark.timeout(1200),
    pytest.mark.flaky(reruns=0),
]
READY_WITHIN_S = 300.0  # patience with a busy machine
METADATA = "169.254.169.254"
DATABASE, REDIS, OTHER = 12432, 12379, 12803
PROMETHEUS, EXPORTER = 9090, 9400  # as they are everywhere
WATCHED_S = 35
WATCHES = 4  # at most: on a busy machine one alone says too little
TOKEN = "/var/run/secrets/kubernetes.io/serviceaccount/token"
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
    """On this machine: the portal's listener, a database, Redis, metrics, a metadata service."""
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
            (host, PROMETHEUS),
            (host, EXPORTER),
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
            labels = {"app": "listener"}
            kube.create(pod(spec.namespace, "listener", image, command=LISTEN, labels=labels))
        host = devcluster["host"]
        targets = {
            "another tenant": f"{_address(kube, theirs.namespace)}:8888",
            "another tenant by its service": f"{_service(kube, theirs.namespace)}:80",
            "another pod of the same project": f"{_address(kube, ours.namespace)}:8888",
            "API server": f"{host}:6443",
            "API server by its service": "10.96.0.1:443",
            "kubelet": f"{host}:10250",
            "metadata service": f"{METADATA}:80",
            "database": f"{host}:{DATABASE}",
            "Redis": f"{host}:{REDIS}",
            "Prometheus": f"{host}:{PROMETHEUS}",
            "the exporter of GPUs' metrics": f"{host}:{EXPORTER}",
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

    return str(kube.until("a listening pod", ready, READY_WITHIN_S)["status"]["podIP"])


def _service(kube: Kube, namespace: str) -> str:
    spec = {"selector": {"app": "listener"}, "ports": [{"port": 80, "targetPort": 8888}]}
    meta = {"name": "listener", "namespace": namespace}
    made = kube.create({"apiVersion": "v1", "kind": "Service", "metadata": meta, "spec": spec})
    return str(made["spec"]["clusterIP"])


def _tried(
    scene: Scene, namespace: str, name: str, wanted: dict[str, bool], **more: Any
) -> dict[str, bool]:
    """Run a pod that tries to connect; return target → whether it could."""
    kube, image = scene.here.kube, scene.here.state["images"]["tool"]["reference"]
    return dials.tcp(kube, namespace, name, image, wanted, **more)


ALLOWED = {"the portal's listener for workloads", "DNS"}
REFUSED_BY_THEM = {
    "another tenant",
    "another tenant by its service",
    "another pod of the same project",
}


def test_without_policies_everything_can_be_reached(scene: Scene) -> None:
    """The listeners live, and so does the way to them: but for what the tenants' side refuses."""
    targets = {k: v for k, v in scene.targets.items() if k not in REFUSED_BY_THEM}
    wanted = dict.fromkeys(targets.values(), True)
    found = _tried(scene, "h3-proxy", "free", wanted)
    assert {k: found[v] for k, v in targets.items()} == dict.fromkeys(targets, True)


def test_l2_c5_c10_a_tenants_pod_reaches_the_portals_listener_and_dns_only(scene: Scene) -> None:
    wanted = {where: what in ALLOWED for what, where in scene.targets.items()}
    found = _tried(scene, scene.ours.namespace, "tenant", wanted)
    reached = {what for what, where in scene.targets.items() if found[where]}
    assert reached == ALLOWED


@pytest.mark.long("a minute of other tenants; what is closed: the tests above")
def test_c10_what_is_closed_stays_so_while_other_tenants_come_and_go(
    scene: Scene, record_property: Any
) -> None:
    """Their policies are written into the same tables of the node.

    Few looks and few who came are no leak: it is watched on until there are enough of both. One
    that opened is, in whichever watch.
    """
    shut = {what: where for what, where in scene.targets.items() if what not in ALLOWED}
    rounds = came = 0
    for number in range(WATCHES):
        found, more = _watched(scene, f"leaks-{number}", list(shut.values()))
        assert found["before"] == dict.fromkeys(shut.values(), False)
        opened = {what: found["opened"][where] for what, where in shut.items()}
        assert opened == dict.fromkeys(shut, 0)
        rounds, came = rounds + found["rounds"], came + more
        if rounds > WATCHED_S / 4 and came >= 3:
            break
    record_property("rounds", rounds)
    record_property("came", came)
    assert rounds > WATCHED_S / 4
    assert came >= 3  # else nothing was written meanwhile


def _watched(scene: Scene, name: str, targets: list[str]) -> tuple[dict[str, Any], int]:
    """Let tenants come and go while a pod looks; return what it saw, and how many came."""
    here, kube = scene.here, scene.here.kube
    image = here.state["images"]["tool"]["reference"]
    looks = dials.leaking(scene.ours.namespace, name, image, targets, WATCHED_S)
    kube.create(looks)
    came, until = 0, time.monotonic() + dials.ENDED_WITHIN_S
    while not dials.is_over(kube, looks) and time.monotonic() < until:
        passing = here.ensure(here.tenant("passing"))
        kube.create(pod(passing.namespace, "passing", image, command=["sleep", "600"]))
        time.sleep(1)
        kube.delete("v1", "Namespace", passing.namespace)
        came += 1
    return dict(dials.words(kube, looks)), came


def test_only_the_proxy_reaches_a_workspace_and_only_its_ports(scene: Scene) -> None:
    address = scene.targets["another tenant"].partition(":")[0]
    open_, closed = f"{address}:8888", f"{address}:9999"
    service = scene.targets["another tenant by its service"]
    wanted = {open_: True, service: True, closed: False}
    assert _tried(scene, "h3-proxy", "proxy", wanted, labels={"app": "proxy"}) == wanted
    wanted = {open_: False, service: False}
    assert _tried(scene, "h3-proxy", "other", wanted, labels={"app": "web"}) == wanted


@pytest.mark.long("a minute of datagrams; the same by TCP: the tests above")
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


def test_l2_c10_a_tenants_pod_reaches_no_pod_that_nobody_guards(
    scene: Scene, namespace: str
) -> None:
    """Nothing on the other side refuses: what is shut is the tenant's own way out.

    A pod of a namespace without our policies reaches it by each way, before and after.
    """
    kube, image = scene.here.kube, scene.here.state["images"]["tool"]["reference"]
    kube.create(pod(namespace, "listener", image, command=LISTEN, labels={"app": "listener"}))
    kube.create(pod(namespace, "udp", image, command=["python3", "-c", ECHO]))
    targets = (f"{_address(kube, namespace)}:8888", f"{_service(kube, namespace)}:80")
    echo = f"{_address(kube, namespace, 'udp')}:{UDP}"
    assert kube.list("networking.k8s.io/v1", "NetworkPolicy", namespace) == []
    tenants = scene.ours.namespace

    def reached(where: str, name: str, *, wanted: bool) -> tuple[dict[str, bool], bool]:
        with ThreadPoolExecutor(2) as pool:  # most of it is waiting for pods
            tcp = pool.submit(_tried, scene, where, f"{name}-tcp", dict.fromkeys(targets, wanted))
            udp = pool.submit(dials.udp, kube, where, f"{name}-udp", image, echo, wanted=wanted)
            return tcp.result(), udp.result()

    everywhere, nowhere = dict.fromkeys(targets, True), dict.fromkeys(targets, False)
    assert reached("h3-proxy", "unguarded-before", wanted=True) == (everywhere, True)
    assert reached(tenants, "unguarded", wanted=False) == (nowhere, False)
    assert reached("h3-proxy", "unguarded-after", wanted=True) == (everywhere, True)


# Of pods of the test's own; those that Berth launches are looked into in test_people_in_pods.py.
# A token lies on a file system of its own, so the whole of what is mounted is walked.
LOOK = f"""
cut -d ' ' -f 2 /proc/mounts | grep serviceaccount
test -r {TOKEN} && echo {TOKEN}
find / \\( -path /proc -o -path /sys \\) -prune -o -path '*serviceaccount*' -name token -print
env | grep TOKEN
echo looked
"""


def _seen_by(scene: Scene, name: str, *, automount: bool | None) -> list[str]:
    """What of a token a pod in a tenant's namespace finds; None: it says nothing of tokens."""
    kube, namespace = scene.here.kube, scene.ours.namespace
    image = scene.here.state["images"]["tool"]["reference"]
    made = pod(namespace, name, image, command=["sh", "-c", f"({LOOK}) 2>/dev/null"])
    made["spec"]["automountServiceAccountToken"] = automount
    kube.create(made)
    lines = str(dials.printed(kube, made)).splitlines()
    assert phase(kube.get("v1", "Pod", name, namespace)) == "Succeeded", lines
    assert lines[-1] == "looked"
    return lines[:-1]


def test_c5_no_token_is_in_a_tenants_pod(scene: Scene) -> None:
    assert _seen_by(scene, "looks", automount=None) == []  # the account's own setting does it


def test_c5_who_looks_so_finds_a_token_where_there_is_one(scene: Scene) -> None:
    """Else the test before says nothing. Only Berth makes pods there, and never asks for one."""
    seen = _seen_by(scene, "has-one", automount=True)
    assert TOKEN in seen
    assert any(line.startswith("/") and line.endswith("serviceaccount") for line in seen)
    assert len(seen) >= 3, seen  # by each way
