"""``BERTH_ROUTER=gateway`` with a real Traefik as the Gateway, and a real pod behind it."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from devcluster.kube import Kube
from runtime.drivers.kubernetes import access, kubeconfig
from runtime.drivers.kubernetes.client import KubeClient
from runtime.routers.base import RouteEntry
from runtime.routers.gateway import Gateway, GatewayRouter, objects
from tests.cluster.conftest import a_namespace
from tests.cluster.traefik import Traefik, gateway_api

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.timeout(900),
    pytest.mark.long("needs Traefik"),
]


@pytest.fixture(scope="module")
def api(kube: Kube) -> Iterator[None]:
    with gateway_api(kube):
        yield


@pytest.fixture
def traefik(
    api: None, kube: Kube, devcluster: dict[str, Any], namespace: str, tmp_path: Path
) -> Iterator[Traefik]:
    one = Traefik(kube, devcluster, namespace, tmp_path)
    one.prepare()
    one.start()
    try:
        yield one
    finally:
        one.stop()
        one.remove()


@pytest.fixture
def client(devcluster: dict[str, Any]) -> Iterator[KubeClient]:
    made = KubeClient(
        kubeconfig.parse(Path(devcluster["kubeconfig"]).read_text()),
        check=access.check_for(loopback=True),
    )
    yield made
    made.close()


def pod(namespace: str, uid: str, state: dict[str, Any], name: str = "echo") -> dict[str, Any]:
    container = {
        "name": "main",
        "image": state["images"]["echo"]["reference"],
        "resources": {"requests": {"cpu": "10m", "memory": "32Mi"}},
        "readinessProbe": {"tcpSocket": {"port": 8888}, "periodSeconds": 1},
    }
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "namespace": namespace, "labels": {"berth.dev/uid": uid}},
        "spec": {"containers": [container], "terminationGracePeriodSeconds": 1},
    }


def test_a_workspaces_host_leads_to_its_pod_until_it_is_dropped(
    traefik: Traefik, kube: Kube, client: KubeClient, devcluster: dict[str, Any], namespace: str
) -> None:
    uid = secrets.token_hex(8)
    kube.apply(pod(namespace, uid, devcluster))
    address = kube.until("pod", lambda: running(kube, namespace))
    gateway = Gateway(namespace, "public", "workspaces", "gwtest-")
    router = GatewayRouter(gateway, lambda: client, lambda _uid: {"namespace": namespace})
    host = f"{uid}.nb.example.org"
    begun = time.monotonic()
    router.put(RouteEntry(f"/{host}", f"http://{address}:8888", uid))
    assert client.writes == 2
    traefik.until(host, 200)
    print(f"open after {time.monotonic() - begun:.2f} s")  # noqa: T201
    heard = traefik.ask(host, **{"X-Forwarded-User": "root", "X-Auth-Request-Email": "a@b.c"})
    assert heard is not None
    assert "root" not in heard.text
    assert "a@b.c" not in heard.text
    assert traefik.ask("nobody.nb.example.org").status_code == 404  # type: ignore[union-attr]

    traefik.stop()
    traefik.start()
    traefik.until(host, 200)  # nobody had to tell it again

    router.drop(f"/{host}")
    traefik.until(host, 404)
    assert not kube.list("v1", "Service", namespace)


@pytest.fixture
def stranger(kube: Kube) -> Iterator[str]:
    """A namespace that is nobody's project."""
    with a_namespace(kube) as name:
        yield name


def test_c7_a_host_stays_with_its_pod_when_a_stranger_claims_it(
    traefik: Traefik,
    kube: Kube,
    client: KubeClient,
    devcluster: dict[str, Any],
    namespace: str,
    stranger: str,
) -> None:
    """Claimed by hand, from outside of the projects: whoever is in one can't make a route at all
    (``test_kubectl``), and Berth's own rows have one owner for each host (``tests/runtime``)."""
    uid, rival = secrets.token_hex(8), secrets.token_hex(8)
    kube.apply(pod(namespace, uid, devcluster))
    kube.apply(pod(stranger, rival, devcluster, "rival"))
    address = kube.until("pod", lambda: running(kube, namespace))
    theirs = kube.until("the other pod", lambda: running(kube, stranger, "rival"))
    gateway = Gateway(namespace, "public", "workspaces", "gwtest-")
    router = GatewayRouter(gateway, lambda: client, lambda _uid: {"namespace": namespace})
    host = f"{uid}.nb.example.org"
    entry = RouteEntry(f"/{host}", f"http://{address}:8888", uid)
    router.put(entry)
    assert traefik.until(host, 200).json()["host"] == "echo"
    for claim in objects(RouteEntry(entry.key, f"http://{theirs}:8888", rival), stranger, gateway):
        kube.apply(claim)
    # the gateway reads both in their order: once the later host answers, it knew the claim
    later = f"{rival}.nb.example.org"
    router.put(RouteEntry(f"/{later}", entry.target, uid))
    traefik.until(later, 200)
    answers = [traefik.ask(host) for _ in range(20)]
    assert [a and (a.status_code, a.json()["host"]) for a in answers] == [(200, "echo")] * 20
    router.drop(f"/{later}")
    router.drop(entry.key)
    traefik.until(host, 404)  # nor does it inherit the host


def running(kube: Kube, namespace: str, name: str = "echo") -> str:
    found = kube.get("v1", "Pod", name, namespace) or {}
    status = found.get("status", {})
    ready = any(
        c["type"] == "Ready" and c["status"] == "True" for c in status.get("conditions") or []
    )
    return str(status["podIP"]) if ready else ""
