"""The simulated GPU fleet: nodes without machines; kwok keeps them alive and plays their pods."""

import json
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from devcluster.control_plane import flags, write_text
from devcluster.kube import Kube, KubeError
from devcluster.layout import KWOK_PORT, SIMULATED_CIDR, Layout
from devcluster.programs import PROGRAMS, binary, module_folder

FAKE = "kwok.x-k8s.io/node"
CONFLICT = 409
RACK_SIZE = 4
UNIT_RACKS = 2
# What a device plugin for virtual functions of network cards would offer.
VIRTUAL_FUNCTIONS = "example.com/rdma_vf"
# A Job's pod ends after this long, or never when the annotation is missing.
RUN_TIME = "berth.dev/simulated-seconds"


@dataclass(frozen=True)
class Pool:
    name: str
    product: str
    family: str
    memory_mib: int
    nodes: int
    gpus: int  # per node
    mig: bool
    nics: int
    cpus: int
    memory_gib: int
    functions: int = 0  # virtual functions of its cards that a pod may have, on each node


FLEET = (
    Pool("h100-80", "NVIDIA-H100-80GB-HBM3", "hopper", 81559, 10, 8, True, 8, 192, 2048, 8),
    # fewer than GPUs: work that asks for one of each for a whole node fits nowhere here
    Pool("a100-80", "NVIDIA-A100-SXM4-80GB", "ampere", 81920, 6, 8, True, 4, 128, 1024, 4),
    Pool("a100-40", "NVIDIA-A100-SXM4-40GB", "ampere", 40960, 2, 8, True, 4, 128, 1024),
    Pool("a2", "NVIDIA-A2", "ampere", 15356, 4, 4, False, 1, 64, 256),
    Pool("t4", "Tesla-T4", "turing", 15360, 11, 1, False, 1, 32, 128),
)


def nodes() -> Iterator[dict[str, Any]]:
    for unit, pool in enumerate(FLEET):
        for number in range(pool.nodes):
            yield node(pool, unit, number)


def node(pool: Pool, unit: int, number: int) -> dict[str, Any]:
    name = f"{pool.name}-{number:02d}"
    rack = number // RACK_SIZE
    capacity = {
        "cpu": str(pool.cpus),
        "memory": f"{pool.memory_gib}Gi",
        "pods": "110",
        "ephemeral-storage": "1Ti",
        "nvidia.com/gpu": str(pool.gpus),
    }
    if pool.functions:
        capacity[VIRTUAL_FUNCTIONS] = str(pool.functions)
    labels = {
        "type": "kwok",
        "kubernetes.io/hostname": name,
        "kubernetes.io/os": "linux",
        "kubernetes.io/arch": "amd64",
        "node-role.kubernetes.io/agent": "",
        "nvidia.com/gpu.present": "true",
        "nvidia.com/gpu.product": pool.product,
        "nvidia.com/gpu.family": pool.family,
        "nvidia.com/gpu.memory": str(pool.memory_mib),
        "nvidia.com/gpu.count": str(pool.gpus),
        "nvidia.com/mig.capable": str(pool.mig).lower(),
        "nvidia.com/mig.strategy": "mixed" if pool.mig else "none",
        "berth.dev/su": f"su-{unit}-{rack // UNIT_RACKS}",
        "berth.dev/rack": f"rack-{unit}-{rack}",
        "berth.dev/rail": f"rail-{number % RACK_SIZE}",
        "berth.dev/nics": str(pool.nics),
        "berth.dev/simulated": "true",
    }
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": {FAKE: "fake"}},
        # Without it real pods would land on machines that are not there.
        "spec": {"taints": [{"key": FAKE, "value": "fake", "effect": "NoSchedule"}]},
        "status": {"capacity": capacity, "allocatable": capacity},
    }


def create(kube: Kube) -> int:
    """All that are missing, several at a time."""

    def one(item: dict[str, Any]) -> None:
        try:
            kube.create(item)
        except KubeError as error:
            if error.status != CONFLICT:
                raise

    with ThreadPoolExecutor(4) as pool:
        return len(list(pool.map(one, nodes())))


