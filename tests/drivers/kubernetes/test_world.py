"""The memory of a watch equals the API server, whatever comes twice, late or not at all (E8)."""

import copy

import pytest

from runtime.drivers.kubernetes.cluster_cache import (
    EVENTS,
    NODES,
    OTHERS,
    PODS,
    QUEUED,
    SETS,
    World,
)
from runtime.drivers.kubernetes.names import key_of
from runtime.protocol import Seen
from runtime.reasons import Reason
from tests.drivers.kubernetes.pieces import LATER, NS, UID, event, pod, runs, statefulset


def listed(world, kind, objects):
    """A full list of one page, as the watch takes it in."""
    for obj in objects:
        world.put(kind, obj)
    world.keep(kind, {key_of(obj) for obj in objects})


def at(version: int, obj: dict) -> dict:
    made = copy.deepcopy(obj)
    made["metadata"]["resourceVersion"] = str(version)
    return made


def node(name: str = "node1", *, ready: bool = True, gpus: int = 4) -> dict:
    return {
        "metadata": {"name": name, "labels": {"a": "b"}, "resourceVersion": "5"},
        "spec": {"taints": [{"key": "k", "effect": "NoSchedule", "timeAdded": "x"}]},
        "status": {
            "allocatable": {
                "cpu": "3920m",
                "memory": "16Gi",
                "nvidia.com/gpu": str(gpus),
                "hugepages-2Mi": "0",
            },
            "conditions": [
                {"type": "Ready", "status": "True" if ready else "Unknown", "message": "m"}
            ],
            "nodeInfo": {"kubeletVersion": "v1.36.3"},
        },
    }


