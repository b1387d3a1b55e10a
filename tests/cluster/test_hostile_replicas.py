"""Replicas that die, lie, are taken away or changed by hand, while somebody calls: on real pods."""

from __future__ import annotations

import os
import secrets
import signal
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from devcluster.kube import Kube
from devcluster.layout import Layout
from devcluster.processes import Processes
from tests.cluster.endpoints import Load, Served, serving_portal, until
from tests.cluster.test_queues import _PROMISE
from tests.jobs.running import Jobs
from tests.support.clustered import KEY, ClusteredPortal, ok

pytestmark = [pytest.mark.cluster, pytest.mark.real, pytest.mark.timeout(600)]
# Answers what it is asked, with its own name; /dies breaks off in the middle of an answer. Its
# figures never come, and after /lies they say that it idles while it takes its time. Asked for
# /unready it is not.
SERVER = """
import http.server, json, os, socket, sys, time
lies = False
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        if self.path == "/metrics" and not lies:
            time.sleep(3600)
        if self.path == "/unready":
            return self.send_error(503)
        self.say(b"berth_model_requests_running 0\\nberth_model_requests_waiting 0\\n")
    def do_POST(self):
        global lies
        body = self.rfile.read(int(self.headers["content-length"]))
        lies = lies or self.path == "/lies"
        if self.path == "/dies":
            self.send_response(200)
            self.send_header("content-length", str(len(body) + 1))
            self.end_headers()
            self.wfile.write(body)
            self.wfile.flush()
            time.sleep(0.3)
            os._exit(9)
        time.sleep(0.3 if lies else 0.02)
        said = json.loads(body)["instances"]
        self.say(json.dumps({"predictions": [row[0] for row in said], "by": NAME}).encode())
    def say(self, body):
        self.send_response(200)
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)
    def log_message(self, *_): pass
NAME = socket.gethostname()
http.server.ThreadingHTTPServer(("", int(os.environ["PORT"])), Handler).serve_forever()
"""
_TOLD = """
from serving.models import Endpoint
row = Endpoint.objects.get(short_id={id!r})
answer = [row.replicas, row.launch]
"""
_CANARY = """
from serving.models import Endpoint
answer = str(Endpoint.objects.get(canary_of__short_id={id!r}).uid)
"""
SERVED = "serving.kserve.io/v1beta1"


@pytest.fixture(scope="module")
def portal(devcluster: dict[str, Any], kube: Kube) -> Iterator[ClusteredPortal]:
    with serving_portal(devcluster, kube, "hr") as running:
        yield running


@pytest.fixture
def own(devcluster: dict[str, Any]) -> dict[str, Any]:
    """What an endpoint says that runs the server above."""
    tool = devcluster["images"]["tool"]["reference"]
    command = ["python3", "-u", "-c", SERVER]
    return {"image": tool, "command": command, "health": "/", "cluster": KEY, "cpu_milli": 500}


def pods_of(kube: Kube, served: Served) -> list[dict[str, Any]]:
    found = kube.list("v1", "Pod", labelSelector=f"berth.dev/uid={served.uid}")
    return [one for one in found if "deletionTimestamp" not in one["metadata"]]


def of(kube: Kube, served: Served) -> tuple[str, dict[str, Any]]:
    """What KServe was asked for, and its path."""
    found = kube.list(SERVED, "InferenceService", labelSelector=f"berth.dev/uid={served.uid}")
    meta = found[0]["metadata"]
    path = f"/apis/{SERVED}/namespaces/{meta['namespace']}/inferenceservices/{meta['name']}"
    return path, found[0]


def evict(kube: Kube, pod: dict[str, Any]) -> None:
    """As a drain of its node does."""
    meta = {name: pod["metadata"][name] for name in ("name", "namespace")}
    said = {"apiVersion": "policy/v1", "kind": "Eviction", "metadata": meta}
    path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}/eviction"
    kube.request("POST", path, json=said)


def _are_others(kube: Kube, served: Served, before: set[str]) -> bool:
    return {one["metadata"]["name"] for one in pods_of(kube, served)} != before


def calling(served: Served, seconds: float, path: str) -> Load:
    caller = served.caller()
    return Load(
        f"{str(caller.base_url).rstrip('/')}{path}", caller.headers["authorization"][7:], seconds
    )