def ready(kube: Kube) -> bool:
    found = kube.list("v1", "Node", labelSelector="type=kwok")
    wanted = sum(pool.nodes for pool in FLEET)
    return len(found) >= wanted and all(is_ready(item) for item in found)


def is_ready(item: dict[str, Any]) -> bool:
    conditions = item.get("status", {}).get("conditions", [])
    return any(c["type"] == "Ready" and c["status"] == "True" for c in conditions)


# --- kwok -----------------------------------------------------------------------------------------

PARALLEL: tuple[str, ...] = ("podPlayStageParallelism", "nodePlayStageParallelism")
PARALLEL += ("nodeLeaseParallelism", "podsOnNodeSyncParallelism")
STAGES: tuple[str, ...] = (
    "node/fast/node-initialize",
    "node/heartbeat-with-lease/node-heartbeat-with-lease",
)
STAGES += ("pod/fast/pod-ready",)
# A kubelet ends the containers of what is deleted before it lets go of it. The stock stage does
# not, and a suspended Job keeps its finalizer on a pod that never ended.
DELETE = """apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: pod-terminate}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - {key: .metadata.deletionTimestamp, operator: Exists}
    - {key: .status.phase, operator: In, values: [Pending, Running]}
  next:
    statusTemplate: |
      {{ $now := Now }}
      containerStatuses:
      {{ range .spec.containers }}
      - image: {{ .image | Quote }}
        name: {{ .name | Quote }}
        ready: false
        restartCount: 0
        started: false
        state:
          terminated:
            exitCode: 143
            finishedAt: {{ $now | Quote }}
            reason: Error
            startedAt: {{ $now | Quote }}
      {{ end }}
      phase: Failed
---
apiVersion: kwok.x-k8s.io/v1alpha1
kind: Stage
metadata: {name: pod-delete}
spec:
  resourceRef: {apiGroup: v1, kind: Pod}
  selector:
    matchExpressions:
    - {key: .metadata.deletionTimestamp, operator: Exists}
    - {key: .status.phase, operator: In, values: [Failed, Succeeded]}
  next: {delete: true}
"""


def write_configuration(layout: Layout) -> None:
    """Kwok's own stages but of deletion, and a Job's end when an annotation says so."""
    options = {"enableCRDs": [], **dict.fromkeys(PARALLEL, 4)}
    head = {
        "apiVersion": "config.kwok.x-k8s.io/v1alpha1",
        "kind": "KwokConfiguration",
        "options": options,
    }
    folder = module_folder(PROGRAMS["kwok"]) / "kustomize/stage"
    parts = [json.dumps(head)]
    parts += [(folder / f"{name}.yaml").read_text() for name in STAGES]
    parts.append(DELETE)
    parts.append(timed((folder / "pod/fast/pod-complete.yaml").read_text()))
    write_text(layout.config / "kwok.yaml", "\n---\n".join(parts))


def timed(stage: str) -> str:
    """The stock stage ends every Job at once; here an annotation says when, else never."""
    expression = f'.metadata.annotations["{RUN_TIME}"]'
    selector = f"    - key: '{expression}'\n      operator: 'Exists'\n"
    delay = f"  delay:\n    durationFrom:\n      expressionFrom: '{expression}'\n"
    head, mark, tail = stage.partition("  next:\n")
    if not mark:
        raise ValueError("kwok's stage has another shape than expected")
    return head + selector + delay + mark + tail


def kwok(layout: Layout) -> Iterable[object]:
    return [
        binary("kwok"),
        *flags(
            {
                "kubeconfig": layout.kubeconfig("kwok"),
                "config": layout.config / "kwok.yaml",
                "manage-nodes-with-annotation-selector": f"{FAKE}=fake",
                "node-lease-duration-seconds": 40,
                "node-ip": "127.0.0.1",
                "cidr": SIMULATED_CIDR,
                "server-address": f"127.0.0.1:{KWOK_PORT}",
            }
        ),
    ]
