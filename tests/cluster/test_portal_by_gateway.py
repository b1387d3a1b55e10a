"""A whole portal with ``BERTH_ROUTER=gateway``: people reach their pods through a real Traefik.

WebSockets go through the notebook proxy, so that those of a revoked visitor end here too.
"""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection

from devcluster.kube import Kube
from portal.server.up import node
from runtime.routers.gateway import API
from tests.cluster.conftest import a_namespace
from tests.cluster.hearing import KEPT, by_upgrade, container, upgraded
from tests.cluster.traefik import Traefik, gateway_api
from tests.cluster.visitors import (
    BASE,
    NO_MAIL,
    Person,
    is_sign_in,
    named,
    new_prefix,
    people,
    until,
)
from tests.hubapi.live.fleet import NAVIGATE, Browser, execute, result_of
from tests.support.clustered import KEY, ClusteredPortal, ok
from tests.support.portal import ROOT
from tests.support.ports import free_port

pytestmark = [
    pytest.mark.long("needs Traefik; by the proxy: test_workspaces.py"),
    pytest.mark.cluster,
    pytest.mark.real,
    pytest.mark.timeout(900),
]
DOMAIN = "nb.localhost"
CUT_WITHIN_S = 30.0
ROUTE = (API, "HTTPRoute")


class Proxy:
    """The notebook proxy at an address that a gateway reaches, and its Service in the cluster."""

    def __init__(self, state: dict[str, Any], namespace: str, folder: Path) -> None:
        self.host, self.namespace, self.folder = state["host"], namespace, folder
        self.port, self.api = free_port(self.host), free_port()
        self.token = secrets.token_hex(16)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, fallback: str) -> None:
        words = ["--ip", self.host, "--port", str(self.port), "--api-port", str(self.api)]
        words += ["--host-routing", "--fallback-url", fallback]
        with (self.folder / "proxy.log").open("wb") as log:
            self.process = subprocess.Popen(
                [node(), str(ROOT / "proxy/berth-proxy.mjs"), *words],
                env={**os.environ, "CONFIGPROXY_AUTH_TOKEN": self.token},
                stdout=log,
                stderr=log,
            )

    def objects(self) -> list[dict[str, Any]]:
        """Its Service, where it is, and the route of hosts that have none of their own."""
        meta = {"name": "proxy", "namespace": self.namespace}
        return [
            {
                "apiVersion": "v1",
                "kind": "Service",
                "metadata": meta,
                "spec": {"ports": [{"name": "http", "port": 8001, "targetPort": self.port}]},
            },
            {
                "apiVersion": "discovery.k8s.io/v1",
                "kind": "EndpointSlice",
                "metadata": {**meta, "labels": {"kubernetes.io/service-name": "proxy"}},
                "addressType": "IPv4",
                "endpoints": [{"addresses": [self.host], "conditions": {"ready": True}}],
                "ports": [{"name": "http", "port": self.port, "protocol": "TCP"}],
            },
            {
                "apiVersion": API,
                "kind": "HTTPRoute",
                "metadata": meta,
                "spec": {
                    "parentRefs": [{"name": "public"}],
                    "hostnames": [f"*.{DOMAIN}"],
                    "rules": [{"backendRefs": [{"name": "proxy", "port": 8001}]}],
                },
            },
        ]

    def stop(self) -> None:
        if self.process:
            self.process.terminate()
            self.process.wait(60)


@pytest.fixture(scope="module")
def edge(kube: Kube) -> Iterator[str]:
    """The namespace of the Gateway and the proxy."""
    with a_namespace(kube) as name:
        yield name


