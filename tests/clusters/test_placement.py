"""Where work may go: kinds, "any of", reserved pools, extra networks; all of it data (C16, L3-L5)."""

from datetime import timedelta
from uuid import uuid4

import pytest

from clusters.device_use import kinds_for
from clusters.models import CheckResult, Cluster, Flavor, NetworkProfile, Pool
from clusters.services import nodes_store
from clusters.usable import METADATA, launch_refusal
from common.clock import now
from common.errors import Forbidden, Invalid
from placement.decision import Request
from placement.fleet import Fleet, decision_on, engine_decision
from runtime.capabilities.clusters import NodeChanges
from runtime.protocol import InvalidSpec
from runtime.spec import PodGroup, Resources
from tests.clusters.fleet import fleet, node

pytestmark = pytest.mark.django_db
MINE, OTHERS = uuid4(), uuid4()
H100 = {"nvidia.com/gpu.product": "NVIDIA-H100-80GB-HBM3"}
OWN = {"key": "nvidia.com/gpu", "operator": "Exists"}  # devices are often tainted by their name
TAINT = {"key": "fabric", "operator": "Exists", "effect": "NoSchedule"}


@pytest.fixture
def cluster(db):
    made = Cluster.objects.create(key="east", name="East", driver="kubernetes")
    nodes_store(cluster_key="east", changes=NodeChanges(seen=fleet(), full=True))
    made.refresh_from_db()
    return made


@pytest.fixture
def reserved(cluster):
    pool = Pool.objects.create(
        cluster=cluster,
        name="interconnect",
        node_labels={"berth.dev/pool": "fabric"},
        tolerations=[TAINT],
        kinds=["distributed"],
        project_uids=[str(MINE)],
    )
    pool.flavors.set(Flavor.objects.filter(name="h100-80"))
    return pool


def asked(gpu_flavor="", *, gpus=1, kind="notebook", **more):
    return Request.of_size(kind, Resources(gpus=gpus, gpu_flavor=gpu_flavor), **more)


def place(gpu_flavor="", *, project=MINE, **more):
    return decision_on("east", asked(gpu_flavor, **more), project).nodes


def network(name, *, project=MINE, kind="distributed", **more):
    return decision_on("east", asked(kind=kind, network=name, **more), project).network


def test_a_kind_becomes_its_labels_and_its_resource(cluster):
    found = place("h100-80")
    assert found.any_of == (H100,)
    assert found.resource == "nvidia.com/gpu"


def test_any_of_two_kinds_gives_one_term_for_each(cluster):
    found = place("h100-80, t4")
    assert found.any_of == (H100, {"nvidia.com/gpu.product": "Tesla-T4"})


def test_a3_the_order_of_the_kinds_is_the_order_of_preference(cluster):
    assert place("h100-80,t4").ranks == (0, 1)
    assert place("t4, h100-80").any_of[0] == {"nvidia.com/gpu.product": "Tesla-T4"}
    Flavor.objects.filter(name="t4").update(
        node_labels={"nvidia.com/gpu.product": ["Tesla-T4", "NVIDIA-T4"]}
    )
    assert place("t4,h100-80").ranks == (0, 0, 1)  # two labels of the one kind
    assert place("").ranks == ()
    assert place("t4").ranks == ()


def test_any_kind_gives_all_there_are(cluster):
    assert len(place("").any_of) == 5


AMD = {"labels": {"amd.com/gpu.product-name": "MI300X"}}
A30 = {"labels": {"nvidia.com/gpu.product": "NVIDIA-A30", "nvidia.com/gpu.memory": "24576"}}
SLICES = {"nvidia.com/mig-1g.6gb": 400}


def more(*nodes):
    nodes_store(cluster_key="east", changes=NodeChanges(seen=nodes))


def test_c11_any_kind_is_a_whole_device_of_the_resource_of_which_there_is_the_most(cluster):
    more(
        node("amd", **AMD, accelerators={"amd.com/gpu": 8}),
        node("a30", **A30, accelerators=SLICES),
    )
    found = place("")  # by name, "a30-mig-1g-6gb" would be the first
    assert (found.resource, len(found.any_of)) == ("nvidia.com/gpu", 5)
    more(node("many", **AMD, accelerators={"amd.com/gpu": 500}))
    found = place("")
    assert found.resource == "amd.com/gpu"
    assert found.any_of == ({"amd.com/gpu.product-name": "MI300X"},)
    assert place("a30-mig-1g-6gb").resource == "nvidia.com/mig-1g.6gb"  # who names a part has it


