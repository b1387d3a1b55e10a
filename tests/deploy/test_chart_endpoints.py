"""An endpoint of the release's own cluster: by the gateway's pods, and by no other way."""

from __future__ import annotations

import os
import signal
import ssl
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection, connect

from tests.cluster import dials
from tests.deploy.calling import Calls, Stream
from tests.deploy.chart import HOST, NAMESPACE, PREFIX, Browser, Release, is_ready, until
from tests.deploy.test_chart_installed import restarts_of
from tests.support.certificates import certificate

pytestmark = [pytest.mark.deploy, pytest.mark.cluster, pytest.mark.timeout(1800)]
PROGRAM = Path(__file__).with_name("echoing.py")
HERE = "/api/v1/projects/demo/endpoints"
LARGE = 200 * 2**20
CUT_WITHIN_S = 10.0


@dataclass
class Served:
    """An endpoint that a pod of the project answers."""

    release: Release
    operator: Browser
    at: str
    path: str
    pod: str  # its address
    key: str

    @property
    def door(self) -> str:
        """The gateway's Service."""
        return self.release.address("berth-gateway")

    def doors(self) -> list[str]:
        """Its pods that are ready, one by one."""
        ready = filter(is_ready, self.release.pods("gateway"))
        return [f"{pod['status']['podIP']}:8007" for pod in ready]

    def new_key(self, name: str) -> tuple[str, str]:
        """Return a key that every gateway knows, and how it is taken away."""
        made = self.operator.ask("POST", f"{self.at}/keys", json={"name": name})
        assert made.is_success, made.text
        told = made.json()

        def known() -> bool:
            return all(self.get(door, told["key"]).status_code == 200 for door in self.doors())

        until("known", known, 30)
        return told["key"], f"{self.at}/keys/{told['id']}"

    def get(self, door: str, key: str, rest: str = "who") -> httpx.Response:
        headers = {"Authorization": f"Bearer {key}"}
        url = f"http://{door}{self.path}/{rest}"
        return httpx.get(url, headers=headers, trust_env=False, timeout=30)

    def websocket(self, door: str, key: str) -> ClientConnection:
        headers = {"Authorization": f"Bearer {key}"}
        return connect(f"ws://{door}{self.path}/ws", additional_headers=headers, proxy=None)


@pytest.fixture(scope="module")
def served(
    release: Release, operator: Browser, project: str, devcluster: dict[str, Any]
) -> Iterator[Served]:
    said = {
        "name": f"echo-{uuid4().hex[:4]}",
        "cluster": "here",
        "cpu_milli": 500,
        "memory_mib": 256,
        "image": devcluster["images"]["tool"]["reference"],
        "command": ["python3", "-c", PROGRAM.read_text()],
    }
    made = until("its cluster", lambda: created(operator, said))
    at = f"{HERE}/{made['id']}"

    def answering() -> Any:
        told = operator.ask("GET", at).json()
        assert told["status"]["state"] != "failed", told["status"]
        where = [one["address"] for one in told["replica_states"] if one["address"]]
        return where if told["status"]["state"] == "ready" else None

    try:
        (pod,) = until("ready", answering)
        until("gateways", lambda: release.ready("gateway") == 2)
        one = Served(release, operator, at, httpx.URL(made["url"]).path, pod, "")
        one.key, _away = one.new_key("all")
        yield one
    finally:
        operator.ask("DELETE", at)


def created(operator: Browser, said: dict[str, Any]) -> Any:
    """None until the self-check of the cluster has proved that projects are kept apart."""
    made = operator.ask("POST", HERE, json=said)
    if made.status_code == httpx.codes.CONFLICT:
        return None
    assert made.is_success, made.text
    return made.json()


def test_two_gateways_answer_and_one_at_a_time_may_be_taken_away(
    release: Release, served: Served
) -> None:
    doors = served.doors()
    assert len(doors) == 2
    for door in (served.door, *doors):
        answer = served.get(door, served.key)
        assert answer.status_code == 200, answer.text
        assert httpx.get(f"http://{door}{served.path}/who").status_code == 401
    budget = release.kube.get("policy/v1", "PodDisruptionBudget", "berth-gateway", NAMESPACE)
    assert budget is not None
    told = budget["status"]
    assert (told["expectedPods"], told["currentHealthy"], told["disruptionsAllowed"]) == (2, 2, 1)