def _all_of(caller: httpx.Client, path: str, body: dict[str, Any], got: bytearray) -> None:
    with caller.stream("POST", path, json=body) as its:
        for part in its.iter_raw():
            got += part


@pytest.mark.long("of processes: serving/gateway/test_hostile_replicas.py")
def test_e19_one_that_dies_breaks_its_own_answers_only_and_one_that_lies_gets_no_more_than_it_does(
    portal: ClusteredPortal, api: httpx.Client, own: dict[str, Any]
) -> None:
    served = Served(portal, api, name="odd", min_replicas=2, **own)
    served.ready(2)
    caller = served.caller()
    answers = [caller.post("/x", json={"instances": [[n]]}).json() for n in range(20)]
    assert [one["predictions"] for one in answers] == [[n] for n in range(20)]
    assert len({one["by"] for one in answers}) == 2  # although no figures ever come
    load = calling(served, 1.0, "/x")
    load.call(4)
    body = {"instances": [["mine alone"]]}
    got = bytearray()
    with pytest.raises(httpx.RemoteProtocolError):
        _all_of(caller, "/dies", body, got)
    assert b"mine alone" in got  # what it had sent, and then a broken answer
    until(lambda: any(one["restarts"] for one in served.look()["replica_states"]))
    first = served.ready(2)[0]
    load.end()
    broken = ("RemoteProtocolError", "ReadError", "replica-failed")
    assert [one for one in load.wrong if not any(word in one for word in broken)] == []
    httpx.post(f"http://{first}/lies", json=body)
    name = httpx.post(f"http://{first}/x", json=body).json()["by"]
    time.sleep(3)  # its figures are believed by now
    with ThreadPoolExecutor(8) as people:
        each = people.map(lambda n: caller.post("/x", json={"instances": [[n]]}).json(), range(80))
        by = [one["by"] for one in each]
    assert by.count(name) < 40, by
    served.delete()


@pytest.mark.long(
    "one machine: serving/test_canary.py; the gateway: serving/gateway/test_routing.py"
)
def test_a_canary_that_fails_its_readiness_gets_no_request_and_is_not_promoted(
    portal: ClusteredPortal, api: httpx.Client, kube: Kube, own: dict[str, Any]
) -> None:
    """Its pod runs and never says that it is ready, and yet half of all requests are to be its."""
    served = Served(portal, api, name="careful", **own)
    served.ready(1)
    ok(api.post(f"{served.at}/canary", json={"health": "/unready"}))
    theirs = f"berth.dev/uid={served.shell(_CANARY)}"
    until(lambda: _running(kube.list("v1", "Pod", labelSelector=theirs)))
    ok(api.post(f"{served.at}/canary/split", json={"percent": 50}))
    load = calling(served, 0.2, "/x")
    load.call(2)
    until(lambda: load.answered > 100)
    load.end()
    assert load.wrong == []
    told = served.look()
    assert (told["status"]["state"], told["canary"]["state"]) == ("ready", "starting"), told
    refused = api.post(f"{served.at}/canary/promote")
    assert (refused.status_code, refused.json()["code"]) == (409, "not-ready"), refused.text
    ok(api.delete(f"{served.at}/canary"))
    until(lambda: not kube.list("v1", "Pod", labelSelector=theirs))
    served.delete()


def _running(pods: list[dict[str, Any]]) -> list[str]:
    return [one["metadata"]["name"] for one in pods if one["status"]["phase"] == "Running"]


@pytest.mark.long("graces of pods; one that goes: drivers/kubernetes/test_serving.py")
def test_c14_replicas_that_are_evicted_lose_no_answer(
    portal: ClusteredPortal, api: httpx.Client, kube: Kube, own: dict[str, Any]
) -> None:
    """One after the other, and both at once: then requests wait for the next."""
    served = Served(portal, api, name="drained", min_replicas=2, **own)
    served.ready(2)
    load = calling(served, 0.3, "/x")
    load.call(3)
    try:
        for both in (False, True):
            before = {one["metadata"]["name"] for one in pods_of(kube, served)}
            for pod in pods_of(kube, served)[: None if both else 1]:
                evict(kube, pod)
            until(partial(_are_others, kube, served, before))
            served.ready(2)
            count = load.answered
            while load.answered < count + 6:
                time.sleep(0.2)
    finally:
        load.end()
    assert load.wrong == []
    served.delete()


