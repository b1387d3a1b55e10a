"""A17: what another accelerator is called, how it is shown and where it is are rows, not code."""

from uuid import uuid4

import pytest
from django.urls import reverse

from clusters.device_use import kinds_for
from clusters.models import Cluster, Flavor
from clusters.selectors import use_sources
from clusters.services import nodes_store
from placement.decision import Request
from placement.fleet import decision_on
from runtime.capabilities.clusters import NodeChanges
from runtime.drivers.kubernetes.nodes import facts_of
from runtime.drivers.kubernetes.options import KubernetesOptions
from runtime.spec import Resources, WorkloadSpec
from tests.drivers.kubernetes.pieces import built
from tests.engineapp.models import Thing

pytestmark = pytest.mark.django_db
RESOURCE = "example.org/npu-v9"  # no program of ours has heard of it


@pytest.fixture
def cluster(db, as_user, operator):
    """A kind that an operator describes, and a node that offers eight of it."""
    made = Cluster.objects.create(key="east", name="East", driver="kubernetes")
    body = {
        "name": "npu-v9",
        "label": "Example NPU 9",
        "resource": RESOURCE,
        "node_labels": {"example.org/model": ["v9", "v9-pro"]},
        "price_per_hour": "1.50",
    }
    answer = as_user(operator).post("/api/v1/flavors", body, content_type="application/json")
    assert answer.status_code == 201, answer.content
    node = {
        "metadata": {"name": "n1", "labels": {"example.org/model": "v9-pro"}},
        "status": {
            "allocatable": {RESOURCE: "8", "cpu": "64", "memory": "512Gi", "pods": "110"},
            "conditions": [{"type": "Ready", "status": "True"}],
        },
    }
    nodes_store(cluster_key="east", changes=NodeChanges(seen=(facts_of(node),), full=True))
    made.refresh_from_db()
    return made


def test_a17_it_is_counted_shown_and_priced_like_any_other(cluster):
    Thing.objects.create(cluster_key="east", gpus=3, gpu_flavor="npu-v9", phase="running")
    (use,) = kinds_for([cluster], None, ["notebook"])
    assert (use.flavor.label, use.total, use.used, use.free) == ("Example NPU 9", 8, 3, 5)
    assert Flavor.objects.get().price_per_hour


def test_a17_a_pod_asks_for_it_by_its_own_name_on_its_own_nodes(cluster):
    request = Request.of_size("notebook", Resources(gpus=2, gpu_flavor="npu-v9"))
    placement = decision_on("east", request, uuid4()).nodes
    spec = WorkloadSpec(
        uid=str(uuid4()),
        kind="workspace",
        name="one",
        launch=1,
        generation=1,
        project=str(uuid4()),
        owner=str(uuid4()),
        environment="",
        command=("python3",),
        image="registry.example/one:1",
        namespace="berth-x",
        resources=Resources(gpus=2, gpu_flavor="npu-v9"),
        placement=placement,
    )
    made = built(spec, KubernetesOptions())["spec"]["template"]["spec"]
    limits = made["containers"][0]["resources"]["limits"]
    assert limits[RESOURCE] == "2"
    assert "nvidia.com/gpu" not in limits
    terms = made["affinity"]["nodeAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    values = [t["matchExpressions"][0]["values"][0] for t in terms["nodeSelectorTerms"]]
    assert values == ["v9", "v9-pro"]
    assert {"key": RESOURCE, "operator": "Exists"} in made["tolerations"]


SOURCE = {
    "pods": "app=npu-exporter",
    "namespace": "monitoring",
    "port": "9999",
    "utilisation": "npu_core_ratio",
    "utilisation_unit": "ratio",
    "memory": "npu_hbm_bytes",
    "memory_unit": "bytes",
    "device_labels": "card,core",
}


def test_a17_where_its_figures_of_use_come_from_is_data_too(cluster, as_user, operator):
    assert use_sources("east") == []  # nobody has heard of it
    answer = as_user(operator).patch(
        "/api/v1/flavors/npu-v9", {"use_source": SOURCE}, content_type="application/json"
    )
    assert answer.status_code == 200, answer.content
    assert answer.json()["use_source"] == SOURCE
    (source,) = use_sources("east")
    assert (source.utilisation, source.port, source.path) == ("npu_core_ratio", "9999", "/metrics")


def test_a17_a_kind_of_a_known_resource_has_its_figures_without_a_word(cluster, as_user, operator):
    body = {"name": "tpu", "resource": "google.com/tpu"}
    answer = as_user(operator).post("/api/v1/flavors", body, content_type="application/json")
    assert answer.json()["use_source"] == {}
    assert answer.json()["use_source_known"]["utilisation"] == "duty_cycle"


@pytest.mark.parametrize(
    "wrong",
    [
        {"port": "0"},
        {"pods": ""},
        {"path": "/metrics?host=evil.example"},
        {"url": "http://169.254.169.254/"},
        {"utilisation": "sum(x)"},
    ],
)
def test_a17_only_what_is_on_the_list_may_be_said(cluster, as_user, operator, wrong):
    answer = as_user(operator).patch(
        "/api/v1/flavors/npu-v9",
        {"use_source": {**SOURCE, **wrong}},
        content_type="application/json",
    )
    assert answer.status_code == 400, answer.content
    assert "use_source" in answer.json()["fields"]
    assert Flavor.objects.get().use_source == {}


def test_a17_members_change_nothing(cluster, as_user, alice):
    answer = as_user(alice).patch(
        "/api/v1/flavors/npu-v9", {"use_source": SOURCE}, content_type="application/json"
    )
    assert answer.status_code == 403


def test_a17_an_operator_sees_and_changes_it_on_the_page(cluster, client, operator):
    client.force_login(operator)
    page = reverse("console:flavor", kwargs={"flavor": "npu-v9"})
    form = {
        "label": "NPU",
        "resource": "google.com/tpu",
        "node_labels": "example.org/model=v9",
        "use_source": "\n".join(f"{name}={value}" for name, value in SOURCE.items()),
        "memory_mib": "0",
        "price_per_hour": "1",
        "position": "0",
    }
    assert client.post(page, form).status_code == 302
    assert Flavor.objects.get().use_source == SOURCE
    assert "npu_core_ratio" in client.get(page).content.decode()
    assert client.post(page, {**form, "use_source": "port=x"}).status_code == 400
    assert client.post(page, {**form, "use_source": ""}).status_code == 302
    assert "duty_cycle" in client.get(page).content.decode()  # what holds while it is empty