def test_c10_what_serves_is_reached_by_the_gateway_and_by_no_pod_of_others(
    release: Release, served: Served, project: str, devcluster: dict[str, Any]
) -> None:
    """The node itself is left out: no NetworkPolicy keeps a node from its pods."""
    kube, image = release.kube, devcluster["images"]["tool"]["reference"]
    wanted = {served.pod: False, served.door: False}
    assert dials.tcp(kube, project, "dials-serving", image, wanted) == wanted
    outside = f"{PREFIX}others"
    kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": outside}})
    try:
        kube.until("account", lambda: kube.get("v1", "ServiceAccount", "default", outside))
        wanted = {served.pod: False, served.door: True}
        labels = {"app": "gateway"}  # only those of the release's namespace count
        assert dials.tcp(kube, outside, "dials", image, wanted, labels=labels) == wanted
    finally:
        kube.delete("v1", "Namespace", outside)
    until("its way", lambda: dialled(release, "gateway", served.pod) == "open", 60)
    until("no way", lambda: dialled(release, "web", served.pod) == "shut", 60)


DIAL = """
import socket, sys
host, port = sys.argv[1].rsplit(":", 1)
try:
    socket.create_connection((host, int(port)), timeout=5).close()
    print("open")
except OSError:
    print("shut")
"""


def dialled(release: Release, process: str, where: str) -> str:
    words = ("exec", f"deployment/berth-{process}", "--", "python", "-c", DIAL, where)
    return release.kubectl(*words).stdout.strip()