@pytest.mark.long("the rule of numbers: serving/test_scaling.py test_e10")
def test_e10_what_a_hand_changed_is_put_back_or_told(
    portal: ClusteredPortal, api: httpx.Client, kube: Kube, own: dict[str, Any]
) -> None:
    served = Served(portal, api, name="touched", **own)
    served.ready(1)
    path, _made = of(kube, served)
    kube.patch(path, {"spec": {"predictor": {"minReplicas": 3, "maxReplicas": 3}}})
    until(lambda: of(kube, served)[1]["spec"]["predictor"]["minReplicas"] == 1, 60)
    served.ready(1)
    kube.patch(path, {"metadata": {"annotations": {"serving.kserve.io/stop": "true"}}})
    until(lambda: not pods_of(kube, served), 60)
    served.ready(1)
    assert served.shell(_TOLD) == [1, 1]
    meta = of(kube, served)[1]["metadata"]
    kube.delete(SERVED, "InferenceService", meta["name"], meta["namespace"])
    told = until(lambda: (a := served.look()["status"])["state"] == "failed" and a, 60)
    assert told["reason"] == "vanished", told
    until(lambda: not pods_of(kube, served))
    ok(api.post(f"{served.at}/start"))
    served.ready(1)
    assert served.shell(_TOLD) == [1, 2]
    served.delete()


@pytest.mark.long("the sentence: drivers/kubernetes/test_serving.py test_c14")
def test_e7_kserve_that_is_away_for_a_while_costs_no_answer_and_what_was_asked_comes_after(
    portal: ClusteredPortal, api: httpx.Client, own: dict[str, Any], devcluster: dict[str, Any]
) -> None:
    record = Processes(Layout(Path(devcluster["logs"]).parent)).records.get("kserve")
    if record is None or not record.alive():
        pytest.skip("KServe is no process of this machine")
    served = Served(portal, api, name="lonely", max_replicas=2, **own)
    served.ready(1)
    load = calling(served, 0.2, "/x")
    load.call(2)
    os.kill(record.pid, signal.SIGSTOP)
    try:
        ok(api.patch(served.at, json={"min_replicas": 2}))
        count, since = load.answered, time.monotonic()
        until(lambda: time.monotonic() - since > 45)
        assert served.look()["status"]["state"] == "ready"
        assert load.answered > count + 20
    finally:
        os.kill(record.pid, signal.SIGCONT)
    served.ready(2)
    load.end()
    assert load.wrong == []
    served.delete()


@pytest.mark.long("of jobs: test_queues.py test_a7_g13")
def test_a7_what_kueue_puts_out_says_so_to_callers_and_answers_again_after(
    portal: ClusteredPortal, api: httpx.Client, own: dict[str, Any]
) -> None:
    """Inference goes first among equals, and yet what is borrowed goes back to whom it is promised."""
    slug = f"other-{secrets.token_hex(3)}"
    ok(api.post("projects", json={"name": "Other", "slug": slug}))
    portal.shell(_PROMISE.format(key=KEY, promised={"demo": 0, slug: 4}))
    served = Served(portal, api, name="borrows", gpus=1, wait_s=2, **own)
    served.ready(1)
    caller = served.caller()
    size = {"cpu_milli": 200, "memory_mib": 128, "gpus": 1, "cluster_key": KEY}
    theirs = Jobs(portal, owner="admin", project=slug, image=own["image"], **size)
    made = [theirs.make(f"b{n}", command=["sleep", "600"]) for n in range(4)]
    for one in made:
        theirs.until(one, "running")
    told = until(lambda: (a := served.look()["status"])["state"] == "queued" and a)
    answer = caller.post("/x", json={"instances": [[1]]})
    assert (answer.status_code, answer.json()["code"]) == (503, "no-replica"), answer.text
    assert int(answer.headers["retry-after"]) > 0
    assert told["reason"] in {"queued", "preempted"}, told
    for one in made:
        theirs.stop(one)
    served.ready(1)
    assert caller.post("/x", json={"instances": [[1]]}).json()["predictions"] == [1]
    served.delete()
