"""Loads where a queue admits work: one that waits can be stopped, one that is put out goes on."""

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from loaders.runtime_spec import RETRY
from runtime.protocol import NotYet, Seen
from runtime.reasons import Reason
from runtime.spec import PodGroup, Resources, RetryPolicy, WorkloadSpec
from tests.drivers.kubernetes.harness import Ground, ground_of, wait_for
from tests.drivers.kubernetes.test_in_a_queue import API

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.long("Kueue for workspaces: test_in_a_queue.py; the writes: test_jobs_written.py"),
]

# Ends as the copying program does when it is told to stop.
SCRIPT = "trap 'exit 5' TERM; echo ready; while :; do sleep 0.1; done"
HALF = Resources(cpu_milli=1000, memory_mib=300)  # more than half of the queue's memory
QUARTER = Resources(cpu_milli=500, memory_mib=150)
LATE_S = 180.0


@pytest.fixture
def ground() -> Iterator[Ground]:
    """A namespace whose queue has room for one load, on the node that really runs programs."""
    made = ground_of(queue="default", labels={"berth.dev/queue": "kueue"})
    name = made.namespace
    quotas = [{"name": n, "nominalQuota": q} for n, q in (("cpu", "1"), ("memory", "500Mi"))]
    flavors = [{"name": name, "resources": quotas}]
    queue = {
        "resourceGroups": [{"coveredResources": ["cpu", "memory"], "flavors": flavors}],
        "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": name}},
        "preemption": {"withinClusterQueue": "LowerPriority"},
    }
    for kind, meta, body in (
        ("ResourceFlavor", {"name": name}, {"spec": {}}),
        ("ClusterQueue", {"name": name}, {"spec": queue}),
        ("LocalQueue", {"name": "default", "namespace": name}, {"spec": {"clusterQueue": name}}),
        ("WorkloadPriorityClass", {"name": name}, {"value": 1000}),
    ):
        made.kube.apply({"apiVersion": API, "kind": kind, "metadata": meta, **body})
    try:
        yield made
    finally:
        made.close()
        for kind in ("ClusterQueue", "ResourceFlavor", "WorkloadPriorityClass"):
            made.kube.delete(API, kind, name)


def load(ground: Ground, **options: Any) -> WorkloadSpec:
    defaults = {
        "kind": "load",
        "once": True,
        "retry": RETRY,
        "command": ("bash", "-c", SCRIPT),
        "probe": None,
        "resources": HALF,
        "stop_grace_s": 10.0,
    }
    return ground.spec(**{**defaults, **options})


def runs(ground: Ground, spec: WorkloadSpec) -> Any:
    ground.until(spec.uid, lambda o: o.seen == Seen.READY, seconds=LATE_S)
    wait_for(lambda: b"ready" in ground.driver.read_log(spec.uid)[0], seconds=LATE_S, every=0.2)
    return ground.seen(spec.uid)


def gone(ground: Ground, act: Callable[[], None], uid: str) -> None:
    def done() -> bool:
        try:
            act()
        except NotYet:
            return False
        return bool(ground.seen(uid).seen == Seen.MISSING)

    wait_for(done, seconds=LATE_S, every=0.2)


def stands(ground: Ground) -> list[bool]:
    """Return which work has a place or a turn, in the order in which it came."""
    found = ground.kube.list(API, "Workload", ground.namespace)
    found.sort(key=lambda one: one["metadata"]["creationTimestamp"])
    return [one["spec"].get("active", True) for one in found]


def test_one_that_waits_for_its_place_is_stopped_and_never_starts(ground: Ground) -> None:
    first, second = load(ground), load(ground)
    ground.driver.ensure(first)
    runs(ground, first)
    ground.driver.ensure(second)
    ground.until(second.uid, lambda o: o.reason == Reason.QUEUED, seconds=LATE_S)
    found = ground.stopped(second.uid)
    assert (found.seen, found.reason) == (Seen.EXITED, "stopped")
    assert stands(ground) == [True, False]  # nobody gives way to it
    gone(ground, lambda: ground.driver.remove(first.uid), first.uid)
    third = load(ground)  # comes after it in the line
    ground.driver.ensure(third)
    runs(ground, third)
    assert ground.seen(second.uid).seen == Seen.EXITED
    mine = f"berth.dev/uid={second.uid}"
    assert not ground.kube.list("v1", "Pod", ground.namespace, labelSelector=mine)
    found = ground.stopped(third.uid)
    assert (found.seen, found.reason) == (Seen.EXITED, "stopped")
    assert stands(ground) == [False, False]
    for spec in (second, third):
        gone(ground, lambda s=spec: ground.driver.remove(s.uid), spec.uid)


def urgent(ground: Ground) -> dict[str, Any]:
    """A Job of somebody else that the queue prefers."""
    main = {
        "name": "main",
        "image": ground.image,
        "command": ["sleep", "600"],
        "resources": {"requests": {"cpu": "100m", "memory": "300Mi"}},
        "securityContext": {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "runAsNonRoot": True,
            "seccompProfile": {"type": "RuntimeDefault"},
        },
    }
    pod = {"containers": [main], "restartPolicy": "Never", "terminationGracePeriodSeconds": 1}
    labels = {
        "kueue.x-k8s.io/queue-name": "default",
        "kueue.x-k8s.io/priority-class": ground.namespace,
    }
    meta = {"name": "urgent", "namespace": ground.namespace, "labels": labels}
    spec = {"template": {"spec": pod}}
    return {"apiVersion": "batch/v1", "kind": "Job", "metadata": meta, "spec": spec}


@pytest.mark.parametrize(
    "options",
    [
        pytest.param({}, id="a load"),
        pytest.param({"retry": RetryPolicy()}, id="one that has no other attempt"),
        pytest.param(
            {"retry": RetryPolicy(), "groups": (PodGroup(replicas=2),), "resources": QUARTER},
            id="a group",
        ),
    ],
)
def test_one_that_is_put_out_for_a_more_urgent_job_goes_on_afterwards(
    ground: Ground, options: dict[str, Any]
) -> None:
    spec = load(ground, **options)
    ground.driver.ensure(spec)
    before = runs(ground, spec)
    ground.kube.create(urgent(ground))
    held = {Reason.PREEMPTED, Reason.QUEUED}
    ground.until(spec.uid, lambda o: o.reason in held, seconds=LATE_S)

    def urgent_runs() -> bool:
        found = ground.kube.get("batch/v1", "Job", "urgent", ground.namespace) or {}
        return bool(found.get("status", {}).get("ready"))

    wait_for(urgent_runs, seconds=LATE_S, every=0.2)
    there = (Seen.CREATED, Reason.QUEUED)
    ground.until(spec.uid, lambda o: (o.seen, o.reason) == there, seconds=LATE_S)
    whole = {"propagationPolicy": "Background"}
    ground.kube.delete("batch/v1", "Job", "urgent", ground.namespace, **whole)
    after = runs(ground, spec)
    assert after.launch == before.launch
    assert after.detail["pod"] != before.detail["pod"]
    gone(ground, lambda: ground.driver.remove(spec.uid), spec.uid)
