"""E8: whatever happens to the watch, what it says equals what the API server holds."""

import math
import threading
import time
from collections.abc import Iterator
from dataclasses import replace

import pytest

from runtime.drivers.kubernetes import client, names, watch
from runtime.protocol import Observation, Seen, Unreachable
from runtime.reasons import Reason
from tests.drivers.kubernetes.pieces import AT
from tests.drivers.kubernetes.stub import Stub
from tests.drivers.local.harness import wait_for

SETS, PODS, NODES, EVENTS = (
    "/apis/apps/v1/statefulsets",
    "/api/v1/pods",
    "/api/v1/nodes",
    "/api/v1/events",
)


@pytest.fixture
def stub(tmp_path, monkeypatch) -> Iterator[Stub]:
    monkeypatch.setattr(watch, "TURN_S", 0.3)  # Kubernetes takes whole seconds only
    monkeypatch.setattr(watch, "SLACK_S", 0.5)
    monkeypatch.setattr(watch, "PATIENCE_S", 60.0)
    monkeypatch.setattr(watch, "HEARTBEAT_S", 0.1)
    monkeypatch.setattr(watch, "BELIEVED_S", 0.5)
    made = Stub(tmp_path)
    yield made
    made.stop()


class Clock:
    """The module ``time`` with a monotonic clock that a test steps: nobody waits for it."""

    def __init__(self) -> None:
        self.ahead = 0.0

    def monotonic(self) -> float:
        return time.monotonic() + self.ahead

    def __getattr__(self, name: str):
        return getattr(time, name)


