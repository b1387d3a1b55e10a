"""After detaching: empty namespaces go, what holds anything stays, and an event says which."""

import base64
import json
from datetime import timedelta

import pytest
import yaml

from clusters import registry
from clusters.models import Cluster, Farewell
from clusters.services.detach import run_due
from common import sealing
from common.clock import now
from events.models import Event
from projects.models import ProjectNamespace
from runtime import installation
from runtime.drivers.kubernetes.namespaces import Leaving
from runtime.protocol import Denied, NotYet
from tests.clusters import kubeconfigs
from tests.drivers.kubernetes.stub import Stub

pytestmark = pytest.mark.django_db
CLUSTERS = "/api/v1/clusters"
KINDS = {
    "/api/v1": ("pods", "persistentvolumeclaims", "secrets", "configmaps", "events"),
    "/apis/apps/v1": ("statefulsets",),
    "/apis/networking.k8s.io/v1": ("networkpolicies",),
    "/apis/events.k8s.io/v1": ("events",),
    "/apis/ml.example/v2": ("models",),
    "/apis/ml.example/v1": ("models", "datasets", "events"),
}
GROUPS = {
    "apps": ["apps/v1"],
    "networking.k8s.io": ["networking.k8s.io/v1"],
    "events.k8s.io": ["events.k8s.io/v1"],
    "ml.example": ["ml.example/v2", "ml.example/v1"],  # the second has kinds the first has not
}


@pytest.fixture
def stub(tmp_path, settings):
    settings.BERTH_ALLOW_PRIVATE_CLUSTERS = True
    public, private = sealing.new_pair()
    settings.BERTH_CLUSTER_PUBLIC_KEY = public
    settings.BERTH_CLUSTER_PRIVATE_KEY = [private]
    registry.reset()
    made = Stub(tmp_path)
    made.fault = discovery
    yield made
    made.stop()
    registry.reset()


def discovery(handler, _method, path, _query):
    """What an API server says it has."""
    if path == "/apis":
        groups = [
            {"name": group, "versions": [{"groupVersion": version} for version in versions]}
            for group, versions in GROUPS.items()
        ]
        for group in groups:
            group["preferredVersion"] = group["versions"][0]
        handler.say(200, {"groups": [*groups, {"name": "metrics.k8s.io"}]})
        return True
    if path in KINDS:
        rows = [{"name": n, "namespaced": True, "verbs": ["list"]} for n in KINDS[path]]
        rows += [{"name": "pods/log", "namespaced": True, "verbs": ["list"]}]
        handler.say(200, {"resources": rows})
        return True
    return False


@pytest.fixture
def detach(stub, as_user, operator, project):
    """A cluster where ``project`` has a namespace with its bundle; detached when it is called."""
    document = kubeconfigs.document(token="good")
    document["clusters"][0]["cluster"] = {
        "server": f"https://127.0.0.1:{stub.port}",
        "certificate-authority-data": base64.b64encode(stub.ca.encode()).decode(),
    }
    op = as_user(operator)
    body = {"name": "East", "kubeconfig": yaml.safe_dump(document)}
    made = op.post(CLUSTERS, body, content_type="application/json")
    assert made.status_code == 201, made.content
    place = ProjectNamespace.objects.create(
        project=project, cluster_key="east", namespace="berth-demo", phase_since=now()
    )
    ours = {"berth.dev/uid": str(place.uid), "berth.dev/kind": "place"}
    stub.put("/api/v1/namespaces", {"metadata": {"name": "berth-demo", "labels": ours}})
    put(stub, "/apis/networking.k8s.io/v1/networkpolicies", "default-deny", ours)
    put(stub, "/api/v1/secrets", "berth-registries", ours)
    put(stub, "/api/v1/configmaps", "kube-root-ca.crt")
    put(stub, "/api/v1/events", "something-happened")
    put(stub, "/apis/events.k8s.io/v1/events", "something-happened")

    def act():
        answer = op.delete(f"{CLUSTERS}/east?confirm=East")
        assert answer.status_code == 200, answer.content

    return act


def put(stub, collection, name, labels=None):
    meta = {"name": name, "namespace": "berth-demo", "labels": labels or {}}
    stub.put(collection, {"metadata": meta})


def is_there(stub):
    return ("/api/v1/namespaces", "/berth-demo") in stub.objects


def test_an_empty_namespace_goes_and_then_the_credential(stub, detach):
    detach()
    assert not Cluster.objects.filter(key="east").exists()
    assert is_there(stub)  # nothing is done by the request itself
    assert "good" not in Farewell.objects.get().sealed_kubeconfig
    assert run_due() == 1
    assert not is_there(stub)
    assert not Farewell.objects.exists()
    told = Event.objects.get(verb="cluster.namespaces-removed")
    assert (told.target_name, told.data["removed"]) == ("East", ["berth-demo"])


