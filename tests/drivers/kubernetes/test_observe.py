"""From objects to one true phase and one plain reason (C14)."""

import json

import pytest

from runtime.capabilities.clusters import NodeFacts
from runtime.drivers.kubernetes.answers import Answer, error_of
from runtime.drivers.kubernetes.nodes import could_fit
from runtime.drivers.kubernetes.observe import Sight, judge
from runtime.drivers.kubernetes.pruning import small_pod, small_set
from runtime.drivers.kubernetes.queued import Queued
from runtime.protocol import Denied, Seen, Unreachable
from runtime.reasons import REASONS, Reason
from tests.drivers.kubernetes.pieces import (
    AT,
    LATER,
    ended,
    event,
    pod,
    runs,
    statefulset,
    unschedulable,
    waits,
)

_PULL = 'Back-off pulling image "x/y:1": ErrImagePull: '
_NODES = "0/25 nodes are available: "
_TAIL = ". preemption: 0/25 nodes are available: 25 Preemption is not helpful for scheduling."


def seen(the_pod=None, *, events=(), **more):
    given = more.pop("statefulset", statefulset())
    return judge(Sight(given, the_pod, events, **more))


WAITING = [
    ("not made yet", None, (), Seen.CREATED, Reason.SCHEDULING),
    (
        "quota of objects",
        None,
        [event("FailedCreate", 'pods "x" is forbidden: exceeded quota: berth', kind="StatefulSet")],
        Seen.CREATED,
        Reason.QUOTA_DENIED,
    ),
    (
        "refused by a rule",
        None,
        [event("FailedCreate", "admission webhook denied the request", kind="StatefulSet")],
        Seen.CREATED,
        Reason.DENIED,
    ),
    (
        "a quota that nobody has counted yet",
        None,
        [
            event(
                "FailedCreate",
                'create Pod x failed error: pods "x" is forbidden: status unknown for quota:'
                " objects, resources: pods",
                kind="StatefulSet",
            )
        ],
        Seen.CREATED,
        Reason.SCHEDULING,
    ),
    (
        "two writers of one quota",
        None,
        [
            event(
                "FailedCreate",
                'Create Pod x failed error: Operation cannot be fulfilled on resourcequotas "q":'
                " the object has been modified; please apply your changes to the latest version",
                kind="StatefulSet",
            )
        ],
        Seen.CREATED,
        Reason.SCHEDULING,
    ),
    (
        "held by a queue",
        pod(
            node=None,
            conditions=[{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}],
        ),
        (),
        Seen.CREATED,
        Reason.QUEUED,
    ),
    (
        "no such GPU",
        unschedulable(
            _NODES
            + "24 node(s) didn't match Pod's node affinity/selector, 1 node(s) had untolerated"
            " taint(s)" + _TAIL
        ),
        (),
        Seen.CREATED,
        Reason.NO_SUCH_NODE,
    ),
    (
        "all taken",
        unschedulable(
            _NODES + "10 Insufficient nvidia.com/gpu, 15 node(s) didn't match Pod's node"
            " affinity/selector" + _TAIL
        ),
        (),
        Seen.CREATED,
        Reason.NODES_FULL,
    ),
    (
        "drained",
        unschedulable(_NODES + "25 node(s) were unschedulable" + _TAIL),
        (),
        Seen.CREATED,
        Reason.NODES_FULL,
    ),
    *(
        (f"storage: {said}", unschedulable(_NODES + said + _TAIL), (), Seen.CREATED, Reason.VOLUME)
        for said in (  # as the scheduler of 1.36 writes them
            "pod has unbound immediate PersistentVolumeClaims",
            'persistentvolumeclaim "home" not found',
            'persistentvolumeclaim "home" is being deleted',
            'persistentvolumeclaim "home" bound to non-existent persistentvolume "v"',
            "25 node(s) didn't find available persistent volumes to bind",
            "25 node(s) didn't match PersistentVolume's node affinity",
            "25 node(s) did not have enough free storage",
            "25 node(s) unavailable due to one or more pvc(s) bound to non-existent pv(s)",
            "25 node(s) had no available volume zone",
            "25 node(s) exceed max volume count",
            "25 node(s) had no available disk",
            (
                "25 node(s) unavailable due to PersistentVolumeClaim with ReadWriteOncePod access mode"
                " already in-use by another pod"
            ),
        )
    ),
    (
        "the node of its volume is full",
        unschedulable(
            _NODES + "1 Insufficient nvidia.com/gpu, 24 node(s) didn't match PersistentVolume's"
            " node affinity" + _TAIL
        ),
        (),
        Seen.CREATED,
        Reason.NODES_FULL,
    ),
    (
        "image missing",
        pod(main=waits("ImagePullBackOff", _PULL + "failed to resolve: x/y:1: not found")),
        (),
        Seen.STARTING,
        Reason.IMAGE_NOT_FOUND,
    ),
    (
        "image name impossible",
        pod(main=waits("InvalidImageName", "couldn't parse image name")),
        (),
        Seen.STARTING,
        Reason.IMAGE_NOT_FOUND,
    ),
    (
        "image private",
        pod(main=waits("ErrImagePull", "pull access denied, authorization failed")),
        (),
        Seen.STARTING,
        Reason.IMAGE_AUTH,
    ),
    (
        "registry away",
        pod(main=waits("ErrImagePull", "dial tcp: lookup r.example: no such host")),
        (),
        Seen.STARTING,
        Reason.IMAGE_UNREACHABLE,
    ),
    (
        "image for arm",
        pod(main=waits("ErrImagePull", "no match for platform in manifest: not found")),
        (),
        Seen.STARTING,
        Reason.IMAGE_PLATFORM,
    ),
    (
        "a back-off that says nothing, and the event before it",
        pod(main=waits("ImagePullBackOff", 'Back-off pulling image "x/y:1"')),
        [event("Failed", 'Failed to pull image "x/y:1": 401 Unauthorized')],
        Seen.STARTING,
        Reason.IMAGE_AUTH,
    ),
    (
        "being fetched",
        pod(main=waits("ContainerCreating")),
        [event("Pulling", typ="Normal")],
        Seen.STARTING,
        Reason.PULLING,
    ),
    (
        "fetched",
        pod(main=waits("ContainerCreating")),
        [event("Pulling", typ="Normal"), event("Pulled", typ="Normal", at=LATER)],
        Seen.STARTING,
        "",
    ),
    (
        "folder not there",
        pod(main=waits("ContainerCreating")),
        [event("FailedMount", "hostPath type check failed: /v/x is not a directory")],
        Seen.STARTING,
        Reason.VOLUME,
    ),
    (
        "a secret that is missing",
        pod(main=waits("CreateContainerConfigError", 'secret "ws-x" not found')),
        (),
        Seen.STARTING,
        Reason.CONFIG,
    ),
    ("runs, does not answer", pod(main=runs()), (), Seen.STARTING, Reason.PROGRAM),
    (
        "evicted",
        pod(main=runs(), phase="Failed", reason="Evicted", message="ephemeral-storage"),
        (),
        Seen.STARTING,
        Reason.EVICTED,
    ),
    (
        "preempted by the scheduler",
        pod(
            main=runs(),
            metadata={"deletionTimestamp": LATER},
            conditions=[{"type": "DisruptionTarget", "reason": "PreemptionByScheduler"}],
        ),
        (),
        Seen.STARTING,
        Reason.PREEMPTED,
    ),
    (
        "thrown off a lost node",
        pod(
            main=runs(),
            metadata={"deletionTimestamp": LATER},
            conditions=[{"type": "DisruptionTarget", "reason": "DeletionByTaintManager"}],
        ),
        (),
        Seen.STARTING,
        Reason.NODE_LOST,
    ),
    (
        "taken off a node that is emptied",
        pod(
            main=runs(),
            metadata={"deletionTimestamp": LATER},
            conditions=[{"type": "DisruptionTarget", "reason": "EvictionByEvictionAPI"}],
        ),
        (),
        Seen.STARTING,
        Reason.DRAINED,
    ),
    (
        "on a node that shuts down",
        pod(
            main=runs(),
            phase="Failed",
            reason="Terminated",
            message="Pod was terminated in response to imminent node shutdown.",
            conditions=[{"type": "DisruptionTarget", "reason": "TerminationByKubelet"}],
        ),
        (),
        Seen.STARTING,
        Reason.DRAINED,
    ),
    (
        "deleted with kubectl, and its program has ended by SIGTERM",
        pod(
            main=ended(143, again=False, finishedAt=LATER),
            phase="Failed",
            metadata={"deletionTimestamp": LATER, "deletionGracePeriodSeconds": 0},
        ),
        (),
        Seen.STARTING,
        Reason.REPLACED,
    ),
    (
        "deleted with kubectl",
        pod(main=runs(), ready=True, metadata={"deletionTimestamp": LATER}),
        (),
        Seen.STARTING,
        Reason.REPLACED,
    ),
]


