"""One installation on a cluster under a prefix: another one closes it, and nothing is made there."""

import pytest

from clusters import checks, registry
from clusters.checks import simple
from clusters.checks.base import Answer, Subject
from clusters.checks.probe_runner import Bench
from clusters.models import CheckResult, Cluster
from clusters.options import ClusterOptions, options_of
from clusters.usable import launch_refusal
from common import sealing
from runtime.drivers.kubernetes import names
from runtime.models import Installation
from tests.clusters import kubeconfigs
from tests.clusters.probing import Api, bench, subject

pytestmark = pytest.mark.django_db
CLUSTERS = "/api/v1/clusters"
THEIRS = "0b6a4c1e-0000-4000-8000-0000000000bb"


def cluster(key, **options):
    return Cluster.objects.create(
        key=key, name=key.title(), driver="kubernetes", options=ClusterOptions(**options).as_json()
    )


def saved(api):
    return Subject(cluster("c"), ClusterOptions(), api)


def namespaces(*found):
    """An API server with these namespaces of others."""

    class Server(Api):
        def ask(self, method, path, body=None, params=None):
            super().ask(method, path, body, params)
            if path.endswith("/kube-system"):
                return Answer(200, {"metadata": {"uid": "the-cluster"}})
            return Answer(
                200, {"items": list(found), "gitVersion": "v1.31.0", "minor": "31", "major": "1"}
            )

    return Server()


def theirs(name="berth-demo-1"):
    return {"metadata": {"name": name, "labels": {names.INSTALLATION: THEIRS}}}


def test_another_berth_under_our_prefix_is_named():
    found = simple.sole(saved(namespaces(theirs())), bench(namespaces()))
    assert found.state == "red"
    assert THEIRS in found.text()
    assert "Choose another prefix" in found.text()
    assert found.fix.startswith("kubectl get namespaces")


def test_where_nobody_else_is_it_is_green():
    assert simple.sole(saved(namespaces()), bench(namespaces())).state == "green"


def test_what_is_ours_and_what_others_are_trying_out_is_not_asked_for():
    asked = {}

    class Keeps(Api):
        def ask(self, method, path, body=None, params=None):
            asked.update(params or {})
            return Answer(200, {})

    simple.sole(subject(Keeps()), Bench(Keeps(), ClusterOptions(), installation="mine"))
    assert asked["labelSelector"] == (
        "berth.dev/instance=berth,berth.dev/installation,berth.dev/installation!=mine,"
        "!berth.dev/check"
    )


@pytest.mark.parametrize("trusted", [False, True])
def test_a_cluster_of_another_berth_starts_nothing_and_no_probe_is_made_there(trusted):
    Installation.objects.create()
    row = cluster("east", trusted=trusted)
    api = namespaces(theirs())
    checks.run(row, api, wait_s=0.1)
    assert [method for method, _ in api.asked if method != "GET"] == []
    assert CheckResult.objects.get(cluster=row, name="installation").state == "red"
    assert "Another Berth works on East" in launch_refusal("east")


def test_the_same_cluster_by_another_address_is_found_by_what_it_is():
    first, second = cluster("one"), cluster("two")
    other = cluster("three", namespace_prefix="else-")
    states = []
    for row in (first, second, other):
        api = namespaces()
        states.append(simple.sole(Subject(row, options_of(row.options), api), bench(api)))
    assert [found.state for found in states] == ["green", "red", "green"]
    assert "the same cluster as “One”" in states[1].text()


@pytest.fixture
def op(as_user, operator, settings):
    settings.BERTH_CLUSTER_PUBLIC_KEY, private = sealing.new_pair()
    settings.BERTH_CLUSTER_PRIVATE_KEY = [private]
    registry.reset()
    yield as_user(operator)
    registry.reset()


def attach(client, name, prefix):
    body = {"name": name, "kubeconfig": kubeconfigs.good(), "options": {"namespace_prefix": prefix}}
    return client.post(CLUSTERS, body, content_type="application/json")


def test_the_same_server_and_prefix_are_not_attached_twice(op):
    assert attach(op, "East", "t-").status_code == 201
    again = attach(op, "East again", "t-")
    assert (again.status_code, again.json()["code"]) == (409, "same-cluster")
    assert "“East” is this cluster already" in again.json()["detail"]
    assert attach(op, "East too", "u-").status_code == 201
    changed = op.patch(
        f"{CLUSTERS}/east-too",
        {"options": {"namespace_prefix": "t-"}},
        content_type="application/json",
    )
    assert (changed.status_code, changed.json()["code"]) == (409, "same-cluster")


def test_a_new_credential_for_the_same_cluster_is_taken(op):
    attach(op, "East", "t-")
    answer = op.put(
        f"{CLUSTERS}/east/kubeconfig",
        {"kubeconfig": kubeconfigs.good()},
        content_type="application/json",
    )
    assert answer.status_code < 300, answer.json()
