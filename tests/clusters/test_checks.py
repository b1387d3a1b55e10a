"""What checks conclude from what an API server answers; the real cluster is in tests/cluster."""

import functools
import socket
from collections import Counter
from dataclasses import replace
from datetime import timedelta
from email.utils import format_datetime
from pathlib import Path

import pytest

from clusters import checks, registry
from clusters.checks import (
    CHECKS,
    connectivity,
    models,
    network,
    queue,
    recipe,
    rights,
    simple,
    storage,
    training,
)
from clusters.checks.base import Answer, green, red, text_of, unknown
from clusters.checks.probe_runner import Bench
from clusters.models import CheckResult, Cluster, Flavor, Node
from clusters.options import ClusterOptions
from clusters.services import checks_store
from common.clock import now
from events.models import Event
from queues.models import ClusterQueues
from runtime.protocol import Unreachable
from tests.clusters.probing import Api, bench, ended, listening, subject


@pytest.mark.parametrize(
    ("incoming", "outgoing", "state"),
    [(0, 0, "green"), (10, 0, "red"), (0, 10, "red"), (10, 10, "red"), (11, 0, "unknown")],
)
def test_c10_both_directions_must_be_closed(incoming, outgoing, state):
    assert network.judge(incoming, outgoing).state == state


def test_c10_without_an_image_nothing_is_claimed():
    api = Api()
    assert network.act(subject(api), bench(api)).state == "unknown"
    assert api.asked == []


def node(address, ready="True"):
    conditions = [{"type": "Ready", "status": ready}]
    where = [{"type": "Hostname", "address": "n"}, {"type": "InternalIP", "address": address}]
    return {"status": {"conditions": conditions, "addresses": where}}


def test_c10_the_own_node_others_and_metadata_are_probed():
    nodes = connectivity.addresses(
        {"items": [node("10.0.0.1"), node("10.0.0.2", "Unknown"), node("fd00::3"), node("x,y")]}
    )
    assert nodes == ["10.0.0.1", "fd00::3"]
    tried = connectivity.targets(nodes)
    assert tried == [
        ("169.254.169.254", 80),  # what nothing starts with is told before the rest
        ("$(NODE_ADDRESS)", 10250),
        ("10.0.0.1", 10250),
        ("fd00::3", 10250),
    ]
    assert len(connectivity.targets([f"10.0.0.{n}" for n in range(90)])) == 5


@pytest.mark.parametrize(
    ("code", "state", "words"),
    [
        (0, "green", "neither kubelet nor metadata"),
        (10, "red", "metadata address 169.254.169.254"),
        (11, "red", "their own node"),
        (12, "red", "kubelet of 10.0.0.1"),
        (1, "unknown", "ended with 1"),
        (13, "unknown", "did not reach another one"),
        (14, "unknown", "ended with 14"),
    ],
)
def test_c10_what_was_reached_is_named_with_a_fix(code, state, words):
    found = connectivity.judge(code, connectivity.targets(["10.0.0.1"]))
    assert found.state == state
    assert words in found.text()
    assert bool(found.fix) == (state == "red" or "another one" in words)


@pytest.mark.django_db
def test_c10_the_probing_pod_is_closed_as_those_of_projects_are():
    made = {}

    def keep(body):
        made[body["kind"] + "/" + body["metadata"]["name"]] = body
        return Answer(200, {})

    ended = {"status": {"containerStatuses": [{"state": {"terminated": {"exitCode": 10}}}]}}
    api = Api(
        nodes=Answer(200, {"items": [node("10.0.0.1")]}),
        networkpolicies=keep,
        statefulsets=keep,
        **{"pods/beside": listening("10.0.0.9")},
        pods=Answer(200, ended),
    )
    found = connectivity.apart(subject(api), bench(api, check_image="x"))
    assert found.state == "red"
    assert made["NetworkPolicy/default-deny"]["spec"]["policyTypes"] == ["Ingress", "Egress"]
    env = made["StatefulSet/probe"]["spec"]["template"]["spec"]["containers"][0]["env"]
    assert [entry["name"] for entry in env][:3] == ["NODE_ADDRESS", "EXPECT", "WAIT"]
    assert env[0]["valueFrom"]["fieldRef"]["fieldPath"] == "status.hostIP"
    assert env[1]["value"].endswith(
        ",closed $(NODE_ADDRESS) 10250,closed 10.0.0.1 10250,open 10.0.0.9"
    )
    assert connectivity.apart(subject(api), bench(api)).state == "unknown"  # without an image


