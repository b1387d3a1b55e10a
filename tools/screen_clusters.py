"""Clusters for pictures: one that is well, with pools and networks, and one that is not."""

from datetime import timedelta
from typing import Any

from django.urls import reverse

from clusters.checks.connectivity import FIX_METADATA
from clusters.checks.recipe import small_account
from clusters.models import CheckResult, Cluster, NetworkProfile, Pool
from clusters.options import ClusterOptions
from clusters.services import nodes_store
from clusters.usable import METADATA
from common.clock import now
from projects.models import Project
from runtime.capabilities.clusters import NodeChanges, NodeFacts
from tools import screen_cluster_work
from usage.models import CapacityHour

PRODUCTS = (
    ("h100", "NVIDIA-H100-80GB-HBM3", 81_559, 10, 8),
    ("a100", "NVIDIA-A100-SXM4-80GB", 81_920, 6, 8),
    ("a100s", "NVIDIA-A100-SXM4-40GB", 40_960, 2, 8),
    ("a2", "NVIDIA-A2", 15_356, 8, 2),
    ("t4", "Tesla-T4", 15_360, 11, 1),
)
GREEN: dict[str, tuple[str, dict[str, Any]]] = {
    "version": ("It answers and runs %(version)s.", {"version": "v1.36.3"}),
    "clock": ("Its clock and ours agree.", {}),
    "rights": ("Our identity may do what is needed (%(n)d acts).", {"n": 34}),
    "security": ("A pod with its node's processes and files was refused.", {}),
    "image": ("%(image)s was pulled and ran.", {"image": "registry.example.org/berth/tool:1"}),
    "network": ("Enforced: probed with pods of two namespaces, both directions.", {}),
    "storage": ("A pod wrote into a volume made as homes are.", {}),
}
RED: dict[str, tuple[str, dict[str, Any], str]] = {
    "restraint": (
        "Our identity may do more than is needed: %(acts)s. Attach with a smaller one.",
        {"acts": "impersonate users -A, get nodes/proxy -A"},
        small_account(),
    )
}


# Kind, how many there are, shares of them that are held by day and by night, and waited for by day.
DEMAND = (
    ("h100-80", 80, 0.92, 0.55, 14),
    ("a100-80", 48, 0.63, 0.31, 0),
    ("a100-40", 16, 0.4, 0.22, 0),
    ("a2", 16, 0.08, 0.05, 0),
    ("t4", 11, 0.3, 0.12, 0),
)


def make(vision: Project) -> None:
    east = Cluster.objects.create(
        key="east",
        name="East",
        driver="kubernetes",
        options={**ClusterOptions().as_json(), "trusted": False, "internet": True},
        operators=["mpi", "jobset", "trainer", "katib"],
        server="https://k8s-east.example.org:6443",
        fingerprint=":".join(["4F"] * 32),
        attached_at=now() - timedelta(days=40),
        reachable=True,
        version="v1.36.3",
        checked_at=now() - timedelta(seconds=12),
        checks_ran_at=now() - timedelta(hours=2),
        sealed_kubeconfig="v1.none.none",
    )
    nodes_store(cluster_key="east", changes=NodeChanges(seen=tuple(_nodes()), full=True))
    for name, (sentence, values) in GREEN.items():
        _check(east, name, "green", sentence, values)
    for name, (sentence, values, fix) in RED.items():
        _check(east, name, "red", sentence, values, fix)
    pool = Pool.objects.create(
        cluster=east,
        name="interconnect",
        description="16 servers on the rail-optimised fabric",
        node_labels={"berth.dev/pool": "fabric"},
        kinds=["distributed"],
        project_uids=[str(vision.uid)],
    )
    network = NetworkProfile.objects.create(
        cluster=east,
        name="rdma",
        description="400 Gbit/s, one card for each GPU",
        attachment="fabric/rail-0",
        resource="nvidia.com/mlnx_sriov_pf0_vf",
    )
    network.pools.set([pool])
    _capacity("east")
    Cluster.objects.create(
        key="west",
        name="West",
        driver="kubernetes",
        options=ClusterOptions().as_json(),
        server="https://k8s-west.example.org:6443",
        attached_at=now() - timedelta(days=3),
        reachable=False,
        message="The cluster does not answer (connection refused).",
        checked_at=now() - timedelta(seconds=30),
        sealed_kubeconfig="v1.none.none",
    )
    _refused()
    screen_cluster_work.make(vision, east)


