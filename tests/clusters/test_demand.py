"""What is free of each kind: from what live work asked for, and where it came to."""

from uuid import uuid4

import pytest

from clusters.device_use import kinds_for
from clusters.models import Cluster
from clusters.services import nodes_store
from common.clock import now
from runtime.capabilities.clusters import NodeChanges
from runtime.models import ObservedWorkload
from tests.clusters.fleet import fleet
from tests.engineapp.models import Thing

pytestmark = pytest.mark.django_db


@pytest.fixture
def cluster(db):
    made = Cluster.objects.create(key="east", name="East", driver="kubernetes")
    nodes_store(cluster_key="east", changes=NodeChanges(seen=fleet(), full=True))
    return made


def thing(gpu_flavor, gpus, phase="running", **more):
    return Thing.objects.create(
        cluster_key="east", gpus=gpus, gpu_flavor=gpu_flavor, phase=phase, **more
    )


def free():
    return {
        use.flavor.name: (use.used, use.free, use.waiting)
        for use in kinds_for(Cluster.objects.all(), None, ["notebook"])
    }


def test_what_runs_starts_or_stops_is_used_and_what_waits_is_waited_for(cluster):
    for phase in ("running", "starting", "stopping"):
        thing("h100-80", 2, phase)
    thing("h100-80", 8, "pending")
    thing("h100-80", 8, "stopped", desired="stopped")
    assert free()["h100-80"] == (6, 74, 8)


def test_any_of_counts_for_the_kind_of_the_node_it_came_to(cluster):
    row = thing("h100-80,t4", 1)
    ObservedWorkload.objects.create(
        cluster_key="east",
        uid=row.uid,
        seen="ready",
        data={"detail": {"node": "t4-3"}},
        seen_at=now(),
    )
    thing("", 4)  # any kind, and nobody knows yet where
    counts = free()
    assert counts["t4"] == (1, 10, 0)
    assert counts["h100-80"] == (0, 80, 0)


def test_work_of_another_cluster_is_not_counted(cluster):
    Thing.objects.create(
        cluster_key=str(uuid4())[:8], gpus=8, gpu_flavor="h100-80", phase="running"
    )
    assert free()["h100-80"] == (0, 80, 0)