@pytest.mark.parametrize(
    ("collection", "name", "labels"),
    [
        ("/api/v1/pods", "somebody", {}),
        ("/api/v1/persistentvolumeclaims", "vol-1", {"berth.dev/kind": "volume"}),
        ("/api/v1/persistentvolumeclaims", "vol-2", {"berth.dev/kind": "place"}),
        ("/api/v1/secrets", "mine", {}),
        ("/api/v1/configmaps", "notes", {"berth.dev/kind": "place"}),
        ("/apis/apps/v1/statefulsets", "ws-1", {}),
        ("/apis/networking.k8s.io/v1/networkpolicies", "by-hand", {}),
        ("/apis/ml.example/v2/models", "resnet", {}),
        ("/apis/ml.example/v1/datasets", "only-in-the-older-version", {}),
        ("/apis/ml.example/v1/events", "not-those-of-kubernetes", {}),
    ],
)
def test_a_namespace_that_holds_anything_stays_and_it_is_said_what(
    stub, detach, collection, name, labels
):
    put(stub, collection, name, labels)
    detach()
    assert run_due() == 1
    assert is_there(stub)
    assert stub.count("DELETE") == 0
    told = Event.objects.get(verb="cluster.namespaces-left")
    assert told.data["left"] == {"berth-demo": f"{collection.rsplit('/', 1)[1]}/{name}"}


@pytest.mark.parametrize("may_list", [True, False])
def test_a3_tokens_end_also_where_the_namespace_stays(stub, detach, may_list):
    def closed(handler, method, path, query):
        if not may_list and method == "GET" and "/serviceaccounts?" in path:
            handler.refuse(403)
            return True
        return discovery(handler, method, path, query)

    stub.fault = closed
    row = stub.objects["/api/v1/namespaces", "/berth-demo"]
    note = {"Secret/grant-1": "a", "ServiceAccount/user-1": "b", "Secret/berth-registries": "c"}
    row["metadata"]["annotations"] = {"berth.dev/bundle": json.dumps(note)}
    ours = dict(row["metadata"]["labels"])
    put(stub, "/api/v1/secrets", "grant-1", ours)
    put(stub, "/api/v1/serviceaccounts", "user-1", ours)
    put(stub, "/api/v1/serviceaccounts", "user-unknown", ours)
    put(stub, "/api/v1/serviceaccounts", "user-of-somebody")
    put(stub, "/api/v1/serviceaccounts", "default", ours)
    put(stub, "/api/v1/pods", "somebody")
    detach()
    run_due()
    assert is_there(stub)
    left = {key[1].partition("/")[2] for key in stub.objects}
    assert left >= {"user-of-somebody", "default", "berth-registries"}
    assert not {"grant-1", "user-1"} & left
    assert ("user-unknown" in left) != may_list


def test_what_may_not_be_looked_at_counts_as_something(stub, detach):
    def closed(handler, method, path, query):
        if path.partition("?")[0].endswith("/secrets"):
            handler.refuse(403)
            return True
        return discovery(handler, method, path, query)

    stub.fault = closed
    detach()
    run_due()
    assert is_there(stub)
    told = Event.objects.get(verb="cluster.namespaces-left")
    assert told.data["left"] == {"berth-demo": "secrets: may not be listed"}


def test_a_namespace_of_the_same_name_that_is_not_ours_stays(stub, detach):
    stub.put("/api/v1/namespaces", {"metadata": {"name": "berth-demo", "labels": {}}})
    detach()
    run_due()
    assert is_there(stub)
    assert Event.objects.filter(verb="cluster.namespaces-left").exists()


def test_a_cluster_that_does_not_answer_is_asked_again_for_an_hour(stub, detach):
    detach()
    stub.stop()
    assert run_due() == 0
    row = Farewell.objects.get()
    assert now() < row.next_at < row.until
    Farewell.objects.update(next_at=now(), until=now() - timedelta(seconds=1))
    assert run_due() == 1
    assert Event.objects.filter(verb="cluster.namespaces-left").exists()
    assert not Farewell.objects.exists()


def test_one_that_was_attached_again_keeps_its_namespaces(stub, detach):
    server = Cluster.objects.get(key="east").server
    detach()
    Cluster.objects.create(
        key="back", name="Back", server=server, options={"namespace_prefix": "berth-"}
    )
    assert run_due() == 1
    assert is_there(stub)
    assert stub.seen == []


def test_without_the_key_nothing_is_touched(stub, detach, settings):
    detach()
    settings.BERTH_CLUSTER_PRIVATE_KEY = []
    assert run_due() == 0
    assert Farewell.objects.exists()