@pytest.fixture
def clock(monkeypatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(watch, "time", made)
    return made


class Follower:
    """Iterates a driver's watch in a thread and keeps the last word on each uid."""

    def __init__(self, driver) -> None:
        self.driver = driver
        self.known: dict[str, Observation] = {}
        self.heard: list[Observation] = []  # all of them: a word may be over before one looks
        self.beats = self.batches = self.fillings = 0
        self.error: Exception | None = None
        self.first = threading.Event()
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()
        assert self.first.wait(60)
        assert self.error is None

    def _run(self) -> None:
        try:
            for batch in self.driver.watch(stop=self._over.is_set):
                if batch is None:  # the first lists take long here
                    self.fillings += 1
                    continue
                for found in batch:
                    last = self.known.get(found.uid)
                    assert last is None or found.version > last.version
                    self.heard.append(found)
                    self.known[found.uid] = found
                self.batches += bool(batch)
                self.beats += not batch
                self.first.set()
        except Exception as error:  # noqa: BLE001 - judged by the test
            self.error = error
            self.first.set()

    def until(self, uid: str, seen: Seen) -> Observation:
        def look():
            found = self.known.get(uid)
            return found if found is not None and found.seen == seen else None

        return wait_for(look)

    def close(self) -> None:
        self._over.set()
        self._thread.join(60)
        assert not self._thread.is_alive()
        self.driver.close()


@pytest.fixture
def follow(stub) -> Iterator[Follower]:
    made = []

    def start() -> Follower:
        made.append(Follower(stub.driver()))
        return made[-1]

    yield start
    for one in made:
        one.close()


def put_set(stub, uid: str, *, replicas: int = 1, launch: int = 1) -> None:
    labels = names.labels("berth-", "", uid=uid, kind="workspace")
    stub.put(
        SETS,
        {
            "metadata": {
                "name": f"ws-{uid}",
                "namespace": "ns",
                "labels": labels,
                "annotations": {names.LAUNCH: str(launch)},
            },
            "spec": {"replicas": replicas},
        },
    )


def put_pod(stub, uid: str, *, ready: bool = True) -> None:
    labels = names.labels("berth-", "", uid=uid, kind="workspace")
    state = {"running": {"startedAt": AT}}
    condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": AT}
    stub.put(
        PODS,
        {
            "metadata": {
                "name": f"ws-{uid}-0",
                "namespace": "ns",
                "labels": labels,
                "annotations": {names.LAUNCH: "1"},
            },
            "spec": {"nodeName": "n", "containers": [{"name": "main"}]},
            "status": {
                "podIP": "10.0.0.9",
                "conditions": [condition],
                "containerStatuses": [{"name": "main", "state": state, "containerID": "c"}],
            },
        },
    )


def test_it_begins_with_everything_and_follows_within_a_moment(stub, follow):
    put_set(stub, "a")
    put_pod(stub, "a")
    watching = follow()
    assert watching.known["a"].seen == Seen.READY

    def followed_within(uid: str) -> float:
        put_set(stub, uid)
        watching.until(uid, Seen.CREATED)
        begun = time.monotonic()
        put_pod(stub, uid)
        watching.until(uid, Seen.READY)
        return time.monotonic() - begun

    assert any(followed_within(uid) < 0.3 for uid in "bcdef")  # the machine may be busy
    stub.drop(PODS, "ns", "ws-b-0")
    stub.drop(SETS, "ns", "ws-b")
    watching.until("b", Seen.MISSING)


def test_nothing_is_listed_twice_while_all_is_well(stub, follow):
    watching = follow()
    lists, before = stub.lists(), turns(stub, SETS)
    wait_for(lambda: turns(stub, SETS) >= before + 3 and watching.beats >= 3)
    assert stub.lists() == lists
    put_set(stub, "late")
    watching.until("late", Seen.CREATED)


def test_others_of_the_same_cluster_are_not_seen(stub, follow):
    labels = names.labels("other-", "", uid="x", kind="workspace")
    stub.put(SETS, {"metadata": {"name": "ws-x", "namespace": "ns", "labels": labels}, "spec": {}})
    assert follow().known == {}


def test_e8_a_version_that_is_too_old_lists_again(stub, follow):
    put_set(stub, "a")
    watching = follow()
    lists = stub.lists()
    stub.stop()
    stub.objects.pop((SETS, "ns/ws-a"))  # a change that no watch will ever tell
    put_set(stub, "b")
    put_set(stub, "c")
    stub.oldest = stub.version()
    stub.start()
    watching.until("a", Seen.MISSING)
    watching.until("c", Seen.CREATED)
    assert stub.lists() > lists
    assert watching.error is None


def test_e8_a_server_that_forgets_at_once_is_not_listed_without_end(stub, follow):
    watching = follow()
    begun = time.monotonic()
    stub.oldest = 10**9
    before, wanted = listed(stub, SETS), 4
    wait_for(lambda: listed(stub, SETS) >= before + wanted)
    # the rests between them are of 0.1, 0.2, 0.4 s, give or take a half
    assert time.monotonic() - begun > 0.3
    time.sleep(0.5)
    assert listed(stub, SETS) - before <= wanted + 1 + (time.monotonic() - begun)
    stub.oldest = 0
    put_set(stub, "a")
    watching.until("a", Seen.CREATED)
    assert watching.error is None


def turns(stub, collection: str) -> int:
    """How often the collection has been watched from some version on."""
    return sum(path == collection and "watch" in query for _m, path, query in list(stub.seen))


def listed(stub, collection: str) -> int:
    return sum(m == "GET" and p == collection and "limit" in q for m, p, q in list(stub.seen))


def test_e8_a_connection_that_is_only_half_there_is_noticed(stub, follow):
    watching = follow()
    stub.frozen = True
    before = turns(stub, SETS)
    put_set(stub, "a")
    wait_for(lambda: turns(stub, SETS) > before + 1)  # it gave a silent one up
    stub.frozen = False
    watching.until("a", Seen.CREATED)
    assert watching.error is None


def test_e7_a_short_outage_is_bridged_without_a_list(stub, follow):
    watching = follow()
    lists = stub.lists()
    stub.stop()
    time.sleep(0.2)
    stub.start()
    put_set(stub, "a")
    watching.until("a", Seen.CREATED)
    assert (watching.error, stub.lists()) == (None, lists)


def test_e7_a_long_outage_ends_it_so_that_somebody_begins_anew(stub, follow, monkeypatch):
    monkeypatch.setattr(watch, "PATIENCE_S", 0.5)
    watching = follow()
    stub.stop()
    wait_for(lambda: watching.error is not None)
    assert isinstance(watching.error, Unreachable)
    stub.start()
    put_set(stub, "a")
    assert follow().known["a"].seen == Seen.CREATED


def test_e7_all_kinds_are_heard_as_soon_as_one_of_them_is_answered(stub, follow, monkeypatch):
    """Each rests by a time of its own: the longest must not be waited for."""
    watching = follow()  # also a kind that the cluster lacks is known by now
    monkeypatch.setattr(watch.random, "uniform", lambda _a, _b: 600.0)
    stub.stop()
    with pytest.raises(Unreachable):
        watching.driver.client.read("/version")
    time.sleep(2)  # until each of them has seen that nobody answers
    stub.start()
    begun = time.monotonic()
    watching.driver.client.read("/version")
    put_set(stub, "a")
    watching.until("a", Seen.CREATED)
    assert time.monotonic() - begun < 20  # a rest of a minute was begun
    assert watching.error is None


def refusing(stub, *collections: str, status: int = 403, times: float = math.inf) -> list[str]:
    """From now on the server refuses what is asked of these; returns what was refused."""
    refused: list[str] = []

    def fault(handler, _method, path, _query) -> bool:
        if not path.startswith(collections) or len(refused) >= times:
            return False
        refused.append(path)
        handler.refuse(status, "forbidden")
        return True

    stub.fault = fault
    return refused


def test_a_kind_that_may_not_be_read_is_left_out(stub, follow):
    refusing(stub, "/apis/rbac.authorization.k8s.io/v1/roles", EVENTS)
    watching = follow()
    put_set(stub, "a")
    watching.until("a", Seen.CREATED)


def test_e7_a_server_that_refuses_while_it_begins_is_not_believed(stub, follow, monkeypatch):
    """Its roles are not read yet: no nodes, for a minute, would be a lie."""
    monkeypatch.setattr(watch, "BELIEVED_S", 60.0)  # however long two questions take here
    stub.put(NODES, {"metadata": {"name": "n1"}, "status": {}})
    refused = refusing(stub, NODES, times=2)
    assert [n.name for n in follow().driver.node_changes().seen] == ["n1"]
    assert len(refused) == 2


@pytest.mark.parametrize("status", [403, 404])
def test_e7_what_was_listed_stays_while_its_kind_is_refused(stub, follow, monkeypatch, status):
    """A balancer's 404, or rights that are away for a while, do not say that no node is left."""
    monkeypatch.setattr(watch, "_DENIED_S", 0.2)
    stub.put(NODES, {"metadata": {"name": "n1"}, "status": {}})
    stub.put(NODES, {"metadata": {"name": "n2"}, "status": {}})
    watching = follow()
    assert len(watching.driver.node_changes().seen) == 2
    refused = refusing(stub, NODES, status=status)
    # First turns are refused, and when that is believed, lists.
    wait_for(lambda: sum("watch" not in path for path in refused) >= 3)
    put_set(stub, "a")
    watching.until("a", Seen.CREATED)
    assert watching.driver.node_changes() is None
    stub.drop(NODES, "", "n2")
    stub.fault = lambda *_: False
    changes = wait_for(watching.driver.node_changes)
    assert ([n.name for n in changes.seen], changes.full) == (["n1"], True)


def test_e7_nodes_that_may_not_be_read_are_not_told_to_be_gone(stub, follow):
    """A watch that begins anew does not know what the one before it was told."""
    refusing(stub, NODES)
    assert follow().driver.node_changes() is None


def test_e7_a_refusal_of_long_ago_does_not_make_the_next_one_believed(
    stub, clock, follow, monkeypatch
):
    monkeypatch.setattr(watch, "BELIEVED_S", 60.0)
    watching = follow()
    lists = stub.lists()
    for _ in range(2):
        refused, before = refusing(stub, NODES, times=1), turns(stub, NODES)
        wait_for(lambda was=before: turns(stub, NODES) > was + 1)  # one of them is good
        assert len(refused) == 1
        clock.ahead += 61.0  # longer than a refusal lasts that is believed
    assert stub.lists() == lists
    assert watching.error is None


@pytest.mark.parametrize("kind", ["statefulsets", "jobs", "pods"])
def test_without_what_runs_nothing_can_be_said(stub, kind):
    """Not even that it is gone: a load that nobody may see would count as vanished."""
    apis = {"statefulsets": SETS, "jobs": "/apis/batch/v1/jobs", "pods": PODS}
    refusing(stub, apis[kind])
    driver = stub.driver()
    with pytest.raises(Unreachable, match=kind):
        next(driver.watch(stop=lambda: False))
    driver.close()


def test_nodes_are_handed_on_once(stub, follow):
    ready = {"conditions": [{"type": "Ready", "status": "True"}], "allocatable": {"cpu": "2"}}
    stub.put(NODES, {"metadata": {"name": "n1"}, "status": ready})
    watching = follow()
    first = watching.driver.node_changes()
    assert ([n.name for n in first.seen], first.full) == (["n1"], True)
    assert watching.driver.node_changes() is None
    stub.drop(NODES, "", "n1")
    changes = wait_for(watching.driver.node_changes)
    assert changes.gone == ("n1",)


def test_an_event_tells_why_nothing_was_made(stub, follow):
    watching = follow()
    put_set(stub, "a")
    watching.until("a", Seen.CREATED)
    stub.put(
        EVENTS,
        {
            "metadata": {"name": "e", "namespace": "ns"},
            "type": "Warning",
            "reason": "FailedCreate",
            "message": "forbidden: exceeded quota: berth",
            "lastTimestamp": AT,
            "involvedObject": {"kind": "StatefulSet", "namespace": "ns", "name": "ws-a"},
        },
    )
    wait_for(lambda: watching.known["a"].reason == Reason.QUOTA_DENIED)


def test_what_is_watched_is_not_listed_for_orphans(stub, follow):
    put_set(stub, "a")
    watching = follow()
    lists = stub.lists()
    assert [o.uid for o in watching.driver.list_owned()] == ["a"]
    assert stub.lists() == lists


def test_a_pod_is_asked_directly_and_believed(stub, follow, monkeypatch):
    from http.server import BaseHTTPRequestHandler, HTTPServer

    class Answer(BaseHTTPRequestHandler):
        good = False

        def do_GET(self) -> None:
            self.send_response(200 if Answer.good and self.path == "/ready" else 503)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_args) -> None: ...

    server = HTTPServer(("127.0.0.1", 0), Answer)
    threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
    watching = follow()

    def believed_within(uid: str) -> float:
        Answer.good = False
        put_set(stub, uid)
        put_pod(stub, uid, ready=False)
        pod = stub.objects[(PODS, f"ns/ws-{uid}-0")]
        pod["status"]["podIP"] = "127.0.0.1"
        pod["spec"]["containers"][0] |= {
            "ports": [{"containerPort": server.server_port}],
            "startupProbe": {"httpGet": {"path": "/ready", "port": server.server_port}},
        }
        stub.put(PODS, pod)
        watching.until(uid, Seen.STARTING)
        time.sleep(0.3)
        assert watching.known[uid].seen == Seen.STARTING
        begun = time.monotonic()
        Answer.good = True
        found = watching.until(uid, Seen.READY)
        assert found.address == f"127.0.0.1:{server.server_port}"
        return time.monotonic() - begun

    assert any(believed_within(uid) < 0.5 for uid in "abcde")  # the machine may be busy
    server.shutdown()