@pytest.mark.parametrize(
    ("_why", "the_pod", "events", "state", "reason"), WAITING, ids=[w[0] for w in WAITING]
)
def test_c14_each_way_of_waiting_has_its_reason(_why, the_pod, events, state, reason):
    found = seen(the_pod, events=events)
    assert (found.seen, found.reason) == (state, reason)
    assert not found.address
    assert found.reason in set(REASONS)
    assert "\n" not in found.message


def test_ready_has_an_address_and_times():
    found = seen(pod(main=runs(), ready=True))
    assert (found.seen, found.address) == (Seen.READY, "10.244.0.7:8888")
    assert found.started_at < found.ready_at
    assert found.detail["node"] == "node1"
    assert found.detail["image_ready"]


def test_c14_a_node_that_does_not_answer():
    silent = seen(pod(main=runs()), node_ready=False)
    assert (silent.reason, silent.detail["silent"]) == (Reason.NODE_LOST, True)
    given_up = {"deletionTimestamp": AT, "deletionGracePeriodSeconds": 30}
    status = {"conditions": [{"type": "DisruptionTarget", "status": "True"}]}
    status["conditions"][0]["reason"] = "DeletionByTaintManager"
    lost = seen(pod(main=runs(), metadata=given_up, **status), node_ready=False)
    assert (lost.reason, lost.detail["silent"]) == (Reason.NODE_LOST, False)
    # Still marked ready a moment later than its node: what was true stays until it is not.
    assert seen(pod(main=runs(), ready=True), node_ready=False).seen == Seen.READY