def of_api_server(monkeypatch, code, *, says=True, server="https://198.51.100.7:443"):
    """The finding, and what was tried, where the probe ends so."""
    made = {}

    def keep(body):
        made[body["kind"] + "/" + body["metadata"]["name"]] = body
        return Answer(200, {})

    real = socket.getaddrinfo
    numeric = functools.partial(real, flags=socket.AI_NUMERICHOST)
    monkeypatch.setattr(socket, "getaddrinfo", numeric)
    row = {"endpoints": [{"addresses": ["10.0.0.5"]}], "ports": [{"port": 6443}]}
    api = Api(
        endpointslices=Answer(200, row) if says else Answer(403, {"message": "no"}),
        nodes=Answer(200, {"items": [node("10.0.0.1")]}),
        networkpolicies=keep,
        statefulsets=keep,
        **{"pods/beside": listening("10.0.0.9")},
        pods=ended(code),
    )
    asked = subject(api)
    asked.cluster.server = server
    found = connectivity.apart(asked, bench(api, check_image="x"))
    env = made["StatefulSet/probe"]["spec"]["template"]["spec"]["containers"][0]["env"]
    tried, _comma, beside = env[1]["value"].rpartition(",")
    assert beside == "open 10.0.0.9"
    return found, tried, str(made.get("NetworkPolicy/allow-internet"))


@pytest.mark.django_db
def test_c10_the_api_server_is_tried_wherever_it_listens(monkeypatch):
    found, tried, internet = of_api_server(monkeypatch, 0)
    assert tried.endswith(",closed 198.51.100.7 443,closed 10.0.0.5 6443")
    assert "198.51.100.7/32" in internet
    assert found.state == "green"
    assert "API server" in found.text()


@pytest.mark.django_db
def test_c10_an_api_server_that_pods_reach_is_named(monkeypatch):
    found, tried, _internet = of_api_server(monkeypatch, 13)
    assert tried.split(",")[3] == "closed 198.51.100.7 443"
    assert (found.state, found.values) == ("red", {"address": "198.51.100.7", "port": 443})
    assert "API server at 198.51.100.7 (port 443)" in found.text()
    assert found.fix


@pytest.mark.django_db
@pytest.mark.parametrize("server", ["", "https://nowhere.invalid:443", "https://127.0.0.1:6443"])
def test_c10_an_api_server_that_could_not_be_tried_is_not_called_closed(monkeypatch, server):
    found, tried, _internet = of_api_server(monkeypatch, 0, says=False, server=server)
    assert tried.endswith("10250")
    assert found.state == "unknown"
    assert "not known" in found.text()
    reached, _tried, _internet = of_api_server(monkeypatch, 11, says=False, server=server)
    assert reached.state == "red"  # what was reached is told all the same


def clock(seconds):
    stamp = format_datetime(now() + timedelta(seconds=seconds), usegmt=True)
    api = Api(version=Answer(200, {}, {"date": stamp}))
    return simple.clock(subject(api), bench(api)).state


def test_clocks_that_differ_are_found():
    assert clock(0) == "green"
    assert clock(60) == "red"
    assert clock(-60) == "red"


@pytest.mark.parametrize("looked_after_s", [0, 10, 20])
def test_an_answer_that_takes_long_is_no_difference_of_clocks(monkeypatch, looked_after_s):
    asked = now()
    times = [asked]
    monkeypatch.setattr(simple, "now", lambda: times[-1])

    def answer(_body):
        times.append(asked + timedelta(seconds=20))
        stamp = format_datetime(asked + timedelta(seconds=looked_after_s), usegmt=True)
        return Answer(200, {}, {"date": stamp})

    api = Api(version=answer)
    assert simple.clock(subject(api), bench(api)).state == "green"


