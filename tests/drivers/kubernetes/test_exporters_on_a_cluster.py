"""A17, E19: an exporter with DCGM's names on a real node, asked and believed by the driver."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from clusters.accelerators import known_of
from runtime.protocol import Seen
from runtime.use_sources import Holder, parse
from tests.cluster.conftest import a_namespace
from tests.cluster.pods import is_ready, pod
from tests.drivers.kubernetes.harness import Ground, ground_of, wait_for
from tests.support.cluster_state import cluster_state
from tests.support.portal import ROOT

pytestmark = pytest.mark.cluster
RUN = """
printf %s "$DAY" > /tmp/day.json; printf %s "$PODS" > /tmp/pods.json
exec python3 -c "$CODE" /tmp/day.json --pods /tmp/pods.json --node "$NODE" --address 0.0.0.0
"""


@pytest.fixture
def ground() -> Iterator[Ground]:
    made = ground_of(pod_cidrs=(cluster_state()["pod_cidr"],))
    yield made
    made.close()


@pytest.fixture
def monitoring(ground: Ground) -> Iterator[str]:
    """A namespace of the cluster's own."""
    with a_namespace(ground.kube) as name:
        yield name


def exporter(ground: Ground, namespace: str, day: Any, pods: Any) -> None:
    """Run the stand-in beside the work, as a DaemonSet would put it there."""
    node = ground.state["node"]
    said = {"DAY": json.dumps(day), "PODS": json.dumps(pods), "NODE": node}
    said["CODE"] = (ROOT / "tools/use_exporter.py").read_text()
    made = pod(
        namespace,
        "exporter",
        ground.image,
        command=["bash", "-c", RUN],
        labels={"app": "nvidia-dcgm-exporter"},
        resources={"requests": {"cpu": "10m", "memory": "32Mi"}},
        readinessProbe={"httpGet": {"port": 9400, "path": "/metrics"}, "periodSeconds": 1},
        nodeName=node,
    )
    env = [{"name": name, "value": text} for name, text in said.items()]
    made["spec"]["containers"][0]["env"] = env
    ground.kube.apply(made)
    ground.kube.until(
        "exporter", lambda: is_ready(ground.kube.get("v1", "Pod", "exporter", namespace))
    )


def test_e19_a_real_exporter_tells_of_its_node_and_is_believed_about_no_other(
    ground: Ground, monitoring: str
) -> None:
    spec = ground.spec()
    ground.driver.ensure(spec)
    ground.until(spec.uid, lambda seen: seen.seen == Seen.READY)
    node, name = ground.state["node"], f"ws-{spec.name}-0"
    day = {f"GPU-{n}": [[0, 40 + n, 1000 * n]] for n in range(1, 5)} | {"GPU-5": [[0, 1e9, 7]]}
    mine, elsewhere = [ground.namespace, name], [ground.namespace, "ws-elsewhere-0"]
    pods = {"GPU-1": mine, "GPU-2": ["another-tenant", name], "GPU-3": elsewhere, "GPU-5": mine}
    # one that a tenant runs in a project's namespace is not asked
    exporter(ground, ground.namespace, {"GPU-9": [[0, 99, 9]]}, {"GPU-9": mine})
    exporter(ground, monitoring, day, pods)
    holders = [
        Holder(spec.uid, (ground.namespace, name), node, 2),
        Holder("elsewhere", (ground.namespace, "ws-elsewhere-0"), "another-node", 1),
    ]
    found = {
        one.device: (one.uid, one.utilisation, one.memory_mib, one.foreign)
        for one in ground.driver.device_use(holders, [parse(known_of("nvidia.com/gpu"))])
    }
    assert found == {
        f"{node}/GPU-1": (spec.uid, 41.0, 1000.0, False),
        # the name of ours in a namespace of others, and ours of another node: neither is ours
        f"{node}/GPU-2": ("", 42.0, 2000.0, True),
        f"{node}/GPU-3": ("", 43.0, 3000.0, True),
        f"{node}/GPU-4": ("", 44.0, 4000.0, False),
        f"{node}/GPU-5": (spec.uid, None, 7.0, False),  # what can't be is unknown, not 0
    }
    ground.kube.delete("v1", "Pod", "exporter", monitoring, gracePeriodSeconds="0")
    source = parse(known_of("nvidia.com/gpu"))
    wait_for(lambda: not ground.driver.device_use(holders, [source]), seconds=30, every=0.5)
