"""Which card of an extra network each GPU gets: what is asked of Kubernetes, word for word (L4)."""

from uuid import uuid4

import pytest
from django.urls import reverse

from clusters.models import Cluster, NetworkProfile
from placement.decision import Request
from placement.fleet import decision_on
from runtime.drivers.kubernetes.options import KubernetesOptions
from runtime.spec import Resources, WorkloadSpec
from tests.drivers.kubernetes.pieces import built

pytestmark = pytest.mark.django_db
NETWORKS = "k8s.v1.cni.cncf.io/networks"
URL = "/api/v1/clusters/east/networks"
EIGHT = [{"attachment": f"rdma/pf{n}", "resource": f"nvidia.com/pf{n}_vf"} for n in range(8)]
FIRST, *FURTHER = EIGHT


@pytest.fixture
def cluster(db):
    return Cluster.objects.create(key="east", name="East", driver="kubernetes")


@pytest.fixture
def network(cluster):
    def make(further, **more):
        values = {**FIRST, "name": "rdma", "further": further, **more}
        return NetworkProfile.objects.create(cluster=cluster, **values)

    return make


def asked_of_kubernetes(gpus):
    """The annotation, and what the pod takes of the node besides GPUs."""
    request = Request.of_size("notebook", Resources(gpus=gpus), network="rdma")
    given = decision_on("east", request, uuid4()).network
    spec = WorkloadSpec(
        uid="9d2c7b11-64a0-4b7e-9d0f-7a1b2c3d4e5f",
        kind="workspace",
        name="k7mn2p",
        launch=1,
        generation=1,
        project="0b7c8a52-3f5e-4a55-9a5e-0f6a9f7f3c11",
        owner="5a4f1c0e-8d7b-4c56-8a4e-2d4f6f1e9b02",
        environment="",
        namespace="ns",
        image="registry.example/lab:1",
        command=("true",),
        resources=Resources(cpu_milli=1000, memory_mib=1024, gpus=gpus),
        network=given,
    )
    pod = built(spec, KubernetesOptions())["spec"]["template"]
    held = pod["spec"]["containers"][0]["resources"]
    cards = {
        side: {k: v for k, v in held[side].items() if "/" in k and k != "nvidia.com/gpu"}
        for side in ("requests", "limits")
    }
    assert cards["requests"] == cards["limits"]
    return pod["metadata"]["annotations"][NETWORKS], cards["limits"]


def test_l4_each_gpu_gets_a_card_of_its_own_physical_function(network):
    network(FURTHER)
    assert asked_of_kubernetes(1) == ("rdma/pf0", {"nvidia.com/pf0_vf": "1"})
    assert asked_of_kubernetes(2) == (
        "rdma/pf0,rdma/pf1",
        {"nvidia.com/pf0_vf": "1", "nvidia.com/pf1_vf": "1"},
    )
    assert asked_of_kubernetes(8) == (
        "rdma/pf0,rdma/pf1,rdma/pf2,rdma/pf3,rdma/pf4,rdma/pf5,rdma/pf6,rdma/pf7",
        {f"nvidia.com/pf{n}_vf": "1" for n in range(8)},
    )


def test_l4_where_there_are_fewer_cards_than_gpus_the_first_comes_again(network):
    network(FURTHER[:2])
    assert asked_of_kubernetes(8) == (
        "rdma/pf0,rdma/pf1,rdma/pf2,rdma/pf0,rdma/pf1,rdma/pf2,rdma/pf0,rdma/pf1",
        {"nvidia.com/pf0_vf": "3", "nvidia.com/pf1_vf": "3", "nvidia.com/pf2_vf": "2"},
    )


def test_l4_one_pair_is_the_card_of_every_gpu_as_before(network):
    row = network([])
    for gpus in (1, 2, 8):
        wanted = ",".join(["rdma/pf0"] * gpus)
        assert asked_of_kubernetes(gpus) == (wanted, {"nvidia.com/pf0_vf": str(gpus)})
    NetworkProfile.objects.filter(pk=row.pk).update(resource="")
    assert asked_of_kubernetes(8) == ("rdma/pf0", {})  # what takes nothing is attached once


def test_l4_cards_for_the_whole_workload_are_taken_in_order_too(network):
    network(FURTHER, per_gpu=False, count=2)
    wanted = ("rdma/pf0,rdma/pf1", {"nvidia.com/pf0_vf": "1", "nvidia.com/pf1_vf": "1"})
    assert asked_of_kubernetes(8) == wanted
    NetworkProfile.objects.update(per_gpu=True)
    assert asked_of_kubernetes(1) == wanted


def test_further_cards_are_set_and_shown_by_api(as_user, operator, cluster):
    client = as_user(operator)
    given = {"name": "rdma", **FIRST, "further": FURTHER[:1]}
    made = client.post(URL, given, content_type="application/json")
    assert (made.status_code, made.json()["further"]) == (201, FURTHER[:1])
    changed = client.patch(f"{URL}/rdma", {"further": FURTHER}, content_type="application/json")
    assert changed.json()["further"] == FURTHER
    plain = client.post(URL, {"name": "one", **FIRST}, content_type="application/json")
    assert (plain.status_code, plain.json()["further"]) == (201, [])


@pytest.mark.parametrize(
    "further",
    [
        [{"attachment": "../etc", "resource": "a.b/c"}],
        [{"attachment": "rdma/pf1", "resource": "cpu;"}],
        [{"resource": "a.b/c"}],
        [{"attachment": "rdma/pf1", "resource": "a.b/c", "namespace": "x"}],
        ["rdma/pf1"],
        EIGHT * 8,
    ],
)
def test_further_cards_that_are_none_are_refused(as_user, operator, cluster, further):
    given = {"name": "rdma", **FIRST, "further": further}
    made = as_user(operator).post(URL, given, content_type="application/json")
    assert made.status_code == 400, made.content
    assert not NetworkProfile.objects.exists()


def test_further_cards_are_typed_one_on_each_line(as_user, operator, cluster):
    client = as_user(operator)
    create = reverse("console:network-create", kwargs={"cluster": "east"})
    lines = "rdma/pf1 nvidia.com/pf1_vf\r\nrdma/pf2"
    data = {"name": "rdma", **FIRST, "count": "1", "per_gpu": "on", "further": lines}
    assert client.post(create, data).status_code == 302
    row = NetworkProfile.objects.get()
    assert row.further == [FURTHER[0], {"attachment": "rdma/pf2", "resource": ""}]
    one = reverse("console:network", kwargs={"cluster": "east", "name": "rdma"})
    form = client.get(one).context["form"]
    assert form["further"].value() == "rdma/pf1 nvidia.com/pf1_vf\nrdma/pf2"
    for bad in ("rdma/pf1 a.b/c d", "nonsense"):
        answer = client.post(create, {**data, "name": "x", "further": bad})
        assert (answer.status_code, NetworkProfile.objects.count()) == (400, 1)
    page = client.get(reverse("console:cluster", kwargs={"cluster": "east"})).content.decode()
    assert "rdma/pf0<br>rdma/pf1<br>rdma/pf2" in page
    assert "nvidia.com/pf1_vf" in page