@pytest.mark.parametrize(
    ("marks", "main", "words"),
    [
        (["example.com/b", "example.com/a"], ended(0, again=False), "example.com/a, example.com/b"),
        (["example.com/a"], runs(), ""),  # it still runs: the mark is not what is waited for
        (["batch.kubernetes.io/job-tracking"], ended(0, again=False), ""),
        ([], ended(0, again=False), ""),
    ],
)
def test_c14_a_mark_that_keeps_a_pod_which_somebody_deleted_is_named(marks, main, words):
    meta = {"deletionTimestamp": AT, "deletionGracePeriodSeconds": 30, "finalizers": marks}
    found = seen(pod(main=main, metadata=meta))
    assert (found.seen, found.reason) == (Seen.STARTING, Reason.REPLACED)
    assert found.message == (
        f"Its pod is over, but a finalizer keeps it: {words}." if words else ""
    )


def test_a_size_that_no_node_has_is_told_from_nodes_that_are_full():
    message = _NODES + "25 Insufficient nvidia.com/gpu" + _TAIL
    assert seen(unschedulable(message), could_fit=False).reason == Reason.NO_SUCH_NODE
    found = seen(unschedulable(message), could_fit=True)
    assert found.reason == Reason.NODES_FULL
    assert "nvidia.com/gpu (25)" in found.message