def one_of(*rules: tuple[str, str, str]) -> dict:
    """What a pod demands of its node: one of these to be so."""
    terms = [
        {"matchExpressions": [{"key": key, "operator": operator, "values": [value]}]}
        for key, operator, value in rules
    ]
    required = {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": terms}}
    return {"affinity": {"nodeAffinity": required}}


def only(world: World):
    found = world.take()
    assert len(found) == 1
    return found[0]


def test_a_life():
    world = World()
    world.put(SETS, at(10, statefulset()))
    assert only(world).seen == Seen.CREATED
    world.put(PODS, at(11, pod(main=runs())))
    assert only(world).seen == Seen.STARTING
    world.put(PODS, at(12, pod(main=runs(), ready=True)))
    assert only(world).seen == Seen.READY
    world.put(SETS, at(13, statefulset(replicas=0)))
    assert only(world).seen == Seen.STOPPING
    world.drop(PODS, at(14, pod(main=runs())))
    assert only(world).seen == Seen.EXITED
    world.drop(SETS, at(15, statefulset(replicas=0)))
    gone = only(world)
    assert (gone.uid, gone.seen, gone.kind) == (UID, Seen.MISSING, "workspace")
    assert world.take() == []


def test_e8_what_comes_twice_or_late_changes_nothing():
    world = World()
    world.put(SETS, at(10, statefulset()))
    world.put(PODS, at(12, pod(main=runs(), ready=True)))
    world.take()
    world.put(PODS, at(12, pod(main=runs(), ready=True)))
    world.put(PODS, at(11, pod(main=runs())))
    assert world.take() == []
    world.drop(PODS, at(20, pod(main=runs())))
    world.take()
    world.put(PODS, at(19, pod(main=runs(), ready=True)))  # a ghost
    assert world.take() == []


def test_e8_a_full_list_removes_what_is_not_in_it():
    world = World()
    world.put(SETS, statefulset())
    world.put(SETS, statefulset(uid="other", name="ws-other"))
    world.put(PODS, pod(main=runs(), ready=True))
    world.take()
    listed(world, SETS, [at(30, statefulset(uid="other", name="ws-other"))])
    listed(world, PODS, [])
    found = {o.uid: o.seen for o in world.take()}
    assert found == {UID: Seen.MISSING, "other": Seen.CREATED}
    assert [o.uid for o in world.everything()] == ["other"]


def queued(version: int, word: str, text: str, name: str = "job-a") -> dict:
    """What Kueue says of the StatefulSet."""
    said = {"type": "QuotaReserved", "status": "False", "reason": word, "message": text}
    meta = {"namespace": NS, "name": name, "resourceVersion": str(version)}
    owner = {"kind": SETS, "name": statefulset()["metadata"]["name"]}
    return {
        "metadata": {**meta, "ownerReferences": [owner]},
        "status": {"conditions": [said]},
    }


def test_e8_what_a_queue_says_comes_late_twice_or_not_at_all():
    gated = [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]
    world = World()
    world.put(SETS, statefulset())
    world.put(PODS, pod(node=None, conditions=gated))
    world.put(QUEUED, queued(20, "WaitingForPreemptedWorkloads", "new"))
    assert only(world).message == "new"
    world.put(QUEUED, queued(20, "WaitingForPreemptedWorkloads", "new"))
    world.put(QUEUED, queued(19, "PendingEvaluation", "old"))
    world.put(QUEUED, queued(21, "WaitingForPreemptedWorkloads", "new"))  # nothing new in it
    assert world.take() == []
    world.put(QUEUED, queued(25, "WaitingForQuota", "of the next one", name="job-b"))
    assert only(world).message == "of the next one"
    world.drop(QUEUED, queued(26, "WaitingForPreemptedWorkloads", "new"))
    assert world.take() == []  # it was another one's
    listed(world, QUEUED, [])
    found = only(world)
    assert (found.reason, found.message, found.detail["line"]) == (Reason.QUEUED, "", {})


def test_what_is_queued_as_a_whole_leaves_nothing_behind():
    """Kueue's of a StatefulSet belongs to the set and, with other versions of it, to its pod too."""
    gated = [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]
    world = World()
    world.put(SETS, statefulset())
    world.put(PODS, pod(node=None, conditions=gated))
    both = queued(20, "WaitingForQuota", "of the whole")
    both["metadata"]["ownerReferences"] = [
        {"kind": PODS, "name": pod()["metadata"]["name"]},
        {"kind": SETS, "name": statefulset()["metadata"]["name"]},
    ]
    world.put(QUEUED, both)
    assert only(world).message == "of the whole"
    world.drop(QUEUED, at(21, both))
    assert only(world).message == ""
    alone = queued(22, "WaitingForQuota", "of the pod")
    alone["metadata"]["ownerReferences"] = both["metadata"]["ownerReferences"][:1]
    world.put(QUEUED, alone)
    assert only(world).message == "of the pod"
    world.put(QUEUED, at(23, both))  # from now on of the whole
    world.drop(QUEUED, at(24, both))
    assert only(world).message == ""


def test_why_a_pod_went_is_remembered_until_its_successor_is_ready():
    world = World()
    world.put(SETS, statefulset())
    world.put(PODS, at(12, pod(main=runs(), phase="Failed", reason="Evicted")))
    assert only(world).reason == Reason.EVICTED
    world.drop(PODS, at(13, pod(main=runs())))
    assert only(world).reason == Reason.EVICTED
    young = {"uid": "pod-2"}
    world.put(PODS, at(14, pod(main=None, metadata=young)))
    assert only(world).reason == Reason.EVICTED
    world.put(PODS, at(15, pod(main=runs(), ready=True, metadata=young)))
    assert (only(world).reason, world.take()) == ("", [])
    world.put(PODS, at(16, pod(main=runs(), metadata=young)))
    assert only(world).reason == Reason.PROGRAM


def test_a_pod_that_a_stop_takes_away_was_not_interrupted():
    world = World()
    world.put(SETS, at(10, statefulset(replicas=0)))
    world.put(PODS, at(12, pod(main=runs(), metadata={"deletionTimestamp": LATER})))
    world.drop(PODS, at(13, pod(main=runs())))
    world.put(SETS, at(14, statefulset(replicas=1, launch=2)))
    assert only(world).reason == Reason.SCHEDULING


def test_an_event_that_comes_before_its_workload_is_not_lost():
    world = World()
    world.put(EVENTS, event("FailedCreate", "exceeded quota: x", kind="StatefulSet"))
    world.put(SETS, statefulset())
    assert only(world).reason == Reason.QUOTA_DENIED


def test_events_of_an_older_pod_are_not_told_of_the_next():
    world = World()
    world.put(SETS, statefulset())
    world.put(EVENTS, event("FailedMount", "old", uid="pod-0"))
    world.put(PODS, pod(main={"state": {"waiting": {"reason": "ContainerCreating"}}}))
    assert only(world).reason == ""


def test_c14_a_lost_node_is_news_for_its_pods():
    world = World()
    world.put(SETS, statefulset())
    world.put(NODES, node())
    world.put(PODS, pod(main=runs()))
    world.take()
    world.put(NODES, node(ready=False))
    assert only(world).reason == Reason.NODE_LOST


def test_c14_one_answer_counts_until_the_node_has_said_it_itself():
    world = World()
    world.put(SETS, statefulset())
    world.put(NODES, node())
    world.put(PODS, pod(main=runs()))
    world.answered("pod-1")
    assert only(world).seen == Seen.READY
    world.put(PODS, at(12, pod(main=runs(), ready=True)))
    assert only(world).seen == Seen.READY
    world.answered("pod-1")  # it was on its way
    world.put(PODS, at(13, pod(main=runs())))  # nobody hears from the node
    assert (only(world).seen, world.take()) == (Seen.STARTING, [])
    world.put(NODES, at(14, node(ready=False)))
    assert only(world).reason == Reason.NODE_LOST
    world.put(NODES, at(15, node()))
    world.put(PODS, at(16, pod(main=runs(), ready=True)))
    assert only(world).seen == Seen.READY


def test_c14_what_answered_on_a_node_that_is_lost_does_not_run():
    world = World()
    world.put(SETS, statefulset())
    world.put(NODES, node())
    world.put(PODS, pod(main=runs()))
    world.answered("pod-1")
    assert only(world).seen == Seen.READY
    world.put(NODES, at(12, node(ready=False)))
    assert only(world).reason == Reason.NODE_LOST
    world.put(NODES, at(13, node()))
    assert only(world).seen == Seen.READY


def test_who_was_ready_is_not_asked_again():
    asked = []

    class Asking:
        def ask(self, question) -> None:
            asked.append(question.pod_uid)

        def forget(self, pod_uid: str) -> None: ...

    def young(version: int, **more) -> dict:
        found = at(version, pod(main=runs(), **more))
        probe = {"httpGet": {"path": "/ready", "port": 8888}}
        found["spec"]["containers"][0]["startupProbe"] = probe
        return found

    world = World()
    world.ask_by(Asking())
    world.put(PODS, young(11))
    assert asked == ["pod-1"]
    world.put(PODS, young(12, ready=True))
    world.put(PODS, young(13))
    assert asked == ["pod-1"]


def test_nodes_are_told_once():
    world = World()
    listed(world, NODES, [node("a"), node("b")])
    first = world.take_nodes()
    assert first.full
    assert sorted(n.name for n in first.seen) == ["a", "b"]
    facts = first.seen[0]
    assert (facts.cpu_milli, facts.memory_mib) == (3920, 16384)
    assert facts.accelerators == {"nvidia.com/gpu": 4}
    assert facts.taints == ({"key": "k", "effect": "NoSchedule"},)
    assert world.take_nodes() is None
    world.put(NODES, node("a"))  # its heartbeat
    assert world.take_nodes() is None
    world.put(NODES, node("a", gpus=3))
    world.drop(NODES, node("b"))
    changes = world.take_nodes()
    assert ([n.name for n in changes.seen], changes.gone, changes.full) == (["a"], ("b",), False)


def test_a_size_that_no_node_has_is_known_from_the_nodes():
    world = World()
    listed(world, NODES, [node("a", gpus=8)])
    world.put(PODS, waits_for_gpus())
    world.put(SETS, statefulset(gpus="8"))
    assert only(world).reason == Reason.NODES_FULL
    world.put(SETS, at(11, statefulset(gpus="16")))
    assert only(world).reason == Reason.NO_SUCH_NODE


def waits_for_gpus() -> dict:
    unplaced = {
        "type": "PodScheduled",
        "status": "False",
        "reason": "Unschedulable",
        "message": "0/2 nodes are available: 2 Insufficient nvidia.com/gpu.",
    }
    return pod(node=None, conditions=[unplaced])


@pytest.mark.parametrize(
    ("choice", "reason"),
    [
        ({}, Reason.NODES_FULL),
        ({"nodeSelector": {"pool": "large"}}, Reason.NODES_FULL),
        ({"nodeSelector": {"pool": "small"}}, Reason.NO_SUCH_NODE),
        ({"nodeSelector": {"other": "small"}}, Reason.NO_SUCH_NODE),
        (one_of(("pool", "In", "small"), ("pool", "In", "large")), Reason.NODES_FULL),
        (one_of(("pool", "In", "small")), Reason.NO_SUCH_NODE),
        (one_of(("pool", "NotIn", "large")), Reason.NO_SUCH_NODE),
        (one_of(("other", "NotIn", "large")), Reason.NODES_FULL),
        (one_of(("other", "Exists", "")), Reason.NODES_FULL),  # not ours: refuses nobody
        ({"tolerations": []}, Reason.NO_SUCH_NODE),  # both have a taint
    ],
)
def test_only_nodes_that_it_may_choose_could_ever_hold_it(choice, reason):
    world = World()
    large, small = node("a", gpus=8), node("b", gpus=1)
    large["metadata"]["labels"], small["metadata"]["labels"] = {"pool": "large"}, {"pool": "small"}
    listed(world, NODES, [large, small])
    wanted = statefulset(gpus="4")
    wanted["spec"]["template"]["spec"].update(choice)
    world.put(PODS, waits_for_gpus())
    world.put(SETS, wanted)
    assert only(world).reason == reason


def test_a_project_s_place_is_followed_by_the_uid_of_its_row():
    world = World()
    labels = {"berth.dev/uid": "place-1"}
    namespace = {"metadata": {"name": "ns", "labels": labels, "resourceVersion": "3"}}
    role = {"metadata": {"name": "r", "namespace": "ns", "resourceVersion": "2"}}
    world.put("Role", role)
    assert world.take() == []
    world.put("Namespace", namespace)
    found = only(world)
    assert (found.uid, found.kind, found.seen) == ("place-1", "place", Seen.STARTING)
    world.drop("Role", at(4, role))
    assert only(world).uid == "place-1"
    assert [o.uid for o in world.everything()] == ["place-1"]
    assert world.workloads() == []
    world.drop("Namespace", at(5, namespace))
    assert only(world).seen == Seen.MISSING


def test_once_more_of_the_same_event_is_no_news():
    world = World()
    world.put(SETS, statefulset())
    world.put(PODS, pod(main={"state": {"waiting": {"reason": "ContainerCreating"}}}))
    world.put(EVENTS, event("FailedMount", "no such directory"))
    assert only(world).reason == Reason.VOLUME
    world.put(EVENTS, {**event("FailedMount", "no such directory", at=LATER), "count": 2})
    assert world.take() == []


def test_c11_ten_thousand_events_of_one_pod_are_one_piece_of_news_and_eight_are_kept():
    world = World()
    world.put(SETS, statefulset())
    world.put(PODS, pod(main={"state": {"waiting": {"reason": "ContainerCreating"}}}))
    world.take()
    for n in range(10_000):
        world.put(EVENTS, at(20 + n, event("FailedMount", f"try {n}", name=f"e{n}")))
    found = only(world)
    assert found.reason == Reason.VOLUME
    told = {one["message"] for one in found.detail["events"]}
    assert told
    assert told <= {f"try {n}" for n in range(9_992, 10_000)}
    assert sum(len(rows) for rows in world._events.values()) == 8


def foreign(name: str, gpus: int, *, node: str = "node1", phase: str = "Running") -> dict:
    asked = {"requests": {"cpu": "1", "nvidia.com/gpu": str(gpus)}} if gpus else {}
    return {
        "metadata": {"name": name, "namespace": "theirs"},
        "spec": {"nodeName": node, "containers": [{"name": "c", "resources": asked}]},
        "status": {"phase": phase},
    }


def held(world: World) -> dict | None:
    changes = world.take_nodes()
    return None if changes is None else {n.name: n.held for n in changes.seen}


def test_devices_of_pods_that_are_not_ours_are_counted_by_node():
    world = World()
    listed(world, NODES, [node()])
    assert held(world) == {"node1": None}  # not known yet
    listed(world, OTHERS, [foreign("a", 2), foreign("b", 0), foreign("c", 1, node="")])
    assert held(world) == {"node1": {"nvidia.com/gpu": 2}}
    world.put(OTHERS, at(20, foreign("c", 1)))  # it was placed
    assert held(world) == {"node1": {"nvidia.com/gpu": 3}}
    world.put(OTHERS, at(21, foreign("b", 0)))
    assert held(world) is None
    world.put(OTHERS, at(22, foreign("a", 2, phase="Succeeded")))
    world.drop(OTHERS, at(23, foreign("c", 1)))
    assert held(world) == {"node1": {}}
    listed(world, OTHERS, [foreign("d", 4)])
    assert held(world) == {"node1": {"nvidia.com/gpu": 4}}
    listed(world, OTHERS, [])
    assert held(world) == {"node1": {}}


def test_initial_containers_hold_what_is_most():
    one = foreign("a", 1)
    one["spec"]["initContainers"] = [{"resources": {"requests": {"nvidia.com/gpu": "3"}}}]
    world = World()
    listed(world, NODES, [node()])
    listed(world, OTHERS, [one])
    assert held(world) == {"node1": {"nvidia.com/gpu": 3}}
