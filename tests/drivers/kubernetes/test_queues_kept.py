"""Queues that Berth writes, with the real Kueue: the story of A6 and A7, and what hands undo."""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import pytest

from runtime.capabilities import QueueKind, QueuePart, QueueShare, QueueTree
from runtime.drivers.kubernetes.builders import queues
from runtime.protocol import (
    Denied,
    InvalidSpec,
    NotYet,
    Placement,
    PodGroup,
    Resources,
    Seen,
    WorkloadSpec,
)
from runtime.reasons import Reason
from tests.drivers.kubernetes.harness import RESTRICTED, Ground, ground_of, wait_for

pytestmark = pytest.mark.cluster

API = "kueue.x-k8s.io/v1beta2"
GPU = "nvidia.com/gpu"
MODEL = {"nvidia.com/gpu.product": "NVIDIA-A2"}
EIGHT = QueueKind("a2", GPU, MODEL, 8, beside={"cpu": 64_000, "memory": 65_536})
FLEET = Placement(
    any_of=(MODEL,), tolerations=({"key": "kwok.x-k8s.io/node", "operator": "Exists"},)
)
TWO = {"a2": QueueShare(2)}


@dataclass
class Town:
    """Three projects with two GPUs guaranteed to each, and two that nobody is promised."""

    ground: Ground
    tree: QueueTree

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

        return wait_for(look, seconds=60, every=0.2)

    def end(self, spec: WorkloadSpec) -> None:
        def gone() -> bool:
            try:
                self.ground.driver.remove(spec.uid)
            except NotYet:
                return False
            return True

        wait_for(gone, seconds=60, every=0.2)

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


def test_over_quota_gives_back_what_is_guaranteed_to_others(town: Town) -> None:
    """A6 and A7: eight GPUs, three projects with two guaranteed each."""
    assert town.ground.driver.ensure_queues(town.tree) == ()  # as it should be, at once
    a = [town.submit("a") for _n in range(8)]
    town.until(a, 8)
    b = [town.submit("b") for _n in range(2)]
    town.until(b, 2)
    assert len(town.until(a, 6)) == 6
    evicted = next(spec for n, spec in enumerate(a) if n not in town.running(a))
    found = town.ground.seen(evicted.uid)
    assert (found.seen, found.reason) in {
        (Seen.STARTING, Reason.PREEMPTED),
        (Seen.CREATED, Reason.QUEUED),
    }
    c = [town.submit("c") for _n in range(2)]
    town.until(c, 2)
    town.until(a, 4)
    assert town.running(b) == [0, 1]  # within its guarantee nobody is ever asked
    for spec in (*b, *c):
        town.end(spec)
    town.until(a, 8)  # and all go on by themselves


def test_a_gang_starts_whole_or_not_at_all(town: Town) -> None:
    """C13: two that fit halfway do not hold each other up."""
    size = {"resources": Resources(1000, 512, gpus=2), "groups": (PodGroup("main", 3),)}
    gangs = [town.submit(name, **size) for name in "ab"]
    first = town.until(gangs, 1)[0]
    pods = town.ground.kube.list("v1", "Pod")
    other = gangs[1 - first]
    mine = [
        p for p in pods if (p["metadata"].get("labels") or {}).get("berth.dev/uid") == other.uid
    ]
    assert mine == []
    town.end(gangs[first])
    town.until([other], 1)


def test_what_hands_changed_is_put_back_and_what_others_made_is_left(town: Town) -> None:
    kube, driver, space = town.ground.kube, town.ground.driver, town.space("a")
    kube.delete(API, "LocalQueue", "default", space)
    kube.delete(API, "ClusterQueue", space)
    found = kube.get(API, "Cohort", town.root)
    found["spec"]["resourceGroups"][0]["flavors"][1]["resources"][0]["nominalQuota"] = "7"
    kube.request("PUT", f"/apis/{API}/cohorts/{town.root}", json=found)
    wait_for(lambda: kube.get(API, "ClusterQueue", space) is None, seconds=30, every=0.2)
    restored = {f"LocalQueue/{space}/default", f"ClusterQueue/{space}", f"Cohort/{town.root}"}
    assert set(driver.ensure_queues(town.tree)) == restored
    assert driver.ensure_queues(town.tree) == ()
    # a field that ours leave out is taken away again
    check = {"spec": {"admissionChecksStrategy": {"admissionChecks": [{"name": "theirs"}]}}}
    kube.patch(f"/apis/{API}/clusterqueues/{space}", check)
    assert driver.ensure_queues(town.tree) == (f"ClusterQueue/{space}",)
    assert driver.ensure_queues(town.tree) == ()
    theirs = f"{town.root}-x-theirs"
    meta = {"name": theirs}
    kube.apply({"apiVersion": API, "kind": "WorkloadPriorityClass", "metadata": meta, "value": 5})
    try:
        more = replace(town.tree, priorities={**town.tree.priorities, "x-theirs": 9})
        with pytest.raises(InvalidSpec):
            driver.ensure_queues(more)
        assert kube.get(API, "WorkloadPriorityClass", theirs)["value"] == 5
    finally:
        kube.delete(API, "WorkloadPriorityClass", theirs)


def test_a_new_value_of_a_priority_counts_for_what_is_there(town: Town) -> None:
    job = town.submit("a")
    notebook = town.submit("a", once=False, kind="workspace", priority=f"{town.root}-build")
    town.until([job, notebook], 2)
    assert town.workload(job)["spec"]["priority"] == 100
    assert town.workload(notebook)["spec"]["priority"] == 1000
    changed = replace(town.tree, priorities={"train": 70, "build": 2000})
    town.ground.driver.ensure_queues(changed)
    assert town.workload(job)["spec"]["priority"] == 70
    assert town.workload(notebook)["spec"]["priority"] == 2000
    # started anew with another one: Kueue itself keeps what a StatefulSet said first
    town.ground.stopped(notebook.uid)
    again = replace(notebook, launch=2, priority=f"{town.root}-train")
    town.ground.driver.ensure(again)
    town.until([again], 1)
    assert town.workload(again)["spec"]["priority"] == 70


def test_without_devices_it_stays_off_what_is_guaranteed(town: Town) -> None:
    plain = town.submit("a", resources=Resources(1000, 64), placement=Placement())
    found = wait_for(lambda: town.workload(plain)["status"].get("admission"), seconds=30, every=0.2)
    assert set(found["podSetAssignments"][0]["flavors"].values()) == {f"{town.root}-plain"}


def test_a_guarantee_beyond_what_exists_lets_in_no_more_than_that(town: Town) -> None:
    parts = tuple(
        replace(part, shares={"a2": QueueShare(20)} if part.namespace else {})
        for part in town.tree.parts
    )
    town.ground.driver.ensure_queues(replace(town.tree, parts=parts))
    jobs = [town.submit(name) for name in "aaabbbccc"]
    town.until(jobs, 8)
    assert len(town.running(jobs)) == 8


def test_a_cluster_without_kueue_is_told_so(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queues, "VERSION", "kueue.x-k8s.io/v0")
    with pytest.raises(Denied) as refusal:
        town.ground.driver.ensure_queues(town.tree)
    assert refusal.value.reason == Reason.NO_QUEUE