def test_what_the_queue_says_is_told():
    gated = [{"type": "PodScheduled", "status": "False", "reason": "SchedulingGated"}]
    found = seen(
        pod(node=None, conditions=gated),
        queued=Queued(text="insufficient quota for nvidia.com/gpu", line={"word": "Pending"}),
    )
    assert found.message == "insufficient quota for nvidia.com/gpu"
    assert found.detail["line"] == {"word": "Pending"}
    assert seen(pod(node=None)).detail["line"] is None


TAINT = {"key": "team", "value": "a", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("taints", "tolerations", "fits"),
    [
        ([], [], True),
        ([TAINT], [], False),
        ([TAINT], [{"key": "team", "operator": "Exists"}], True),
        ([TAINT], [{"key": "team", "value": "a"}], True),
        ([TAINT], [{"key": "team", "value": "b"}], False),
        ([TAINT], [{"operator": "Exists"}], True),
        ([{**TAINT, "effect": "PreferNoSchedule"}], [], True),
        ([{"key": "node.kubernetes.io/unschedulable", "effect": "NoSchedule"}], [], True),
    ],
)
def test_a_node_whose_taint_it_does_not_bear_is_none_that_could_hold_it(taints, tolerations, fits):
    node = NodeFacts(name="n", ready=True, cpu_milli=64_000, memory_mib=1024, taints=tuple(taints))
    main = {"name": "main", "resources": {"requests": {"cpu": "32"}}}
    made = statefulset()
    made["spec"]["template"]["spec"] = {"containers": [main], "tolerations": tolerations}
    spec = small_set(made)["spec"]["template"]["spec"]  # as it is kept
    assert could_fit(spec, [node]) is fits


def test_a_webhook_that_is_away_is_no_silent_cluster():
    text = 'Internal error occurred: failed calling webhook "mstatefulset.kb.io": no endpoints'
    body = json.dumps({"message": text}).encode()
    error = error_of(Answer("PATCH", 500, body))
    assert isinstance(error, Denied)
    assert (error.reason, text in str(error)) == (Reason.DENIED, True)
    assert isinstance(error_of(Answer("PATCH", 500, b"{}")), Unreachable)


ENDS = [
    ("an error", ended(3), 3, ""),
    ("an error, seen before the node starts it again", ended(3, again=False), 3, ""),
    ("well", ended(0, "Completed"), 0, ""),
    ("memory", ended(137, "OOMKilled"), 137, Reason.OOM),
    (
        "no such program",
        ended(128, "StartError", message='exec: "nope": executable file not found in $PATH'),
        128,
        Reason.COMMAND_NOT_FOUND,
    ),
    ("cannot start", ended(128, "StartError", message="odd"), 128, Reason.START_FAILED),
    (
        "no such program, as a wait",
        waits("RunContainerError", 'exec: "nope": executable file not found in $PATH'),
        127,
        Reason.COMMAND_NOT_FOUND,
    ),
]


@pytest.mark.parametrize(("_why", "main", "code", "reason"), ENDS, ids=[e[0] for e in ENDS])
@pytest.mark.parametrize("ready", [False, True])
def test_a_main_container_that_ended_is_over_for_this_launch(_why, main, code, reason, ready):
    found = seen(pod(main=main, ready=ready))
    assert (found.seen, found.exit_code, found.reason) == (Seen.EXITED, code, reason)
    assert found.address == ""


def test_a_container_that_the_nodes_own_restart_ended_is_not_over():
    again = ended(255, "Unknown")
    assert seen(pod(main=again, ready=True)).seen == Seen.READY