def _capacity(cluster_key: str) -> None:
    """A month of hours, six samples each."""
    begin = now().replace(minute=0, second=0, microsecond=0) - timedelta(days=30)
    CapacityHour.objects.bulk_create(
        CapacityHour(
            cluster_key=cluster_key,
            flavor=kind,
            hour=begin + timedelta(hours=hour),
            samples=6,
            supply=6 * there,
            attached=round(6 * there * share),
            waiting=6 * wanted,
            peak=min(there, round(there * share) + 2),
            peak_waiting=wanted + 4 if wanted else 0,
        )
        for hour in range(30 * 24)
        for kind, there, by_day, by_night, waited in DEMAND
        for is_day in [8 <= (begin + timedelta(hours=hour)).hour < 20]  # noqa: PLR2004 - office hours
        for share, wanted in [(by_day, waited) if is_day else (by_night, 0)]
    )


# What a launch is answered where the self-check is red.
ACTS: dict[str, list[tuple[str, ...]]] = {
    "launch-refused": [("choose", "[name=cluster]", "north")],
    "console-cluster-settings-images": [("press", "details:has(#id_serving_images) > summary")],
    "console-cluster-settings-wrong": [
        ("press", "details:has(#id_serving_images) > summary"),
        ("type", "#id_serving_images", "sklearn=registry.example.org/sklearn:1\nkeras: latest"),
        ("press", "form.card .btn-primary"),
    ],
    **screen_cluster_work.ACTS,
}


def _refused() -> None:
    """A cluster whose pods could take the credential of its nodes."""
    north = Cluster.objects.create(
        key="north",
        name="North",
        driver="kubernetes",
        options={**ClusterOptions().as_json(), "trusted": False},
        server="https://k8s-north.example.org:6443",
        attached_at=now() - timedelta(days=1),
        reachable=True,
        version="v1.36.3",
        checked_at=now() - timedelta(seconds=20),
        checks_ran_at=now() - timedelta(hours=1),
        sealed_kubeconfig="v1.none.none",
    )
    for name in ("version", "clock", "network"):
        _check(north, name, "green", *GREEN[name])
    sentence = (
        "Pods of projects reach the metadata address %(address)s: there the node's own "
        "credential may lie."
    )
    _check(north, "host", "red", sentence, {"address": METADATA}, FIX_METADATA)


def pages() -> list[tuple[str, str, str]]:
    """Return (user, name, address) of the pages about clusters."""
    found = [("olga", f"console-{n}", reverse(f"console:{n}")) for n in ("clusters", "flavors")]
    found.append(("olga", "console-cluster-attach", reverse("console:cluster-attach")))
    refused = reverse("console:cluster", kwargs={"cluster": "north"})
    found.append(("olga", "console-cluster-refused", refused))
    launch = reverse("notebooks:new", kwargs={"project": "vision"})
    found.append(("alice", "launch-refused", launch))
    for name in ("cluster", "cluster-nodes", "cluster-settings", "pool-create", "network-create"):
        place = reverse(f"console:{name}", kwargs={"cluster": "east"})
        found.append(("olga", f"console-{name}-of-one", place))
    settings = reverse("console:cluster-settings", kwargs={"cluster": "east"})
    opened = ("console-cluster-settings-images", "console-cluster-settings-wrong")
    found += [("olga", name, settings) for name in opened]
    nodes = reverse("console:cluster-nodes", kwargs={"cluster": "east"})
    found.append(("olga", "console-nodes-held", f"{nodes}?gpus=held"))
    kind = reverse("console:flavor", kwargs={"flavor": "a100-80"})
    return [*found, ("olga", "console-flavor", kind), *screen_cluster_work.pages()]


def _check(
    cluster: Cluster, name: str, state: str, sentence: str, values: dict[str, Any], fix: str = ""
) -> None:
    CheckResult.objects.create(
        cluster=cluster,
        name=name,
        state=state,
        sentence=sentence,
        values=values,
        fix=fix,
        at=now() - timedelta(hours=2),
    )


def _nodes() -> list[NodeFacts]:
    return [
        NodeFacts(
            name=f"{short}-{index:02d}",
            ready=(short, index) != ("t4", 7),
            message="Kubelet stopped posting node status." if (short, index) == ("t4", 7) else "",
            schedulable=(short, index) != ("a2", 3),
            cpu_milli=96_000,
            memory_mib=1_031_000,
            accelerators={"nvidia.com/gpu": gpus},
            labels={
                "nvidia.com/gpu.product": product,
                "nvidia.com/gpu.memory": str(memory),
                "berth.dev/su": str(index // 5),
                "berth.dev/rack": f"r{index // 2}",
                "berth.dev/nic-count": "8" if gpus == PRODUCTS[0][4] else "2",
            },
            version="v1.36.3",
        )
        for short, product, memory, count, gpus in PRODUCTS
        for index in range(count)
    ]
