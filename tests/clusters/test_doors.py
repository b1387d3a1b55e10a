"""The API refuses what pools, networks and the self-check forbid; drivers follow their row."""

import pytest

from clusters import registry
from clusters.models import CheckResult, Cluster, Flavor, NetworkProfile, Pool
from clusters.services import nodes_store
from common.clock import now
from notebooks.models import Preset
from runtime.capabilities.clusters import NodeChanges
from runtime.protocol import Unreachable
from tests.clusters.fleet import fleet

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(db):
    made = Cluster.objects.create(
        key="east",
        name="East",
        driver="kubernetes",
        reachable=True,
        options={"default_image": "registry.example.org/lab:1"},
    )
    nodes_store(cluster_key="east", changes=NodeChanges(seen=fleet(), full=True))
    Preset.objects.create(slug="lab", name="Lab")
    CheckResult.objects.create(cluster=made, name="network", state="green", at=now())
    return made


@pytest.fixture
def launch(as_user, bob, project, cluster, monkeypatch):
    client = as_user(bob)

    def post(**more):
        body = {"preset": "lab", "name": "mine", "cluster": "east", **more}
        path = f"/api/v1/projects/{project.slug}/workspaces"
        return client.post(path, body, content_type="application/json")

    return post


def test_c10_the_api_starts_nothing_where_the_network_was_not_proved(launch):
    CheckResult.objects.update(state="red")
    answer = launch()
    assert answer.status_code == 409
    assert "does not keep projects apart" in answer.json()["detail"]


def test_c16_the_api_refuses_a_reserved_pool(launch, cluster):
    pool = Pool.objects.create(
        cluster=cluster, name="fabric", node_labels={"p": "f"}, kinds=["distributed"]
    )
    pool.flavors.set(Flavor.objects.filter(name="h100-80"))
    assert launch(pool="fabric", gpus=1).status_code in {400, 403}
    answer = launch(gpus=1, gpu_flavor="h100-80")
    assert answer.status_code == 400
    assert "gpu_flavor" in answer.json()["fields"]


def test_l3_the_api_refuses_the_network_of_another_project(launch, cluster):
    NetworkProfile.objects.create(
        cluster=cluster,
        name="rdma",
        attachment="a/b",
        resource="x.y/z",
        project_uids=["00000000-0000-4000-8000-000000000001"],
    )
    answer = launch(network="rdma", gpus=1)
    assert answer.status_code == 400
    assert "network" in answer.json()["fields"]


def test_a_kind_that_the_cluster_has_not_is_refused_in_the_form(launch):
    answer = launch(gpus=1, gpu_flavor="b200")
    assert answer.status_code == 400
    assert "gpu_flavor" in answer.json()["fields"]


def test_a_driver_is_made_anew_when_its_row_was_changed_elsewhere(monkeypatch, db):
    row = Cluster.objects.create(key="far", name="Far", driver="fake")
    made = []

    class Driver:
        closed = False

        def close(self):
            self.closed = True

    def make(_cluster):
        made.append(Driver())
        return made[-1]

    monkeypatch.setitem(registry.DRIVERS, "fake", make)
    registry.reset()
    try:
        assert registry.driver_for("far") is registry.driver_for("far")
        Cluster.objects.update(revision=row.revision + 1)
        monkeypatch.setattr(registry, "REVISION_EVERY_S", 0.0)
        assert registry.driver_for("far") is made[1]
        assert made[0].closed
        Cluster.objects.update(enabled=False)
        with pytest.raises(Unreachable):
            registry.driver_for("far")
        assert made[1].closed
    finally:
        registry.reset()


def test_a_cluster_attached_by_the_key_of_another_gets_a_driver_of_its_own(monkeypatch, db):
    """Detached and attached elsewhere, while this process had no reason to look."""
    before = Cluster.objects.create(key="far", name="Far", driver="fake")
    monkeypatch.setitem(registry.DRIVERS, "fake", lambda cluster: [cluster.pk])
    monkeypatch.setattr(registry, "REVISION_EVERY_S", 0.0)
    registry.reset()
    try:
        assert registry.driver_for("far") == [before.pk]
        before.delete()
        now = Cluster.objects.create(key="far", name="Far", driver="fake")
        assert now.revision == 1
        assert registry.driver_for("far") == [now.pk]
        assert registry.row_for("far").pk == now.pk
    finally:
        registry.reset()