def test_c14_what_ends_because_its_pod_must_go_did_not_end_by_itself():
    """LATER is when it ended; the deletion was asked for ten seconds before it is due."""
    asked_before = {
        "deletionTimestamp": "2026-11-21T06:00:19Z",
        "deletionGracePeriodSeconds": 10,
    }
    deleted = pod(main=ended(0, "Completed", again=False), metadata=asked_before)
    assert (seen(deleted).seen, seen(deleted).reason) == (Seen.STARTING, Reason.REPLACED)
    asked_after = {**asked_before, "deletionTimestamp": "2026-11-21T06:00:45Z"}
    failed = pod(main=ended(3, again=False), metadata=asked_after)
    assert (seen(failed).seen, seen(failed).exit_code) == (Seen.EXITED, 3)


def test_c14_an_eviction_is_one_although_its_containers_ended_too():
    evicted = pod(main=ended(137, again=False), phase="Failed", reason="Evicted", message="disk")
    assert (seen(evicted).seen, seen(evicted).reason) == (Seen.STARTING, Reason.EVICTED)


def test_a_later_launch_is_not_blamed_for_the_end_of_an_older_one():
    found = seen(pod(main=ended(3), launch=1), statefulset=statefulset(launch=2))
    assert found.seen != Seen.EXITED
    assert found.launch == 2


def test_how_it_ended_outlives_its_pod():
    note = json.dumps({"launch": 4, "code": 137, "reason": "oom", "at": 5.0, "message": "m"})
    found = seen(statefulset=statefulset(replicas=0, launch=4, ended=note))
    assert (found.seen, found.exit_code, found.reason) == (Seen.EXITED, 137, "oom")
    assert found.ended_at == 5.0


@pytest.mark.parametrize("note", [None, "not json", "[]", '{"launch": 3, "code": 1}'])
def test_an_end_that_nobody_noted_is_an_end_all_the_same(note):
    found = seen(statefulset=statefulset(replicas=0, launch=4, ended=note))
    assert (found.seen, found.exit_code) == (Seen.EXITED, None)


def test_it_is_stopping_until_its_pod_is_gone():
    stopped = statefulset(replicas=0)
    assert seen(pod(main=runs(), ready=True), statefulset=stopped).seen == Seen.STOPPING
    removed = statefulset(deletionTimestamp=LATER)
    assert seen(None, statefulset=removed).seen == Seen.STOPPING


def test_the_successor_is_told_why_its_pod_went():
    found = seen(None, interrupted=(Reason.PREEMPTED, "by a job"))
    assert (found.seen, found.reason) == (Seen.STARTING, Reason.PREEMPTED)
    full = unschedulable(_NODES + "25 Insufficient nvidia.com/gpu")
    found = seen(full, interrupted=(Reason.PREEMPTED, ""))
    assert found.reason == Reason.NODES_FULL  # what holds it up now is more useful


def test_the_last_warnings_are_kept_for_the_page():
    rows = [event("W", str(n), at=f"2026-11-21T06:00:{n:02}Z") for n in range(9)]
    found = seen(pod(main=waits("ContainerCreating")), events=rows)
    assert [e["message"] for e in found.detail["events"]] == ["8", "7", "6", "5", "4"]
    assert json.loads(json.dumps(found.detail)) == found.detail


def test_of_a_fetch_it_is_told_since_when_and_nothing_once_it_is_over():
    made = pod(main=waits("ContainerCreating"))
    first = event("Pulling", typ="Normal")
    assert seen(made, events=[first]).detail["pull"] == {"since": 1795240800.0}
    again = event("Pulling", typ="Normal", at=LATER)  # the same event, after a try that failed
    assert seen(made, events=[again]).detail["pull"] == {"since": 1795240809.0}
    over = event("Pulled", typ="Normal", at=LATER)
    assert seen(made, events=[first, over]).detail["pull"] is None


def test_a_pod_that_is_on_no_node_yet_names_none() -> None:
    """As the watch keeps it; a null reads as a name on some databases."""
    assert seen(small_pod(pod(node=None))).detail["node"] == ""