def test_a17_of_equally_many_the_operators_order_decides(cluster):
    full = (node("h", "h100-80", 8), node("amd", **AMD, accelerators={"amd.com/gpu": 8}))
    nodes_store(cluster_key="east", changes=NodeChanges(seen=full, full=True))
    assert place("").resource == "nvidia.com/gpu"
    Flavor.objects.filter(name="h100-80").update(position=1)
    assert place("").resource == "amd.com/gpu"


@pytest.mark.parametrize(
    ("resource", "product"),
    [
        ("nvidia.com/mig-1g.6gb", "NVIDIA-A30"),
        ("nvidia.com/gpu.shared", "NVIDIA-A30"),
        ("nvidia.com/gpu", "NVIDIA-A30-MIG-1g.6gb"),
        ("nvidia.com/gpu", "NVIDIA-A30-SHARED"),
        ("gpu.intel.com/millicores", "Max"),
        ("aws.amazon.com/neuroncore", "trn1"),
        ("huawei.com/Ascend310P-2c", "x"),
    ],
)
def test_a17_a_part_of_a_device_is_never_any_kind(cluster, resource, product):
    label = {"nvidia.com/gpu.product": product}
    more(node("n", labels=label, accelerators={resource: 999}))
    assert [f.resource for f in Flavor.objects.filter(node_labels__has_key=next(iter(label)))]
    found = place("")
    assert (found.resource, len(found.any_of)) == ("nvidia.com/gpu", 5)
    parts = node("n", labels=label, accelerators={resource: 999})
    nodes_store(cluster_key="east", changes=NodeChanges(seen=(parts,), full=True))
    assert place("").any_of == ()  # nothing but parts: it waits for a whole one


def test_without_a_gpu_no_kind_is_asked_for(cluster):
    assert place("", gpus=0).any_of == ()


@pytest.mark.parametrize("flavor", ["b200", "h100-80,b200"])
def test_a_kind_that_is_not_there_is_refused_with_its_name(cluster, flavor):
    with pytest.raises(Invalid, match="b200") as refusal:
        place(flavor)
    assert "gpu_flavor" in refusal.value.fields


def test_kinds_with_different_resources_cannot_stand_for_each_other(cluster):
    amd = node(
        "amd", labels={"amd.com/gpu.product-name": "MI300X"}, accelerators={"amd.com/gpu": 8}
    )
    nodes_store(cluster_key="east", changes=NodeChanges(seen=(amd,)))
    with pytest.raises(Invalid, match="choose one"):
        place("h100-80,mi300x")
    assert place("mi300x").resource == "amd.com/gpu"


def test_c16_a_pool_reserved_for_other_work_cannot_be_chosen(cluster, reserved):
    with pytest.raises(Forbidden, match="Distributed jobs"):
        place("h100-80", pool="interconnect")
    with pytest.raises(Invalid, match="no pool"):
        place("h100-80", kind="distributed", project=OTHERS, pool="interconnect")
    assert Fleet([cluster], MINE).pools(["notebook"]) == []
    assert Fleet([cluster], MINE).pools(["distributed"]) == [reserved]


def test_c16_others_are_kept_off_its_nodes_and_do_not_see_its_kinds(cluster, reserved):
    found = place("t4")
    assert found.avoid == {"berth.dev/pool": ("fabric",)}
    assert found.tolerations == (OWN,)
    with pytest.raises(Invalid):
        place("h100-80")  # it is in no pool of theirs
    assert "h100-80" not in {use.flavor.name for use in kinds_for([cluster], OTHERS, ["notebook"])}


def test_c16_the_ones_it_is_reserved_for_get_there(cluster, reserved):
    found = place("h100-80", kind="distributed", pool="interconnect")
    assert found.node_labels == {"berth.dev/pool": "fabric"}
    assert found.tolerations == (OWN, TAINT)
    assert found.avoid == {}


