"""A fleet of nodes as a cluster reports them, for tests."""

from typing import Any

from runtime.capabilities.clusters import NodeFacts

PRODUCTS = {
    "h100-80": ("NVIDIA-H100-80GB-HBM3", "81559"),
    "a100-80": ("NVIDIA-A100-SXM4-80GB", "81920"),
    "a100-40": ("NVIDIA-A100-SXM4-40GB", "40960"),
    "a2": ("NVIDIA-A2", "15356"),
    "t4": ("Tesla-T4", "15360"),
}


def node(name: str, kind: str = "", gpus: int = 8, **more: Any) -> NodeFacts:
    labels = {"kubernetes.io/hostname": name, "kubernetes.io/os": "linux", **more.pop("labels", {})}
    accelerators = dict(more.pop("accelerators", {}))
    if kind:
        product, memory = PRODUCTS[kind]
        labels |= {"nvidia.com/gpu.product": product, "nvidia.com/gpu.memory": memory}
        accelerators["nvidia.com/gpu"] = gpus
    return NodeFacts(
        **{
            "name": name,
            "ready": True,
            "cpu_milli": 64_000,
            "memory_mib": 512 * 1024,
            "accelerators": accelerators,
            "labels": labels,
            "version": "v1.36.3",
            **more,
        }
    )


def fleet() -> tuple[NodeFacts, ...]:
    """The requirements' fleet: H100 x 80, A100-80 x 48, A100-40 x 16, A2 x 16, T4 x 11."""
    found = [node(f"h100-{i}", "h100-80", labels={"berth.dev/su": str(i // 5)}) for i in range(10)]
    found += [node(f"a100-80-{i}", "a100-80") for i in range(6)]
    found += [node(f"a100-40-{i}", "a100-40") for i in range(2)]
    found += [node(f"a2-{i}", "a2", 2) for i in range(8)]
    found += [node(f"t4-{i}", "t4", 1) for i in range(11)]
    return tuple(found)