@pytest.mark.parametrize(("minor", "state"), [("36", "green"), ("29+", "green"), ("28", "red")])
def test_an_old_server_is_refused(minor, state):
    api = Api(version=Answer(200, {"major": "1", "minor": minor, "gitVersion": f"v1.{minor}"}))
    assert simple.version(subject(api), bench(api)).state == state


def security(status, message):
    api = Api(pods=Answer(status, {"message": message}))
    return simple.pod_security(subject(api), bench(api)).state


def test_pod_security_must_refuse_what_would_own_a_node():
    assert security(403, 'pods "x" is forbidden: violates PodSecurity "restricted"') == "green"
    assert security(201, "") == "red"
    assert security(500, "ill") == "unknown"


def test_an_identity_without_the_right_to_make_pods_reads_the_warning():
    warning = '299 - "would violate PodSecurity \\"restricted:latest\\": hostPID"'
    api = Api(
        pods=Answer(403, {"message": "User cannot create resource pods"}),
        statefulsets=Answer(200, {}, {"warning": warning}),
    )
    assert simple.pod_security(subject(api), bench(api)).state == "green"


def reviewed(allowed):
    def answer(body):
        attributes = body["spec"]["resourceAttributes"]
        return Answer(201, {"status": {"allowed": allowed(attributes)}})

    return Api(selfsubjectaccessreviews=answer)


def test_lacking_rights_are_named_with_a_command():
    api = reviewed(lambda a: a["resource"] != "networkpolicies")
    found = rights.needed(subject(api), bench(api))
    assert found.state == "red"
    assert "create networkpolicies.networking.k8s.io" in found.text()
    assert found.fix.startswith("kubectl auth can-i create networkpolicies")


@pytest.mark.parametrize(
    ("lacking", "said"),
    [
        (("list", None), "list httproutes.gateway.networking.k8s.io -A"),
        (("create", "portal"), "create httproutes.gateway.networking.k8s.io -n portal"),
    ],
)
def test_rights_for_routes_are_asked_where_the_gateway_is(settings, lacking, said):
    api = reviewed(
        lambda a: a["resource"] != "httproutes" or (a["verb"], a.get("namespace")) != lacking
    )
    assert rights.needed(subject(api), bench(api)).state == "green"  # other routers need none
    settings.BERTH_ROUTER = "gateway"
    settings.BERTH_GATEWAY_CLUSTER = subject(api).cluster.key
    settings.BERTH_GATEWAY_PROXY = "portal/proxy:8001"
    found = rights.needed(subject(api), bench(api))
    assert (found.state, said in found.text()) == ("red", True), found.text()
    settings.BERTH_GATEWAY_CLUSTER = "another"
    assert rights.needed(subject(api), bench(api)).state == "green"


def test_too_many_rights_are_named():
    api = reviewed(lambda a: a["verb"] == "impersonate")
    found = rights.restraint(subject(api), bench(api))
    assert (found.state, "impersonate users" in found.text()) == ("red", True)


ACTS = {  # words of the path → words of the finding
    "kube-system/rolebindings": "create rolebindings (berth-projects) -n kube-system",
    "default/rolebindings": "create rolebindings (berth-projects) -n default",
    "of-others/rolebindings": "create rolebindings (berth-projects) -n of-others",
    "kube-system/pods": "create pods -n kube-system",
    "namespaces/kube-system": "patch namespaces kube-system",
    "api/v1/namespaces": "create namespaces (privileged)",
    "persistentvolumes": "create persistentvolumes (hostPath /)",
}


class Fenced(Api):
    """Roles allow nothing that a review would name; ``let`` is what no fence refuses."""

    def __init__(self, let="", status=422):
        super().__init__()
        self.let, self.status, self.tried = let, status, {}
        self.review = lambda _body: Answer(201, {"status": {"allowed": False}})

    def ask(self, method, path, body=None, params=None):
        if path == rights.REVIEW:
            return self.review(body)
        if (params or {}).get("dryRun") == "All":
            self.tried[path] = body
            is_open = self.let and self.let == next((w for w in ACTS if w in path), "")
            return Answer(201 if is_open else self.status, {"message": "denied by a policy"})
        if method == "GET" and path == "/api/v1/namespaces":
            ours = {"name": "berth-demo-1", "labels": {"berth.dev/instance": "berth"}}
            going = {"name": "going", "deletionTimestamp": "2026-01-01T00:00:00Z"}
            names = [ours, going, *({"name": n} for n in ("default", "kube-public", "of-others"))]
            return Answer(200, {"items": [{"metadata": one} for one in names]})
        return super().ask(method, path, body, params)


