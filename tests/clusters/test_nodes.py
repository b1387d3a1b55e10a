"""Nodes are written in bulk, and each cluster knows what it has of each kind."""

import dataclasses
import ipaddress

import pytest

from clusters import hooks
from clusters.device_use import uses
from clusters.models import Cluster, Flavor, Node
from clusters.selectors import node_ranges
from clusters.services import nodes_store, pool_save
from clusters.services.nodes import public_ranges
from clusters.where import architectures_of
from runtime.capabilities.clusters import NodeChanges
from tests.clusters.fleet import fleet, node

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(db):
    return Cluster.objects.create(key="east", name="East", driver="fake")


def full(*seen):
    return NodeChanges(seen=seen, full=True)


def totals(cluster):
    cluster.refresh_from_db()
    return {name: kind["total"] for name, kind in cluster.kinds.items()}


def test_the_whole_fleet_is_recognised_by_kind_without_any_setting(cluster):
    nodes_store(cluster_key="east", changes=full(*fleet()))
    assert totals(cluster) == {"h100-80": 80, "a100-80": 48, "a100-40": 16, "a2": 16, "t4": 11}
    assert cluster.capacity["nodes"] == cluster.capacity["nodes_ready"] == 37
    assert Node.objects.filter(flavor__name="h100-80").count() == 10
    assert Flavor.objects.get(name="h100-80").label == "NVIDIA H100 80GB HBM3"


def test_c9_the_kinds_of_machine_are_kept_with_the_cluster_the_commonest_first(cluster):
    kinds = ("arm64", "amd64", "amd64", "")  # the last does not say
    seen = [node(f"n{i}", labels={"kubernetes.io/arch": k}) for i, k in enumerate(kinds)]
    nodes_store(cluster_key="east", changes=full(*seen))
    cluster.refresh_from_db()
    assert cluster.capacity["architectures"] == ["amd64", "arm64"]
    del cluster.capacity["architectures"]  # as an earlier version left it
    cluster.save()
    assert architectures_of(cluster) == ["amd64", "arm64"]
    nodes_store(cluster_key="east", changes=full(*seen))
    cluster.refresh_from_db()
    assert cluster.capacity["architectures"] == ["amd64", "arm64"]


def test_a_node_keeps_the_facts_that_people_ask_for(cluster):
    wired = {"berth.dev/su": "3", "berth.dev/rack": "r7", "berth.dev/rail": "0", "nic-count": "8"}
    labels = {**wired, "beta.kubernetes.io/fluentd": "true"}
    nodes_store(cluster_key="east", changes=full(node("n1", "h100-80", labels=labels)))
    kept = Node.objects.get(name="n1").labels
    assert wired.items() <= kept.items()
    assert "beta.kubernetes.io/fluentd" not in kept


def test_what_left_is_forgotten_and_what_is_down_does_not_count(cluster):
    nodes_store(cluster_key="east", changes=full(*fleet()))
    down = dataclasses.replace(node("h100-0", "h100-80"), ready=False, message="kubelet is silent")
    nodes_store(cluster_key="east", changes=NodeChanges(seen=(down,), gone=("h100-1",)))
    assert totals(cluster)["h100-80"] == 64
    assert cluster.kinds["h100-80"]["out"] == 8
    assert not Node.objects.filter(name="h100-1").exists()
    nodes_store(cluster_key="east", changes=full(node("only", "t4", 1)))
    assert totals(cluster) == {"t4": 1}


def test_news_that_change_nothing_write_nothing(cluster):
    assert nodes_store(cluster_key="east", changes=full(*fleet())) == 37
    assert nodes_store(cluster_key="east", changes=full(*fleet())) == 0


def test_the_number_of_queries_does_not_grow_with_the_nodes(cluster, django_assert_max_num_queries):
    Flavor.objects.create(
        name="a2", label="A2", node_labels={"nvidia.com/gpu.product": ["NVIDIA-A2"]}
    )
    seen = tuple(node(f"n{i}", "a2") for i in range(1500))
    with django_assert_max_num_queries(30):  # SQLite takes 76 rows at a time, PostgreSQL all
        nodes_store(cluster_key="east", changes=full(*seen))
    assert totals(cluster) == {"a2": 12_000}
    news = tuple(node(f"n{i}", "a2", 1) for i in range(50))
    with django_assert_max_num_queries(9):
        nodes_store(cluster_key="east", changes=NodeChanges(seen=news))
    assert totals(cluster) == {"a2": 12_000 - 350}


