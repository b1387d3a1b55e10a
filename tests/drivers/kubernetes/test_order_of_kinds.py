"""A3 on the real scheduler: of several kinds the first one that has room is taken."""

import pytest

from runtime.spec import Placement, Resources
from tests.drivers.kubernetes.harness import ground_of, wait_for

pytestmark = pytest.mark.cluster
PRODUCT = "nvidia.com/gpu.product"
T4, A2, A100 = "Tesla-T4", "NVIDIA-A2", "NVIDIA-A100-SXM4-40GB"
TOLERATED = (
    {"key": "kwok.x-k8s.io/node", "operator": "Exists"},
    {"key": "nvidia.com/gpu", "operator": "Exists"},
)


@pytest.fixture(scope="module", params=["", "gpu-binpack"], ids=["default", "packing"])
def ground(request):
    made = ground_of(scheduler=request.param)
    yield made
    made.close()


def kind_of_node(ground, order, gpus=1):
    """Start one that takes any of ``order``, in this order; return where it came to."""
    placement = Placement(
        node_labels={"type": "kwok"},
        any_of=tuple({PRODUCT: name} for name in order),
        ranks=tuple(range(len(order))),
        tolerations=TOLERATED,
    )
    spec = ground.spec(resources=Resources(1000, 64, gpus=gpus), placement=placement, probe=None)
    ground.driver.ensure(spec)

    def node():
        found = ground.pod(spec) or {}
        return (found.get("spec") or {}).get("nodeName")

    name = wait_for(node, seconds=60, every=0.2)
    return ground.kube.get("v1", "Node", name)["metadata"]["labels"][PRODUCT]


@pytest.mark.parametrize("order", [(T4, A2, A100), (A2, A100, T4), (A100, T4, A2)])
def test_a3_the_first_kind_with_room_is_taken(ground, order):
    assert kind_of_node(ground, order) == order[0]
    # and again, now that pods with GPUs lie on nodes of other kinds too
    assert kind_of_node(ground, order) == order[0]


def test_a3_a_kind_without_room_is_passed_over(ground):
    """No T4 node has two: the next in the order, not whatever is emptiest."""
    assert kind_of_node(ground, (T4, A2, A100), gpus=2) == A2
    assert kind_of_node(ground, (T4, A100, A2), gpus=2) == A100