def test_the_engine_hears_the_same_as_a_spec_that_must_change(cluster):
    with pytest.raises(InvalidSpec, match="b200"):
        engine_decision("east", asked("b200"), MINE)


def test_taints_of_a_pool_are_tolerated_by_who_names_it_or_a_kind_it_lists(cluster):
    spot = Pool.objects.create(
        cluster=cluster, name="spot", node_labels={"spot": "yes"}, tolerations=[TAINT]
    )
    assert TAINT not in place("t4").tolerations
    assert TAINT in place("t4", pool="spot").tolerations
    spot.flavors.set(Flavor.objects.filter(name="a2"))
    assert TAINT in place("a2").tolerations
    assert place("", gpus=0).tolerations == ()


@pytest.fixture
def wired(cluster, reserved):
    profile = NetworkProfile.objects.create(
        cluster=cluster,
        name="rdma",
        attachment="fabric/rail",
        resource="nvidia.com/mlnx_sriov_pf0_vf",
        env={"NCCL_IB_HCA": "mlx5"},
        project_uids=[str(MINE)],
    )
    profile.pools.set([reserved])
    return profile


def test_l4_an_extra_network_gives_one_card_per_gpu_and_none_unasked(wired):
    found = network("rdma", gpus=4)
    assert found.attachments == ("fabric/rail",) * 4
    assert found.resources == {"nvidia.com/mlnx_sriov_pf0_vf": 4}
    assert found.env == {"NCCL_IB_HCA": "mlx5"}
    assert network("", gpus=4).attachments == ()


def test_l4_the_network_decides_the_pool(wired):
    found = place("", kind="distributed", network="rdma")
    assert found.node_labels == {"berth.dev/pool": "fabric"}
    with pytest.raises(Invalid, match="None of the pools"):
        place("", kind="notebook", network="rdma")


A100 = {"nvidia.com/gpu.product": "NVIDIA-A100-SXM4-80GB"}
SPOT = {"key": "spot", "operator": "Exists", "effect": "NoSchedule"}


@pytest.fixture
def twice(wired, cluster, reserved):
    """The network is in two parts of the cluster: one with H100s, one with A100s."""
    other = Pool.objects.create(
        cluster=cluster, name="rails", node_labels={"rack": "7"}, tolerations=[SPOT], position=1
    )
    other.flavors.set(Flavor.objects.filter(name__in=["a100-80", "a100-40"]))
    wired.pools.set([reserved, other])
    return other


def wire(gpu_flavor="", **more):
    return place(gpu_flavor, kind="distributed", network="rdma", **more)


def test_l4_a_network_in_several_pools_leaves_the_choice_between_them(twice):
    found = wire()
    assert found.node_labels == {}
    assert {"berth.dev/pool": "fabric", **H100} in found.any_of
    assert {"rack": "7", **A100} in found.any_of
    assert len(found.any_of) == 3  # an A100 of 40 GB is in the second, too
    assert found.tolerations == (OWN, TAINT, SPOT)
    assert found.ranks == ()


def test_c11_a_kind_goes_to_that_pool_with_the_network_which_has_it(twice):
    found = wire("a100-80")
    assert (found.node_labels, found.any_of) == ({"rack": "7"}, (A100,))
    assert found.tolerations == (OWN, SPOT)
    wanted = asked("a100-80", kind="distributed", network="rdma")
    assert decision_on("east", wanted, MINE).flavors == ("a100-80",)
    with pytest.raises(Invalid, match="no GPU of the kind t4"):
        wire("t4")


def test_a3_the_order_of_kinds_holds_across_the_pools_with_the_network(twice):
    found = wire("a100-80,h100-80")
    assert found.any_of == ({"rack": "7", **A100}, {"berth.dev/pool": "fabric", **H100})
    assert found.ranks == (0, 1)