def test_another_maker_is_data(cluster):
    labels = {"amd.com/gpu.product-name": "AMD_Instinct_MI300X"}
    other = node("amd1", labels=labels, accelerators={"amd.com/gpu": 8})
    cards = node("nic1", accelerators={"nvidia.com/mlnx_sriov_rdma": 8})
    nodes_store(cluster_key="east", changes=full(other, cards))
    made = Flavor.objects.get()
    assert made.resource == "amd.com/gpu"
    assert totals(cluster) == {made.name: 8}  # network cards are no kind of GPU


def test_slices_of_a_gpu_are_kinds_of_their_own(cluster):
    slices = {"nvidia.com/mig-1g.10gb": 7, "nvidia.com/mig-3g.40gb": 2}
    nodes_store(cluster_key="east", changes=full(node("m", "h100-80", 4, accelerators=slices)))
    assert totals(cluster) == {"h100-80": 4, "h100-80-mig-1g-10gb": 7, "h100-80-mig-3g-40gb": 2}


def test_a_kind_known_from_a_machine_is_the_same_kind_on_a_cluster(cluster):
    mine = Flavor.objects.create(name="h100-80", label="Our H100", match="H100", price_per_hour=3)
    nodes_store(cluster_key="east", changes=full(node("n", "h100-80")))
    mine.refresh_from_db()
    assert Flavor.objects.get() == mine
    assert mine.node_labels == {"nvidia.com/gpu.product": ["NVIDIA-H100-80GB-HBM3"]}


def test_a_node_that_a_taint_keeps_free_is_no_capacity_until_a_pool_tolerates_it(
    cluster, operator, principal
):
    taint = {"key": "team", "value": "x", "effect": "NoSchedule"}
    own = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    one, two = node("a", "t4", 4, taints=(taint,)), node("b", "t4", 2, taints=(own,))
    nodes_store(cluster_key="east", changes=full(one, two))
    assert totals(cluster) == {"t4": 2}
    assert cluster.kinds["t4"]["out"] == 4
    values = {
        "name": "team-x",
        "node_labels": {"team": "x"},
        "tolerations": [{"key": "team", "value": "x", "effect": "NoSchedule"}],
    }
    pool_save(principal=principal(operator), cluster=cluster, values=values)
    assert totals(cluster) == {"t4": 6}


def test_devices_that_others_hold_are_there_and_not_free(cluster):
    rows = [node("n1", "h100-80", held={"nvidia.com/gpu": 3}), node("n2", "h100-80", held={})]
    nodes_store(cluster_key="east", changes=full(*rows))
    cluster.refresh_from_db()
    (use,) = uses([cluster])
    assert (use.total, use.held, use.free) == (16, 3, 13)
    nodes_store(
        cluster_key="east",
        changes=NodeChanges(seen=(node("n1", "h100-80", held={"nvidia.com/gpu": 30}),)),
    )
    cluster.refresh_from_db()
    assert uses([cluster])[0].free == 8  # no more than the node has


def test_public_addresses_of_nodes_become_few_ranges(cluster):
    nodes_store(
        cluster_key="east",
        changes=full(
            node("n1", "t4", 1, addresses=("10.0.0.5", "8.8.8.8")),
            node("n2", "t4", 1, addresses=("8.8.8.9", "2600:1f00::7", "not-one")),
        ),
    )
    assert node_ranges("east") == ["8.8.8.8/31", "2600:1f00::7/128"]
    many = public_ranges(f"9.{n // 250}.{n % 250}.1" for n in range(1500))
    assert 0 < len(many) <= 200
    assert all(
        any(
            ipaddress.ip_address(f"9.{n // 250}.{n % 250}.1") in ipaddress.ip_network(r)
            for r in many
        )
        for n in range(1500)
    )


def test_a_node_that_came_with_a_public_address_is_closed_in_every_place(cluster):
    told = []
    hooks.cluster_changed.register(told.append)
    try:
        nodes_store(cluster_key="east", changes=full(node("n1", addresses=("10.0.0.5",))))
        assert told == []
        nodes_store(cluster_key="east", changes=full(node("n1", addresses=("9.9.9.9",))))
        assert told == ["east"]
        nodes_store(
            cluster_key="east", changes=full(node("n1", ready=False, addresses=("9.9.9.9",)))
        )
        assert told == ["east"]
    finally:
        hooks.cluster_changed.unregister(told.append)