@pytest.mark.parametrize("let", ACTS)
def test_c6_what_would_own_the_cluster_is_tried_and_the_remedy_is_the_fence(let):
    api = Fenced(let)
    found = rights.restraint(subject(api), bench(api))
    assert (found.state, found.values) == ("red", {"acts": ACTS[let]}), found
    assert "--show-only templates/admission.yaml --kube-version 1.30.0 | kubectl apply" in found.fix


def test_c6_behind_a_fence_it_is_green_and_what_was_not_answered_is_not():
    api = Fenced()
    assert rights.restraint(subject(api), bench(api)).state == "green"
    assert len(api.tried) == len(ACTS)  # one binding each: the cluster's own, and of others
    api = Fenced(status=500)
    assert rights.restraint(subject(api), bench(api)).state == "unknown"


def test_c6_the_recipe_fences_the_account_prefix_and_volumes_that_the_options_say():
    given = {"portal_role": "berth-lab-projects", "portal_account": "ops/portal"}
    nfs = {"volume_kind": "nfs", "nfs_server": "nas.example", "nfs_export": "/homes"}
    api = Fenced("persistentvolumes")
    options = {**given, **nfs, "namespace_prefix": "lab-", "volume_path": "/mnt/all"}
    fix = rights.restraint(subject(api, **options), bench(api, **options)).fix
    assert fix.startswith("helm template berth-lab deploy/helm/berth -n ops ")
    for words in (
        "serviceAccount.name=portal",
        "cluster.namespacePrefix=lab-",
        "cluster.volumePath=/mnt/all",
        "cluster.storage.kind=nfs",
        "cluster.storage.nfs.server=nas.example",
        "cluster.storage.nfs.export=/homes",
    ):
        assert f" --set {words} " in fix


def test_c6_the_runbook_prints_the_same_recipe():
    runbook = Path("docs/runbook/clusters.md").read_text()
    assert all(line in runbook for line in recipe.small_account().splitlines())
    assert "templates/admission.yaml" in recipe.small_account()


def test_rights_that_were_just_given_are_asked_again(monkeypatch):
    """An API server hears of a new role binding a moment after it answered that it is made."""
    monkeypatch.setattr(rights, "_AGAIN_S", 0.0)
    asked = Counter()

    def heard(attributes):
        asked[attributes["verb"], attributes["resource"]] += 1
        return attributes["resource"] != "secrets" or asked["create", "secrets"] > 2

    api = reviewed(heard)
    assert rights.needed(subject(api), Bench(api, ClusterOptions(), wait_s=10)).state == "green"
    assert asked["create", "secrets"] == 3
    assert asked["create", "statefulsets"] == 1


def test_what_the_api_server_did_not_say_is_neither_a_right_nor_the_lack_of_one():
    api = Api(selfsubjectaccessreviews=silent_about("secrets", allowed=True))
    assert rights.needed(subject(api), bench(api)).state == "unknown"
    api = Fenced()
    api.review = silent_about("secrets", allowed=False)
    assert rights.restraint(subject(api), bench(api)).state == "unknown"


def silent_about(resource, *, allowed):
    def answer(body):
        if body["spec"]["resourceAttributes"]["resource"] == resource:
            return Answer(504, {"message": "timeout"})
        return Answer(201, {"status": {"allowed": allowed}})

    return answer


QUEUED = {"spec": {"schedulingGates": [{"name": "kueue.x-k8s.io/admission"}]}}
AWAY = 'Internal error occurred: failed calling webhook "mpod.kb.io": dial tcp: refused'