def test_a_websocket_events_and_a_large_body_go_to_the_pod_and_back(served: Served) -> None:
    with served.websocket(served.door, served.key) as ws:
        ws.send("konnichiwa")
        assert ws.recv(timeout=30) == "konnichiwa"
    stream = Stream(served.door, f"{served.path}/stream", served.key)
    until("events", lambda: len(stream.numbers) > 20, 30)
    assert stream.is_whole
    stream.close()

    part = bytes(2**20)
    headers = {"Authorization": f"Bearer {served.key}", "Content-Length": str(LARGE)}
    body = (part for _ in range(LARGE // len(part)))
    url = f"http://{served.door}{served.path}/count"
    answer = httpx.post(url, headers=headers, content=body, trust_env=False, timeout=120)
    assert answer.status_code == 200, answer.text
    assert answer.text.split()[1] == str(LARGE)


def test_a3_a_revoked_key_ends_its_open_streams_and_no_others(served: Served) -> None:
    """By each gateway, events and WebSockets."""
    key, away = served.new_key("short")
    path = f"{served.path}/stream"
    theirs = [Stream(door, path, key) for door in served.doors()]
    sockets = [served.websocket(door, key) for door in served.doors()]
    kept = Stream(served.door, path, served.key)
    until("events", lambda: all(one.numbers for one in (*theirs, kept)), 30)
    assert served.operator.ask("DELETE", away).status_code < httpx.codes.BAD_REQUEST
    revoked_at = time.monotonic()
    until("they end", lambda: all(one.ended_at for one in theirs), 60)
    assert max(one.ended_at for one in theirs) - revoked_at < CUT_WITHIN_S
    for one in sockets:
        with pytest.raises(ConnectionClosed):
            one.recv(timeout=CUT_WITHIN_S)
    before = len(kept.numbers)
    until("its own goes on", lambda: len(kept.numbers) > before + 10, 30)
    assert kept.is_whole
    kept.close()
    assert served.get(served.door, key).status_code == 401


def test_a_rolling_update_costs_no_request_and_ends_a_stream_last(
    release: Release, served: Served, record_property: Any
) -> None:
    """Fifty a second; a stream goes on as long as the pod answers that carries it."""
    (first, *_more) = served.doors()
    stream = Stream(first, f"{served.path}/stream", served.key)
    with Calls(served.door, f"{served.path}/who", served.key) as calls:
        time.sleep(2)
        done = release.kubectl("rollout", "restart", "deployment/berth-gateway")
        assert done.returncode == 0, done.stderr
        release.wait_for("deployment/berth-gateway")
        until("drained", lambda: not release.pods("gateway", ending=True))
        until("its end", lambda: stream.ended_at, 60)
        time.sleep(2)
    record_property("answered", calls.answered)
    print(f"{calls.answered} answered, longest {calls.longest_s:.2f} s, {dict(calls.lost)}")  # noqa: T201
    assert calls.answered > 500
    assert not calls.lost
    assert stream.is_whole
    assert len(stream.numbers) / 10 > 15  # seconds: drainSeconds of the values


def test_a_killed_gateway_costs_callers_of_the_other_nothing(
    release: Release, served: Served, record_property: Any
) -> None:
    """First all its processes by SIGKILL, then its pod, without a grace."""
    victim, other = filter(is_ready, release.pods("gateway"))
    at = f"{other['status']['podIP']}:8007"
    stream = Stream(at, f"{served.path}/stream", served.key)
    with Calls(at, f"{served.path}/who", served.key) as calls:
        time.sleep(1)
        assert kill(victim) >= 2, "the node is this machine: HAProxy, and what tells it"
        until("started again", lambda: release.ready("gateway") == 2)
        name = victim["metadata"]["name"]
        release.kube.delete("v1", "Pod", name, NAMESPACE, gracePeriodSeconds="0")
        until("gone", lambda: not release.kube.get("v1", "Pod", name, NAMESPACE))
        until("replaced", lambda: release.ready("gateway") == 2)
        before = calls.answered
        until("more", lambda: calls.since(before) > 50, 60)
    record_property("answered", calls.answered)
    print(f"{calls.answered} answered, longest {calls.longest_s:.2f} s, {dict(calls.lost)}")  # noqa: T201
    assert not calls.lost
    assert stream.is_whole
    assert not stream.ended_at
    stream.close()


def kill(pod: dict[str, Any]) -> int:
    """SIGKILL to each process of a pod on this machine; how many."""
    count = 0
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            inside = pod["metadata"]["uid"] in (entry / "cgroup").read_text()
            if inside and b"gateway" in (entry / "cmdline").read_bytes():
                os.kill(int(entry.name), signal.SIGKILL)
                count += 1
    return count


# --- As callers come straight to it (last: it becomes another Service) ---------------------------

SECRET = "models-tls"


@pytest.mark.long("rendered: test_chart_gateway.py; renewed: serving/gateway/test_tls.py")
def test_it_ends_tls_with_a_secret_that_is_renewed_and_its_number_follows_its_cpu(
    release: Release, served: Served, tmp_path: Path
) -> None:
    before = release.chosen["gateway"]
    host = served.door.partition(":")[0]
    make_secret(release, tmp_path, host)
    scaling = {"enabled": True, "maxReplicas": 3}
    by_tls = {"host": HOST, "tls": {"secret": SECRET}, "autoscaling": scaling}
    release.upgrade(gateway={**before, **by_tls})
    try:
        until("two of them", lambda: release.ready("gateway") == 2)
        assert served.door == f"{host}:443"
        until("answers", lambda: asked_by_tls(served, tmp_path) == httpx.codes.OK, 60)
        pods = {pod["metadata"]["uid"] for pod in release.pods("gateway")}

        stale = (tmp_path / "cert.pem").read_bytes()
        make_secret(release, tmp_path, host)
        assert (tmp_path / "cert.pem").read_bytes() != stale
        until("the new one", lambda: asked_by_tls(served, tmp_path) == httpx.codes.OK, 240)
        assert {pod["metadata"]["uid"] for pod in release.pods("gateway")} == pods
        assert {restarts_of(pod) for pod in release.pods("gateway")} == {0}

        until("a figure", lambda: measured(release), 240)
    finally:
        release.upgrade(gateway=before)


def make_secret(release: Release, folder: Path, host: str) -> None:
    """A certificate for its address, which signs itself; ``folder`` has it, too."""
    cert, key = certificate(folder, [host])
    data = {"tls.crt": cert.read_text(), "tls.key": key.read_text()}
    meta = {"name": SECRET, "namespace": NAMESPACE}
    kind = {"apiVersion": "v1", "kind": "Secret", "type": "kubernetes.io/tls"}
    release.kube.apply({**kind, "metadata": meta, "stringData": data})


def asked_by_tls(served: Served, folder: Path) -> int:
    """What it answers to who believes the certificate there alone; 0 where it has another one."""
    context = ssl.create_default_context(cafile=str(folder / "cert.pem"))
    headers = {"Authorization": f"Bearer {served.key}"}
    url = f"https://{served.door}{served.path}/who"
    try:
        answer = httpx.get(url, headers=headers, verify=context, trust_env=False, timeout=10)
    except httpx.ConnectError as error:
        print(error)  # noqa: T201 - shown where it never is
        return 0
    return answer.status_code


def measured(release: Release) -> Any:
    """The share of its CPU that the cluster tells, by which it is scaled."""
    found = release.kube.get(
        "autoscaling/v2", "HorizontalPodAutoscaler", "berth-gateway", NAMESPACE
    )
    told = (found or {}).get("status", {}).get("currentMetrics") or []
    return [
        one["resource"]["current"].get("averageUtilization") for one in told if "resource" in one
    ]
