"""What serves on a real cluster: KServe runs it, Kueue lets each replica in for itself."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator
from dataclasses import replace

import pytest

from devcluster import kserve
from runtime import training
from runtime.drivers.kubernetes.access import check_for
from runtime.drivers.kubernetes.driver import KubernetesDriver
from runtime.drivers.kubernetes.observe import is_ready
from runtime.protocol import NotYet, Observation, Seen
from runtime.reasons import Reason
from runtime.spec import Resources, Serve, WorkloadSpec
from tests.drivers.kubernetes.harness import Ground, ground_of, wait_for
from tests.drivers.kubernetes.test_in_a_queue import API
from tests.drivers.kubernetes.test_on_a_cluster import removed, told
from tests.drivers.kubernetes.test_watch import Follower
from tests.support.cluster_state import lacking

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]

# Answers with its own name; /sick lets its probe fail from then on.
SERVER = """
import http.server, os, socket, sys
sick = False
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        global sick
        sick = sick or self.path == "/sick"
        self.send_response(503 if sick and self.path == "/" else 200)
        self.end_headers(); self.wfile.write(socket.gethostname().encode())
    def log_message(self, *_): pass
http.server.ThreadingHTTPServer(("0.0.0.0", int(sys.argv[1])), Handler).serve_forever()
"""
SERVING = "serving.kserve.io/v1beta1"
SIZE = Resources(cpu_milli=1000, memory_mib=64)


@pytest.fixture(scope="module")
def ground() -> Iterator[Ground]:
    """A namespace whose queue has room for two replicas on the real node."""
    made = ground_of(
        queue="default", labels={"berth.dev/queue": "kueue"}, operators=(training.KSERVE,)
    )
    name, kube = made.namespace, made.kube
    kinds = "inferenceservices.serving.kserve.io"
    if not kube.get("apiextensions.k8s.io/v1", "CustomResourceDefinition", kinds):
        made.close()
        lacking("KServe (python -m devcluster kserve)", is_built=kserve.has())
    room = {"cpu": "2", "memory": "128Mi"}
    quotas = [{"name": n, "nominalQuota": q} for n, q in room.items()]
    group = {"coveredResources": list(room), "flavors": [{"name": name, "resources": quotas}]}
    where = {"matchLabels": {"kubernetes.io/metadata.name": name}}
    for kind, meta, spec in (
        ("ResourceFlavor", {"name": name}, {}),
        ("ClusterQueue", {"name": name}, {"resourceGroups": [group], "namespaceSelector": where}),
        ("LocalQueue", {"name": "default", "namespace": name}, {"clusterQueue": name}),
    ):
        kube.apply({"apiVersion": API, "kind": kind, "metadata": meta, "spec": spec})
    try:
        yield made
    finally:
        made.close()
        for kind in ("ClusterQueue", "ResourceFlavor"):
            kube.delete(API, kind, name)


@pytest.fixture(scope="module")
def follower(ground: Ground) -> Iterator[Follower]:
    made = Follower(ground.driver)
    yield made
    made.close()


def endpoint(ground: Ground, replicas: int = 1, **more: object) -> WorkloadSpec:
    given = {"kind": "endpoint", "resources": SIZE, "serve": Serve(replicas), "stop_grace_s": 1.0}
    command = ("python3", "-u", "-c", SERVER, "{port}")
    return ground.spec(**{**given, "command": command, **more})


def scaled(ground: Ground, spec: WorkloadSpec, replicas: int) -> None:
    ground.driver.scale(replace(spec, serve=Serve(replicas)))


def asked(address: str, path: str = "/") -> str:
    with urllib.request.urlopen(f"http://{address}{path}", timeout=5) as answer:
        return answer.read().decode()


def ready(found: Observation) -> list[str]:
    return [one.address for one in found.replicas if one.seen == Seen.READY]


def test_each_replica_is_let_in_answers_sleeps_and_wakes(
    ground: Ground, follower: Follower
) -> None:
    spec = endpoint(ground)
    ground.driver.ensure(spec)
    found = told(follower, spec.uid, lambda o: len(ready(o)) == 1)
    assert (found.seen, found.address) == (Seen.READY, ready(found)[0])
    assert asked(found.address) == found.replicas[0].pod
    scaled(ground, spec, 3)
    found = told(follower, spec.uid, lambda o: len(ready(o)) == 2 and len(o.replicas) == 3)
    assert {asked(one.address) for one in found.replicas if one.address} == {
        one.pod for one in found.replicas if one.address
    }
    found = told(
        follower,
        spec.uid,
        lambda o: [r.reason for r in o.replicas if not r.address] == [Reason.QUEUED],
    )
    assert found.seen == Seen.READY  # those that are there answer
    admitted = [
        one
        for one in ground.kube.list(API, "Workload", ground.namespace)
        if one["metadata"]["ownerReferences"][0]["kind"] == "Pod"
    ]
    assert len(admitted) >= 3  # one for each pod
    scaled(ground, spec, 0)
    found = told(follower, spec.uid, lambda o: o.seen == Seen.READY and not o.replicas)
    assert found.address == ""
    wait_for(lambda: not ground.kube.list("v1", "Pod", ground.namespace), seconds=60)
    scaled(ground, spec, 1)
    found = told(follower, spec.uid, lambda o: len(ready(o)) == 1)
    assert (found.launch, asked(found.address)) == (1, found.replicas[0].pod)
    (made,) = ground.kube.list(SERVING, "InferenceService", ground.namespace)
    assert made["metadata"]["labels"]["kueue.x-k8s.io/queue-name"] == "default"
    removed(ground, spec.uid)
    assert ground.kube.list("apps/v1", "Deployment", ground.namespace) == []


def test_e11_what_sleeps_and_has_no_row_is_found_and_removed(ground: Ground) -> None:
    spec = endpoint(ground)
    ground.driver.ensure(spec)
    ground.until(spec.uid, lambda o: o.seen == Seen.READY)
    scaled(ground, spec, 0)
    wait_for(lambda: not ground.kube.list("v1", "Pod", ground.namespace), seconds=60)
    stranger = KubernetesDriver(
        ground.driver.client.access, ground.driver.options, "dev", check=check_for(loopback=True)
    )
    try:
        assert spec.uid in [one.uid for one in stranger.list_owned()]
        wait_for(lambda: _is_removed(stranger, spec.uid), seconds=60)
        assert spec.uid not in [one.uid for one in stranger.list_owned()]
    finally:
        stranger.close()
    for kind, version in (("InferenceService", SERVING), ("NetworkPolicy", "networking.k8s.io/v1")):
        assert ground.kube.list(version, kind, ground.namespace) == []


def _is_removed(driver: KubernetesDriver, uid: str) -> bool:
    try:
        driver.remove(uid)
    except NotYet:
        return False
    return True


def test_one_that_is_sick_gets_no_more_requests(ground: Ground, follower: Follower) -> None:
    spec = endpoint(ground, 2)
    ground.driver.ensure(spec)
    found = told(follower, spec.uid, lambda o: len(ready(o)) == 2)
    wait_for(lambda: _nodes_say_ready(ground, spec) == 2)  # until then our own look counts
    gone, stays = ready(found)
    wait_for(lambda: _is_sick(gone), seconds=10)
    found = told(follower, spec.uid, lambda o: ready(o) == [stays])
    assert (found.seen, found.address) == (Seen.READY, stays)
    removed(ground, spec.uid)


def _nodes_say_ready(ground: Ground, spec: WorkloadSpec) -> int:
    pods = ground.kube.list(
        "v1", "Pod", ground.namespace, labelSelector=f"berth.dev/uid={spec.uid}"
    )
    return sum(is_ready(pod) for pod in pods)


def _is_sick(address: str) -> bool:
    asked(address, "/sick")
    try:
        asked(address)
    except urllib.error.HTTPError:
        return True
    return False


@pytest.mark.parametrize(
    ("more", "seen", "reason"),
    [
        pytest.param(
            {"image": "127.0.0.1:5000/berth/no-such-image:1"},
            Seen.STARTING,
            Reason.IMAGE_NOT_FOUND,
            id="no such image",
        ),
        pytest.param(
            {"resources": Resources(cpu_milli=1000, memory_mib=512)},
            Seen.CREATED,
            Reason.DOES_NOT_FIT,
            id="more than its queue ever has",
        ),
        pytest.param(
            {"command": ("sh", "-c", "exit 7")}, Seen.STARTING, Reason.TRIED_AGAIN, id="it ends"
        ),
    ],
)
def test_c14_why_none_answers(
    ground: Ground, follower: Follower, more: dict[str, object], seen: Seen, reason: Reason
) -> None:
    spec = endpoint(ground, **more)
    ground.driver.ensure(spec)
    found = told(follower, spec.uid, lambda o: (o.seen, o.reason) == (seen, reason))
    assert [(one.reason, one.address) for one in found.replicas] == [(reason, "")]
    if reason == Reason.TRIED_AGAIN:  # a program that can't begin has ended for good
        found = told(follower, spec.uid, lambda o: o.seen == Seen.EXITED, seconds=180)
        assert found.exit_code == 7
        assert ground.stopped(spec.uid).exit_code == 7
    removed(ground, spec.uid)