def local_queue(namespace, name="q", active="True", message=""):
    said = {"type": "Active", "status": active, "message": message}
    meta = {"namespace": namespace, "name": name}
    return {"metadata": meta, "status": {"conditions": [said]}}


@pytest.mark.parametrize(
    ("queues", "pod", "state", "words"),
    [
        ([local_queue("p1"), local_queue("p2")], (201, QUEUED), "green", "holds what names “q”"),
        ([], (201, QUEUED), "red", "no LocalQueue “q” in p1, p2"),
        ([local_queue("p1")], (201, QUEUED), "red", "no LocalQueue “q” in p2"),
        ([local_queue("p1"), local_queue("p2", "other")], (201, QUEUED), "red", "“q” in p2"),
        (
            [local_queue("p1"), local_queue("p2", active="False", message="ClusterQueue is gone")],
            (201, QUEUED),
            "red",
            "The LocalQueue of p2 lets nothing in: ClusterQueue is gone",
        ),
        ([local_queue("p1"), local_queue("p2")], (201, {}), "red", "does not hold pods"),
        (
            [local_queue("p1"), local_queue("p2")],
            (500, {"message": AWAY}),
            "red",
            "webhook does not answer",
        ),
        (None, (201, QUEUED), "unknown", "forbidden"),
    ],
)
def test_a_queue_that_is_set_must_be_there_for_each_project_and_hold_work(
    queues, pod, state, words
):
    listed = Answer(403, {"message": "forbidden"})
    if queues is not None:
        listed = Answer(200, {"items": queues})
    projects = [{"metadata": {"name": name}} for name in ("p1", "p2")]

    class Kueue(Api):
        def ask(self, method, path, body=None, params=None):
            if (method, path) == ("GET", "/api/v1/namespaces"):
                assert "berth.dev/kind=place" in params["labelSelector"]
                return Answer(200, {"items": projects})
            return super().ask(method, path, body, params)

    api = Kueue(
        localqueues=listed,
        kueue=Answer(200, {"preferredVersion": {"groupVersion": "kueue.x-k8s.io/v1beta2"}}),
        pods=Answer(*pod),
    )
    found = queue.act(subject(api, queue="q"), bench(api, queue="q", check_image="x"))
    assert (found.state, words in found.text()) == (state, True), found


def test_no_queue_is_well_and_a_queue_without_kueue_is_not():
    assert queue.act(subject(Api()), bench(Api())).state == "green"  # not used
    gone = Api(kueue=Answer(404, {}))
    assert "not installed" in queue.act(subject(gone, queue="q"), bench(gone)).text()


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("answers", "phase", "state", "words"),
    [
        ({}, "running", "green", "Kueue v0.19.2 holds all work"),
        ({}, "pending", "red", "not as they should be: Kueue is away"),
        ({"kueue": Answer(404, {})}, "running", "red", "not installed"),
        ({"kueue": Answer(200, {"versions": []})}, "running", "red", "has no kueue.x-k8s.io/v1"),
        ({"berth-statefulset-scale": Answer(404, {})}, "running", "red", "scaled past Kueue"),
        ({"berth-statefulset-scale": Answer(403, {})}, "running", "unknown", "scaled past"),
        ({"namespaces/": Answer(201, {})}, "running", "red", "does not hold pods"),
    ],
)
def test_queues_that_berth_manages_are_there_and_hold_all_work(answers, phase, state, words):
    ClusterQueues.objects.create(cluster_key="c", phase=phase, message="Kueue is away.")
    image = {"image": "registry.k8s.io/kueue/kueue:v0.19.2"}
    said = {
        "kueue": Answer(200, {"versions": [{"groupVersion": "kueue.x-k8s.io/v1beta2"}]}),
        "namespaces/": Answer(201, QUEUED),
        "api/v1/pods": Answer(200, {"items": [{"spec": {"containers": [image]}}]}),
    }
    api = Api(**{**said, **answers})
    found = queue.act(
        subject(api, manages_queues=True), bench(api, manages_queues=True, check_image="x")
    )
    assert (found.state, words in found.text()) == (state, True), found