@pytest.fixture
def answers(monkeypatch):
    """What looking at a namespace does, by its name; the others are gone."""
    said = {}

    def look(_self, namespace, _uid):
        if isinstance(said.get(namespace), Exception):
            raise said[namespace]
        return said.get(namespace, "")

    monkeypatch.setattr(Leaving, "remove_if_empty", look)
    return said


def left_of_two(until=timedelta(hours=1)):
    row = Farewell.objects.get()
    row.places["berth-other"] = row.places["berth-demo"]
    row.next_at, row.until = now(), now() + until
    row.save()


def test_an_error_of_one_namespace_says_nothing_of_the_others(detach, answers):
    answers["berth-demo"] = Denied("a webhook refused")
    detach()
    left_of_two()
    assert run_due() == 1
    told = Event.objects.get(verb="cluster.namespaces-left").data
    assert told == {"removed": ["berth-other"], "left": {"berth-demo": "a webhook refused"}}


def test_what_is_only_not_yet_done_is_asked_again(detach, answers):
    answers["berth-demo"] = NotYet("busy")
    detach()
    left_of_two()
    assert run_due() == 0
    assert Farewell.objects.get().next_at > now()
    left_of_two(until=-timedelta(seconds=1))
    assert run_due() == 1
    assert not Farewell.objects.exists()
    told = Event.objects.get(verb="cluster.namespaces-left").data
    assert told == {"removed": ["berth-other"], "left": {"berth-demo": "busy"}}


def test_what_nobody_expected_ends_too_and_keeps_no_other_waiting(detach, answers):
    answers["berth-demo"] = RuntimeError("never thought of")
    detach()
    row = Farewell.objects.get()
    row.pk, row.name, row.places = None, "Later", {"berth-later": "x"}
    row.save()
    assert run_due() == 1  # the later one
    assert Farewell.objects.get().name == "East"
    Farewell.objects.update(next_at=now(), until=now() - timedelta(seconds=1))
    assert run_due() == 1
    assert not Farewell.objects.exists()
    told = Event.objects.get(verb="cluster.namespaces-left").data["left"]
    assert told == {"berth-demo": "it could not be looked at"}


KUEUE = "/apis/kueue.x-k8s.io/v1beta2"


@pytest.fixture
def forget(stub, detach, as_user, operator):
    """The same cluster with queues of Berth, forgotten while it did not answer."""
    row = Cluster.objects.get(key="east")
    row.options = {**row.options, "manages_queues": True}
    row.reachable, row.checked_at = False, now()
    row.save()
    own = {
        "berth.dev/managed": "true",
        "berth.dev/instance": "berth",
        "berth.dev/installation": installation.own_id(),
    }
    for plural, labels in (("clusterqueues", own), ("cohorts", own), ("resourceflavors", {})):
        stub.put(f"{KUEUE}/{plural}", {"metadata": {"name": "berth-demo", "labels": labels}})

    def act():
        answer = as_user(operator).delete(f"{CLUSTERS}/east?confirm=East&forget=true")
        assert answer.status_code == 200, answer.content

    return act


def kueue_answers(status):
    def fault(handler, method, path, query):
        if path == KUEUE:
            handler.say(status, {"resources": []})
            return True
        return discovery(handler, method, path, query)

    return fault


def test_the_queues_that_berth_kept_go_too_and_those_of_others_stay(stub, forget):
    stub.fault = kueue_answers(200)
    forget()
    assert run_due() == 0  # they are looked at once more
    Farewell.objects.update(next_at=now())
    assert run_due() == 1
    assert {key[0] for key in stub.objects if key[0].startswith(KUEUE)} == {
        f"{KUEUE}/resourceflavors"
    }
    event = Event.objects.get(verb="cluster.namespaces-removed")
    assert event.data["removed"] == ["Kueue", "berth-demo"]


def test_queues_that_nobody_can_remove_any_more_are_told(stub, forget):
    stub.fault = kueue_answers(404)
    forget()
    assert run_due() == 1
    event = Event.objects.get(verb="cluster.namespaces-left")
    assert list(event.data["left"]) == ["Kueue"]
    assert "not installed" in event.data["left"]["Kueue"]


@pytest.mark.parametrize("marks", [{"berth.dev/instance": "berth"}, {}])
def test_what_katib_has_of_ended_searches_goes_with_the_cluster(stub, detach, marks):
    stub.put("/api/v1/namespaces", {"metadata": {"name": "berth-searches", "labels": marks}})
    detach()
    run_due()
    assert (("/api/v1/namespaces", "/berth-searches") in stub.objects) != bool(marks)
    left = Event.objects.filter(verb="cluster.namespaces-left")
    assert left.exists() != bool(marks)  # of somebody else's of that name it is said
