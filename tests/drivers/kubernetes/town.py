"""Projects that share eight devices of the real Kueue by queues that Berth writes, for tests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from runtime.capabilities.queues import QueueKind, QueuePart, QueueShare, QueueTree
from runtime.protocol import NotYet, Seen
from runtime.spec import Placement, Resources, WorkloadSpec
from tests.drivers.kubernetes.harness import RESTRICTED, Ground, ground_of, wait_for

API = "kueue.x-k8s.io/v1beta2"
GPU = "nvidia.com/gpu"
MODEL = {"nvidia.com/gpu.product": "NVIDIA-A2"}
EIGHT = QueueKind("a2", GPU, MODEL, 8, beside={"cpu": 64_000, "memory": 65_536})
FLEET = Placement(
    any_of=(MODEL,), tolerations=({"key": "kwok.x-k8s.io/node", "operator": "Exists"},)
)
TWO = {"a2": QueueShare(2)}
SPENT = {"train": 100, "build": 1000, "over-budget": 1}  # values of classes


@dataclass
class Town:
    """Three projects with two GPUs guaranteed to each, and two that nobody is promised."""

    ground: Ground
    tree: QueueTree
    submitted: list[WorkloadSpec] = field(default_factory=list)

    @property
    def root(self) -> str:
        return self.ground.driver.options.namespace_prefix.strip("-")

    def space(self, name: str) -> str:
        return f"{self.root}-{name}"

    def submit(self, name: str, **options: Any) -> WorkloadSpec:
        spec = self.ground.spec(
            **{
                "namespace": self.space(name),
                "once": True,
                "kind": "job",
                "probe": None,
                "resources": Resources(1000, 512, gpus=1),
                "placement": FLEET,
                "priority": f"{self.root}-train",
                **options,
            }
        )
        self.submitted.append(spec)
        self.ground.driver.ensure(spec)
        return spec

    def running(self, specs: list[WorkloadSpec]) -> list[int]:
        """Return the numbers of those that run."""
        seen = self.ground.driver.observe([spec.uid for spec in specs])
        return [n for n, spec in enumerate(specs) if seen[spec.uid].seen == Seen.READY]

    def until(self, specs: list[WorkloadSpec], count: int) -> list[int]:
        def look() -> list[int] | None:
            found = self.running(specs)
            return found if len(found) == count else None

        return wait_for(look, seconds=150, every=0.2)

    def end(self, specs: list[WorkloadSpec]) -> None:
        def gone(uid: str) -> bool:
            try:
                self.ground.driver.remove(uid)
            except NotYet:
                return False
            return True

        left = {spec.uid for spec in specs}

        def all_gone() -> bool:
            left.difference_update([uid for uid in left if gone(uid)])
            return not left

        wait_for(all_gone, seconds=90, every=0.2)

    def stand(self, spec: WorkloadSpec, word: str = "", *, waits: bool = False) -> None:
        """Let it stand so; asked again where Kueue wrote at the same time, as the engine does."""
        priority = f"{self.root}-{word}" if word else spec.priority

        def told() -> bool:
            try:
                return self.ground.driver.stand(spec.uid, priority=priority, waits=waits)
            except NotYet:
                return False

        wait_for(told, seconds=30, every=0.2)

    def workload(self, spec: WorkloadSpec) -> dict[str, Any]:
        def look() -> dict[str, Any] | None:
            for found in self.ground.kube.list(API, "Workload"):
                owners = found["metadata"].get("ownerReferences") or [{}]
                if owners[0].get("name") == f"ws-{spec.name}":
                    return found
            return None

        return wait_for(look, seconds=30, every=0.2)


@pytest.fixture
def town() -> Iterator[Town]:
    labels = {"berth.dev/queue": "kueue"}
    made = ground_of(queue="default", manages_queues=True, labels=labels)
    prefix = made.driver.options.namespace_prefix
    spaces = {name: f"{prefix}{name}" for name in "abc"}
    for space in spaces.values():
        meta = {"name": space, "labels": {"berth.dev/test": "true", **labels, **RESTRICTED}}
        made.kube.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": meta})
    parts = tuple(QueuePart(n, n, "org", space, shares=TWO) for n, space in spaces.items())
    tree = QueueTree(
        (QueuePart("org", "org", shares={"a2": QueueShare(6)}), *parts),
        (EIGHT,),
        plain={"cpu": 4000, "memory": 8192},
        priorities={"train": 100, "build": 1000},
    )
    town = Town(made, tree)
    assert made.driver.ensure_queues(tree)
    try:
        yield town
    finally:
        town.end(town.submitted)
        for space in spaces.values():
            made.kube.delete("v1", "Namespace", space)

        def gone() -> bool:
            try:
                made.driver.remove_queues()
            except NotYet:
                return False
            return True

        wait_for(gone, seconds=120, every=1)
        made.close()