@pytest.mark.django_db
def test_nodes_that_do_not_say_where_they_stand_are_named():
    """Only where others of their kind do: a kind that has no levels is placed by hosts."""
    cluster = Cluster.objects.create(key="c", name="C", driver="kubernetes")
    for name in ("h100", "t4"):
        Flavor.objects.create(name=name, label=name, node_labels={"gpu": [name]})
    for name, kind, more in (("a", "h100", {"rack": "1"}), ("b", "h100", {}), ("d", "t4", {})):
        labels = {"gpu": kind, **more}
        Node.objects.create(
            cluster=cluster, name=name, labels=labels, offers={kind: 8}, seen_at=now()
        )
    options = {"manages_queues": True, "rack_label": "rack"}
    found = queue._standing(replace(subject(Api(), **options), cluster=cluster))
    assert found is not None
    assert found.state == "red"
    assert found.text() == "Without the label rack Kueue gives these nodes no work: b."
    Node.objects.filter(name="b").update(labels={"gpu": "h100", "rack": "2"})
    assert queue._standing(replace(subject(Api(), **options), cluster=cluster)) is None
    assert queue._standing(replace(subject(Api()), cluster=cluster)) is None


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("kind", "said", "warned"),
    [
        ("storageclass", {"allowVolumeExpansion": True}, False),
        ("storageclass", {"allowVolumeExpansion": False}, True),
        ("storageclass", {}, True),
        ("directory", {}, False),
    ],
)
def test_volumes_that_can_not_grow_are_no_fault_but_told(kind, said, warned):
    ended = {"status": {"containerStatuses": [{"state": {"terminated": {"exitCode": 0}}}]}}
    api = Api(storageclasses=Answer(200, said), pods=Answer(200, ended))
    options = {"check_image": "x", "volume_kind": kind, "storage_class": "fast"}
    found = storage.act(subject(api, **options), bench(api, **options))
    assert found.state == "green"
    assert ("“fast” does not allow it" in found.text()) == warned


def runs(name, *handlers):
    said = [{"name": n, "features": {"userNamespaces": can}} for n, can in handlers]
    return {"metadata": {"name": name}, "status": {"runtimeHandlers": said}}


@pytest.mark.parametrize(
    ("wanted", "nodes", "state", "words"),
    [
        (False, [runs("a", ("", True)), runs("b")], "green", "1 of 2"),
        (True, [runs("a", ("", True)), runs("b", ("", True))], "green", "All 2"),
        (True, [runs("a", ("", True)), runs("b", ("", False))], "red", "b can't"),
        (True, [runs("a", ("kata", True))], "red", "a can't"),  # workloads get the nameless one
        (True, [{"metadata": {"name": "old"}, "status": {}}], "red", "old can't"),
    ],
)
def test_users_of_ones_own_are_promised_only_where_every_node_can(wanted, nodes, state, words):
    api = Api(nodes=Answer(200, {"items": nodes}))
    found = simple.users(subject(api, user_namespaces=wanted), bench(api))
    assert (found.state, words in found.text()) == (state, True), found.text()


def test_everything_that_was_made_is_removed_again():
    api = Api()
    made = bench(api, portal_role="", check_image="x")
    name = made.namespace("a")
    made.remember_volume("v")
    made.close()
    assert ("DELETE", f"/api/v1/namespaces/{name}") in api.asked
    assert ("DELETE", "/api/v1/persistentvolumes/v") in api.asked


def test_words_that_do_not_fit_stay_as_they_are():
    assert text_of("%(a)s and %(b)s", {"a": 1}) == "%(a)s and %(b)s"
    assert text_of("100 %", {}) == "100 %"


@pytest.fixture
def cluster(db):
    return Cluster.objects.create(key="c", name="C", driver="kubernetes")


def test_a_fault_is_told_once_and_failing_to_ask_does_not_hide_what_was_found(cluster):
    checks_store(cluster=cluster, findings=[red("network", "It is open.")])
    checks_store(cluster=cluster, findings=[red("network", "It is open.")])
    assert Event.objects.filter(verb="cluster.check-failed").count() == 1
    checks_store(cluster=cluster, findings=[checks._failed("network", "timeout")])
    assert CheckResult.objects.get().state == "red"
    checks_store(cluster=cluster, findings=[green("network", "Closed.")])
    assert CheckResult.objects.get().state == "green"
    checks_store(cluster=cluster, findings=[unknown("network", "Set an image.")])
    assert CheckResult.objects.get().state == "unknown"


