"""A cluster whose queue admits workloads: who waits is told why, a stop gives the place back."""

from collections.abc import Iterator

import pytest

from runtime.protocol import NotYet, Seen
from runtime.reasons import Reason
from runtime.spec import Resources
from tests.drivers.kubernetes.harness import Ground, ground_of, wait_for
from tests.drivers.kubernetes.test_on_a_cluster import removed, told
from tests.drivers.kubernetes.test_watch import Follower

pytestmark = pytest.mark.cluster

API = "kueue.x-k8s.io/v1beta2"


@pytest.fixture
def ground() -> Iterator[Ground]:
    """A namespace whose queue holds one GPU on simulated nodes."""
    made = ground_of(queue="default", labels={"berth.dev/queue": "kueue"})
    name, kube = made.namespace, made.kube
    resources = {"cpu": "2", "memory": "4Gi", "nvidia.com/gpu": "1"}
    group = {
        "coveredResources": list(resources),
        "flavors": [
            {
                "name": name,
                "resources": [{"name": n, "nominalQuota": q} for n, q in resources.items()],
            }
        ],
    }
    queue = {
        "resourceGroups": [group],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}},
    }
    nodes = {
        "nodeLabels": {"type": "kwok"},
        "tolerations": [{"key": "kwok.x-k8s.io/node", "operator": "Exists"}],
    }
    for kind, meta, spec in (
        ("ResourceFlavor", {"name": name}, nodes),
        ("ClusterQueue", {"name": name}, queue),
        ("LocalQueue", {"name": "default", "namespace": name}, {"clusterQueue": name}),
    ):
        kube.apply({"apiVersion": API, "kind": kind, "metadata": meta, "spec": spec})
    try:
        yield made
    finally:
        made.close()
        for kind in ("ClusterQueue", "ResourceFlavor"):
            kube.delete(API, kind, name)


def test_what_its_queue_will_never_let_in_is_told_so(ground):
    follower = Follower(ground.driver)
    large = ground.spec(resources=Resources(1000, 512, gpus=4), probe=None)
    ground.driver.ensure(large)
    found = told(follower, large.uid, lambda o: "maximum capacity" in o.message)
    assert (found.seen, found.reason) == (Seen.CREATED, Reason.DOES_NOT_FIT)
    assert "(4) > maximum capacity (1)" in found.message
    removed(ground, large.uid)
    ground.kube.delete(API, "LocalQueue", "default", ground.namespace)
    lost = ground.spec(resources=Resources(1000, 512), probe=None)
    ground.driver.ensure(lost)
    found = told(follower, lost.uid, lambda o: o.reason == Reason.NO_QUEUE)
    assert found.message == "LocalQueue default doesn't exist"
    removed(ground, lost.uid)
    follower.close()


def test_the_second_waits_until_the_first_stops(ground):
    follower = Follower(ground.driver)
    first, second = (
        ground.spec(resources=Resources(1000, 512, gpus=1), probe=None) for _ in range(2)
    )
    ground.driver.ensure(first)
    told(follower, first.uid, lambda o: o.seen == Seen.READY)
    ground.driver.ensure(second)
    found = told(follower, second.uid, lambda o: "quota" in o.message)
    assert (found.seen, found.reason) == (Seen.CREATED, Reason.QUEUED)

    def stopped() -> bool:
        try:
            ground.driver.stop(first.uid, grace_s=1)
        except NotYet:
            return False
        return True

    wait_for(stopped, seconds=180, every=0.2)
    told(follower, second.uid, lambda o: o.seen == Seen.READY)
    told(follower, first.uid, lambda o: o.seen == Seen.EXITED)
    again = ground.spec(uid=first.uid, launch=2, resources=first.resources, probe=None)
    ground.driver.ensure(again)
    told(follower, first.uid, lambda o: (o.reason, o.launch) == (Reason.QUEUED, 2))
    removed(ground, second.uid)
    told(follower, first.uid, lambda o: o.seen == Seen.READY)
    removed(ground, first.uid)
    follower.close()