def test_c11_a_pool_of_which_no_kind_is_known_may_have_any(twice, reserved):
    twice.flavors.clear()
    reserved.flavors.clear()
    labels = ({"berth.dev/pool": "fabric", **A100}, {"rack": "7", **A100})
    assert wire("a100-80").any_of == labels
    # one whose nodes are of another kind by their very label has none
    Pool.objects.filter(pk=twice.pk).update(node_labels=H100)
    assert wire("a100-80").node_labels == {"berth.dev/pool": "fabric"}
    Pool.objects.filter(pk=reserved.pk).update(node_labels={**H100, "rack": "8"})
    with pytest.raises(Invalid, match="no GPU of the kind a100-80"):
        wire("a100-80")


def test_l4_work_without_gpus_may_go_to_each_pool_with_the_network(twice):
    NetworkProfile.objects.update(per_gpu=False)
    found = wire(gpus=0)
    assert found.any_of == ({"berth.dev/pool": "fabric"}, {"rack": "7"})
    assert found.tolerations == (TAINT, SPOT)


def test_c16_of_the_pools_with_a_network_one_that_is_reserved_for_others_is_kept_off(twice):
    found = place("a100-80", kind="notebook", network="rdma")
    assert found.node_labels == {"rack": "7"}
    assert found.avoid == {"berth.dev/pool": ("fabric",)}


def test_l3_the_network_of_another_project_is_the_same_as_none(wired):
    with pytest.raises(Invalid, match="no extra network called rdma"):
        network("rdma", project=OTHERS)
    with pytest.raises(Invalid, match="no extra network called nothing"):
        network("nothing", project=OTHERS)
    assert Fleet([wired.cluster], OTHERS).networks() == []


def test_l5_a_pool_without_the_network_refuses_it(wired, cluster):
    Pool.objects.create(cluster=cluster, name="plain", node_labels={"pool": "plain"})
    with pytest.raises(Invalid, match="has no network"):
        network("rdma", pool="plain")
    with pytest.raises(Invalid, match="at least one"):
        network("rdma", gpus=0)


@pytest.mark.parametrize(
    ("values", "refused"),
    [
        ({"address": METADATA}, True),
        ({"address": "10.0.0.7"}, False),  # a kubelet, which asks who it is
        ({}, False),
    ],
)
def test_c10_nothing_starts_where_work_could_take_the_nodes_credential(cluster, values, refused):
    CheckResult.objects.create(cluster=cluster, name="network", state="green", at=now())
    host = CheckResult.objects.create(
        cluster=cluster, name="host", state="red", values=values, at=now()
    )
    assert ("credential of its nodes" in launch_refusal("east")) is refused
    host.state = "green"
    host.save()
    assert launch_refusal("east") == ""


def test_c10_nothing_starts_where_the_network_was_not_proved(cluster):
    assert "not proved" in launch_refusal("east")
    result = CheckResult.objects.create(cluster=cluster, name="network", state="red", at=now())
    assert "does not keep projects apart" in launch_refusal("east")
    result.state = "green"
    result.save()
    assert launch_refusal("east") == ""
    result.at = now() - timedelta(days=3, minutes=1)
    result.save()
    assert "not proved for some days" in launch_refusal("east")
    result.delete()
    cluster.options = {"trusted": True}
    cluster.save()
    assert launch_refusal("east") == ""
    cluster.drain = True
    cluster.save()
    assert "no new work" in launch_refusal("east")


@pytest.mark.parametrize(
    ("server", "lacking"),
    [
        (Resources(cpu_milli=1000, memory_mib=1024), ()),
        (Resources(cpu_milli=1000, memory_mib=4096 * 1024), ("memory",)),
        (Resources(cpu_milli=1000, memory_mib=1024, gpus=16, gpu_flavor="h100-80"), ("gpu",)),
    ],
)
def test_a_server_that_no_node_holds_never_starts_whatever_its_replicas_need(
    cluster, server, lacking
):
    size = Resources(cpu_milli=1000, memory_mib=1024, gpus=1, gpu_flavor="h100-80")
    others = PodGroup("ps", 2, resources=server)
    asked = Request.of_size("job", size, others=others)
    made = Fleet([Cluster.objects.get()], uuid4()).decide(Cluster.objects.get(), asked)
    assert (made.fits, made.waits_for) == (not lacking, lacking)
    assert asked.total.gpus == 1 + 2 * server.gpus