def test_a_cluster_that_is_not_there_is_asked_once_only(cluster):
    class Gone:
        asked = 0

        def ask(self, *_args, **_more):
            self.asked += 1
            raise Unreachable("The cluster does not answer.")

    api = Gone()
    (found,) = checks.run(cluster, api)
    assert found.name == "version"
    assert api.asked == 2  # the question, and a look for what was left
    cluster.refresh_from_db()
    assert cluster.checks_ran_at


def test_only_who_has_the_key_runs_them(cluster, settings):
    settings.BERTH_CLUSTER_PRIVATE_KEY = []
    registry.reset()
    assert checks.run_due() == 0
    assert not CheckResult.objects.exists()


def test_every_check_has_words_for_people():
    assert all(check.label and check.what for check in CHECKS)
    assert len({check.name for check in CHECKS}) == len(CHECKS)


@pytest.mark.parametrize(
    ("there", "words"),
    [
        (
            ("kubeflow.org/v2beta1", "jobset.x-k8s.io/v1alpha2", "trainer.kubeflow.org/v1alpha1"),
            "run on several replicas",
        ),
        (("jobset.x-k8s.io/v1alpha2", "trainer.kubeflow.org/v1alpha1"), "jobs of MPI are refused"),
        (("kubeflow.org/v1",), "Missing: mpi-operator, JobSet, Kubeflow Trainer"),
    ],
)
def test_operators_of_training_that_lack_are_named_with_what_follows(there, words):
    groups = [{"versions": [{"groupVersion": version}]} for version in there]
    api = Api(apis=Answer(200, {"groups": groups}))
    found = training.act(subject(api), bench(api))
    assert (found.state, words in found.text()) == ("green", True), found


@pytest.mark.parametrize(
    ("there", "kinds", "words"),
    [
        ("kubeflow.org/v1beta1", ["experiments", "trials"], "Katib chooses"),
        ("kubeflow.org/v1beta1", ["notebooks"], "Katib is missing"),  # of the same API
        ("kubeflow.org/v2beta1", ["experiments"], "Katib is missing"),
    ],
)
def test_what_chooses_the_values_of_searches_is_said(there, kinds, words):
    api = Api(
        v1beta1=Answer(200, {"resources": [{"name": kind} for kind in kinds]}),
        apis=Answer(200, {"groups": [{"versions": [{"groupVersion": there}]}]}),
    )
    found = training.searches(subject(api), bench(api))
    assert (found.state, words in found.text()) == ("green", True), found


@pytest.mark.parametrize(
    ("kinds", "words"),
    [(["inferenceservices"], "it must be 0.16 or newer"), (["trainedmodels"], "KServe is missing")],
)
def test_what_runs_models_is_said(kinds, words):
    told = {"groups": [{"versions": [{"groupVersion": "serving.kserve.io/v1beta1"}]}]}
    api = Api(
        v1beta1=Answer(200, {"resources": [{"name": kind} for kind in kinds]}),
        apis=Answer(200, told),
    )
    found = models.act(subject(api), bench(api))
    assert (found.state, words in found.text()) == ("green", True), found


@pytest.mark.parametrize(
    ("operator", "kind"),
    [("mpi", "mpijobs.kubeflow.org"), ("kserve", "inferenceservices.serving.kserve.io")],
)
def test_an_operator_that_is_there_needs_rights_of_its_own(operator, kind):
    def review(body):
        about = body["spec"]["resourceAttributes"]
        return Answer(201, {"status": {"allowed": about["resource"] != kind.partition(".")[0]}})

    api = Api(selfsubjectaccessreviews=review)
    without, having = subject(api), subject(api)
    having.cluster.operators = [operator]
    assert rights.needed(without, bench(api)).state == "green"
    found = rights.needed(having, bench(api))
    assert (found.state, f"create {kind}" in found.text()) == ("red", True)