@pytest.fixture(scope="module")
def portal(
    kube: Kube,
    devcluster: dict[str, Any],
    edge: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[ClusteredPortal]:
    folder = tmp_path_factory.mktemp("edge")
    with gateway_api(kube):
        traefik = Traefik(kube, devcluster, edge, folder, DOMAIN)
        proxy = Proxy(devcluster, edge, folder)
        running = ClusteredPortal(
            devcluster,
            new_prefix("gw"),
            {
                **NO_MAIL,
                "BERTH_ROUTER": "gateway",
                "BERTH_GATEWAY": f"{edge}/public/workspaces",
                "BERTH_GATEWAY_CLUSTER": KEY,
                "BERTH_GATEWAY_PROXY": f"{edge}/proxy:8001",
                "BERTH_NOTEBOOK_DOMAIN": DOMAIN,
                "BERTH_NOTEBOOK_PORT": str(traefik.port),
                "BERTH_PROXY_TOKEN": proxy.token,
                "BERTH_PROXY_API_URLS": f"http://127.0.0.1:{proxy.api}",
            },
        )
        with ExitStack() as stack:  # whatever one of them leaves, the next one ends
            for end in (traefik.remove, proxy.stop, traefik.stop, running.close):
                stack.callback(end)
            traefik.prepare()
            for one in proxy.objects():
                kube.apply(one)
            proxy.start(f"http://127.0.0.1:{running.port + 2}/hub/424")
            traefik.start()
            running.start()
            people(running)
            yield running


@pytest.fixture(scope="module")
def row(portal: ClusteredPortal, ann: Person) -> dict[str, Any]:
    """A running notebook whose host the gateway knows, and where it is."""
    made = ann.launch()
    until(lambda: is_sign_in(Browser().open(made["status"]["url"]), portal), 120)
    return made


def routes(kube: Kube, row: dict[str, Any]) -> list[Any]:
    return kube.list(*ROUTE, labelSelector=f"berth.dev/uid={row['uid']}")


def kernel(person: Person, url: str) -> ClientConnection:
    made = person.script("POST", f"{url}api/kernels", json={"name": "python3"})
    assert made.status_code == 201, made.text
    return person.kernel_socket(url, made.json()["id"])


def falls(ws: ClientConnection, within_s: float) -> None:
    """Read until it is closed; TimeoutError when it isn't."""
    with suppress(ConnectionClosed):
        while True:
            ws.recv(timeout=within_s)


def let_in(owner: Person, visitor: Person, row: dict[str, Any], url: str) -> None:
    ok(owner.api.post(f"{BASE}/{row['id']}/shares", json={"username": visitor.name}))
    asked = visitor.open(url)
    assert "belongs to" in asked.text
    assert visitor.submit(asked, {}, "/hub/consent").status_code == 200


def test_a_notebook_opens_by_the_gateway_behind_the_sign_in_and_its_kernel_answers(
    portal: ClusteredPortal, ann: Person, ben: Person, kube: Kube, row: dict[str, Any], edge: str
) -> None:
    url = row["status"]["url"]
    assert url.endswith(f".{DOMAIN}:{portal.env['BERTH_NOTEBOOK_PORT']}/")
    assert is_sign_in(Browser().open(url), portal)
    assert ben.open(url).status_code == 403
    assert Person(portal, "cyd").open(url).status_code in {403, 404}
    assert ann.open(url).status_code == 200
    assert ann.run(url, "40+2") == "42"
    places = {route["metadata"]["namespace"] for route in routes(kube, row)}
    assert len(places) == 2
    assert edge in places


def test_no_spelling_of_the_header_makes_a_websocket_past_the_proxy(
    ann: Person, row: dict[str, Any]
) -> None:
    url = row["status"]["url"]
    ann.open(url)
    made = ann.script("POST", f"{url}api/kernels", json={"name": "python3"}).json()
    for spelling in ("WebSocket", "WEBSOCKET", "websocket, x", "x, websocket"):
        asks = {
            "Upgrade": spelling,
            "Connection": "Upgrade",
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Key": "AAAAAAAAAAAAAAAAAAAAAA==",
            "Cookie": ann.cookies(url),
        }
        with ann.http.stream("GET", f"{url}api/kernels/{made['id']}/channels", headers=asks) as it:
            assert it.status_code != 101, spelling


def test_a3_a_revoked_visitors_open_kernel_falls_and_the_owners_goes_on(
    ann: Person, ben: Person, row: dict[str, Any]
) -> None:
    url = row["status"]["url"]
    ann.open(url)
    share = f"{BASE}/{row['id']}/shares/ben"
    try:
        let_in(ann, ben, row, url)
        with kernel(ann, url) as own, kernel(ben, url) as theirs:
            execute(theirs, "6*7")
            assert result_of(theirs) == "42"
            ok(ann.api.delete(share))
            falls(theirs, CUT_WITHIN_S)
            execute(own, "2**5")
            assert result_of(own) == "32"
    finally:
        ann.api.delete(share)  # with his consent: a second try lets him in again
    until(lambda: ben.http.get(url, headers=NAVIGATE).status_code != 200, 60)


def test_b1_a_port_of_a_container_is_behind_the_sign_in_and_gets_no_portal_cookie(
    portal: ClusteredPortal, ann: Person, ben: Person, devcluster: dict[str, Any]
) -> None:
    made = ann.launch(name=named("hears"), **container(devcluster))
    url = made["status"]["ports"][0]["url"]
    until(lambda: is_sign_in(Browser().open(url), portal), 120)
    assert ben.open(url).status_code == 403
    answer = ann.open(url)
    assert answer.status_code == 200, answer.text
    assert "berth_session=" not in answer.text
    forged = ann.http.get(url, headers={**NAVIGATE, "X-Forwarded-User": "root-of-all"})
    assert forged.status_code == 200
    assert "root-of-all" not in forged.text
    assert by_upgrade(ann, url) == {KEPT}
    with pytest.raises(InvalidStatus) as refused:
        upgraded(url, ben.cookies(url))
    assert refused.value.response.status_code == 403

    let_in(ann, ben, made, url)
    ok(ann.api.delete(f"{BASE}/{made['id']}/shares/ben"))
    until(lambda: ben.http.get(url, headers=NAVIGATE).status_code != 200, 60)
    ok(ann.api.delete(f"{BASE}/{made['id']}"))


def test_a_stop_takes_the_routes_and_a_start_brings_them_back(
    ann: Person, kube: Kube, row: dict[str, Any]
) -> None:
    url = row["status"]["url"]
    ann.act(row, "stop", "stopped")
    until(lambda: not routes(kube, row), 60)
    until(lambda: ann.http.get(url, headers=NAVIGATE).status_code == 424, 120)
    ann.act(row, "start", "running")
    until(lambda: len(routes(kube, row)) == 2, 60)
    until(lambda: ann.open(url).status_code == 200, 120)
    assert ann.run(url, "1+1") == "2"


def test_a_removal_takes_the_routes_for_good(ann: Person, kube: Kube, row: dict[str, Any]) -> None:
    """Last in the module."""
    path = f"{BASE}/{row['id']}"
    assert ann.api.delete(path).status_code in {202, 404}  # an earlier try may have asked
    until(lambda: ann.api.get(path).status_code == 404)
    until(lambda: not routes(kube, row), 60)