def test_c11_long_lists_are_told_of_while_they_arrive_however_long_that_takes(
    stub, follow, monkeypatch
):
    """The first one judged by the whole time began anew for ever, where it took too long."""
    monkeypatch.setattr(watch, "_FIRST_S", 0.6)
    monkeypatch.setattr(watch, "_TELL_S", 0.0)
    monkeypatch.setattr(client, "_PAGE", 1)
    plain = client.KubeClient.pages

    def slowly(self, *words):
        for page in plain(self, *words):
            time.sleep(0.1)
            yield page

    monkeypatch.setattr(client.KubeClient, "pages", slowly)
    for n in range(12):
        put_set(stub, f"{n:08d}-0000-4000-8000-000000000000")
    seen = follow()
    assert len(seen.known) == 12
    assert seen.fillings >= 12
    assert seen.error is None


def test_a_list_that_is_no_json_is_not_taken_for_an_empty_one(stub, follow, monkeypatch):
    put_set(stub, (uid := "00000001-0000-4000-8000-000000000000"))
    plain, broken = client.KubeClient.request, []

    def garbled(self, method, path, *words, **more):
        answer = plain(self, method, path, *words, **more)
        if path.endswith("/statefulsets") and len(broken) < 2:
            broken.append(path)
            return replace(answer, body=b"<html>")
        return answer

    monkeypatch.setattr(client.KubeClient, "request", garbled)
    seen = follow()
    assert len(broken) == 2
    assert [o.uid for o in seen.heard] == [uid]
