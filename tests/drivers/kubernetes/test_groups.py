"""Replicas that meet: what is asked for word for word, what they are together, what is written."""

import json
from dataclasses import replace

import pytest

from runtime.drivers.kubernetes import names, observe_job
from runtime.drivers.kubernetes.builders import workload
from runtime.drivers.kubernetes.builders.pod_fields import is_meeting
from runtime.drivers.kubernetes.observe import Sight
from runtime.drivers.kubernetes.options import KubernetesOptions
from runtime.drivers.kubernetes.pruning import small_job, small_pod
from runtime.drivers.kubernetes.shapes import job as shape
from runtime.protocol import InvalidSpec, NotYet, Seen
from runtime.reasons import Reason
from runtime.spec import PodGroup, Resources, RetryPolicy
from tests.drivers.kubernetes.goldens import check
from tests.drivers.kubernetes.pieces import LATER, UID, built, ended, pod, runs
from tests.drivers.kubernetes.stub import remove
from tests.drivers.kubernetes.test_builders import spec as described
from tests.drivers.local.harness import wait_for

OPTIONS = KubernetesOptions()
JOBS, PODS, SECRETS = "/apis/batch/v1/jobs", "/api/v1/pods", "/api/v1/secrets"
SERVICES = "/api/v1/services"
POLICIES = "/apis/networking.k8s.io/v1/networkpolicies"


def work(replicas=3, **options):
    defaults = {
        "kind": "job",
        "once": True,
        "command": ("torchrun", "train.py"),
        "groups": (PodGroup("worker", replicas),),
        "probe": None,
        "resources": Resources(cpu_milli=1000, memory_mib=512),
    }
    return described(**{**defaults, **options})


# --- what is asked for ----------------------------------------------------------------------------


def test_a_group():
    given = work(queue="team-a", priority="urgent", retry=RetryPolicy(2, on=(75,), never=(2,)))
    check("group", *workload.secrets(given, OPTIONS, {}), *shape.build(given, OPTIONS))


def test_one_alone_is_told_its_place_where_it_asks_and_else_is_as_it_was():
    alone, asked = work(1), work(1, groups=(PodGroup(meets=True),))
    assert "completionMode" not in built(alone)["spec"]
    assert len(shape.build(alone, OPTIONS)) == 1
    assert built(asked)["spec"]["completionMode"] == "Indexed"
    assert len(shape.build(asked, OPTIONS)) == 3


def test_only_a_job_has_replicas_and_all_are_alike():
    with pytest.raises(InvalidSpec):
        built(work(once=False))
    with pytest.raises(InvalidSpec):
        built(work(groups=(PodGroup("chief"), PodGroup("ps", 2))))


@pytest.mark.parametrize(
    ("policy", "limit", "codes"),
    [
        (RetryPolicy(), 0, []),
        (RetryPolicy(3), 2, []),
        (RetryPolicy(3, never=(4, 3, 0)), 2, [("In", [3, 4])]),
        (RetryPolicy(2, on=(1,), never=(2,)), 1, [("In", [2]), ("NotIn", [1])]),
    ],
)
def test_a_persons_exit_codes_are_their_own(policy, limit, codes):
    made = built(work(1, retry=policy))
    rules = made["spec"]["podFailurePolicy"]["rules"]
    assert made["spec"]["backoffLimit"] == limit
    assert rules[0]["action"] == "Ignore"  # what was moved is no end
    told = [(r["onExitCodes"]["operator"], r["onExitCodes"]["values"]) for r in rules[1:]]
    assert told == codes
    read = observe_job.policy_of(small_job(made))
    assert [read.is_final(code) for code in range(1, 6)] == [
        policy.is_final(code) for code in range(1, 6)
    ]
    each = built(work(2, retry=policy))["spec"]
    assert (each["backoffLimitPerIndex"], each["maxFailedIndexes"]) == (limit, 0)


def test_the_policy_lets_only_its_own_pods_in_and_is_known_by_that():
    _service, policy, owner = shape.build(work(), OPTIONS)
    own = {"matchLabels": {names.UID: UID}}
    assert policy["spec"]["podSelector"] == own
    assert policy["spec"]["ingress"] == [{"from": [{"podSelector": own}]}]
    assert owner["spec"]["template"]["metadata"]["labels"][names.UID] == UID
    assert is_meeting(policy)
    wider = {**policy, "spec": {**policy["spec"], "ingress": [{"from": [{"podSelector": {}}]}]}}
    assert not is_meeting(wider)
    others = {**policy, "metadata": {**policy["metadata"], "labels": {names.UID: "another"}}}
    assert not is_meeting(others)


# --- what it is -----------------------------------------------------------------------------------


def job(replicas=3, *, over="", retry=None, suspend=False, note=None, launch=3):
    made = built(work(replicas, retry=retry or RetryPolicy(), launch=launch))
    made["metadata"] |= {"namespace": "ns", "name": "ws-k7", "uid": "job-1"}
    if note is not None:
        made["metadata"]["annotations"][names.ENDED] = json.dumps(note)
    made["spec"]["suspend"] = suspend
    made["status"] = {"conditions": [{"type": over, "status": "True"}] if over else []}
    return small_job(made)


def replica(number, *, tried=0, gone=False, launch=3, **more):
    made = pod(
        metadata={
            "name": f"ws-k7-{number}-abcde",
            "namespace": "ns",
            "uid": f"pod-{number}",
            "creationTimestamp": LATER,
            "labels": {names.UID: UID, names.JOB: "ws-k7", names.INDEX: str(number)},
            "annotations": {names.LAUNCH: str(launch), names.FAILURES: str(tried)},
            **({"deletionTimestamp": LATER, "deletionGracePeriodSeconds": 60} if gone else {}),
        },
        **more,
    )
    made["spec"]["containers"] = [{"name": "main"}]
    return small_pod(made)


def lives(number, **more):
    return replica(number, main=runs(), ready=True, **more)


def over(number, code, at=LATER, **more):
    phase = "Failed" if code else "Succeeded"
    main = ended(code, again=False, finishedAt=at)
    return replica(number, main=main, phase=phase, **more)


def waits_for_a_node(number):
    return replica(number, node="", phase="Pending")


EARLY = "2026-11-21T06:00:01Z"
TWICE = RetryPolicy(2)
TABLE = [
    # what, job, pods, seen, reason, exit code, each replica
    ("just made", job(), (), Seen.CREATED, Reason.SCHEDULING, None, "created created created"),
    (
        "as far as the last",
        job(),
        (lives(0), waits_for_a_node(1), lives(2)),
        Seen.CREATED,
        Reason.SCHEDULING,
        None,
        "ready created ready",
    ),
    ("all run", job(), map(lives, range(3)), Seen.READY, "", None, "ready ready ready"),
    (
        "one is done, the others run",
        job(),
        (lives(0), over(1, 0), lives(2)),
        Seen.READY,
        "",
        None,
        "ready exited ready",
    ),
    (
        "all are done, their Job does not know yet",
        job(),
        (over(0, 0), over(1, 0), over(2, 0)),
        Seen.EXITED,
        "",
        0,
        "exited exited exited",
    ),
    (
        "one failed for good: the others are still there",
        job(),
        (lives(0), over(1, 3), lives(2)),
        Seen.EXITED,
        "",
        3,
        "ready exited ready",
    ),
    (
        "the first that failed tells how",
        job(over="Failed"),
        (over(0, 7), over(1, 3, at=EARLY)),
        Seen.EXITED,
        "",
        3,
        "exited exited exited",
    ),
    (
        "who was taken down with it did not fail",
        job(over="FailureTarget"),
        (over(0, 143, at=EARLY, gone=True), over(1, 3), lives(2, gone=True)),
        Seen.EXITED,
        "",
        3,
        "exited exited stopping",
    ),
    (
        "one is tried again",
        job(retry=TWICE),
        (lives(0), over(1, 3), lives(2)),
        Seen.STARTING,
        Reason.TRIED_AGAIN,
        None,
        "ready starting ready",
    ),
    (
        "its attempts are used up",
        job(retry=TWICE),
        (lives(0), over(1, 3, tried=1), lives(2)),
        Seen.EXITED,
        "",
        3,
        "ready exited ready",
    ),
    (
        "a queue holds it",
        job(suspend=True),
        (),
        Seen.CREATED,
        Reason.QUEUED,
        None,
        "created created created",
    ),
    (
        "a queue puts it out",
        job(suspend=True),
        (over(0, 143, gone=True), lives(1, gone=True)),
        Seen.STARTING,
        Reason.PREEMPTED,
        None,
        "starting starting created",
    ),
    (
        "asked to end, not gone",
        job(note={"launch": 3, "reason": "stopped"}),
        (over(0, 143), lives(1)),
        Seen.STOPPING,
        "",
        None,
        "exited stopping exited",
    ),
    (
        "asked to end, gone",
        job(over="Failed", note={"launch": 3, "reason": "stopped", "at": 5.0}),
        (),
        Seen.EXITED,
        "stopped",
        None,
        "exited exited exited",
    ),
]


def sights(owner, pods, **more):
    return [Sight(owner, found, **more) for found in shape.pods(owner, list(pods))]


@pytest.mark.parametrize(
    ("owner", "pods", "seen", "reason", "code", "each"),
    [row[1:] for row in TABLE],
    ids=[row[0] for row in TABLE],
)
def test_every_state_of_a_group_has_one_reason(owner, pods, seen, reason, code, each):
    found = shape.observe(sights(owner, pods))
    assert (found.seen, found.reason, found.exit_code) == (seen, str(reason), code)
    assert [str(r.seen) for r in found.replicas] == each.split()
    assert [(r.index, r.role) for r in found.replicas] == [(n, "worker") for n in range(3)]


def test_a_replica_says_where_it_is_and_how_it_ended():
    owner = job()
    found = shape.observe(sights(owner, (lives(0), over(1, 3), over(2, 137, reason="Evicted"))))
    first, second, third = found.replicas
    assert (first.node, first.pod, first.exit_code) == ("node1", "ws-k7-0-abcde", None)
    assert (second.exit_code, second.started_at < second.ended_at) == (3, True)
    assert third.seen == Seen.STARTING  # its node threw it out: another one comes


def test_g13_one_on_a_silent_node_hides_no_other_that_was_taken_away():
    first, second, third = sights(job(), (replica(0, main=runs()), lives(1), lives(2)))
    silent = replace(first, node_ready=False)
    found = shape.observe([silent, second, third])
    assert (found.reason, found.detail["silent"]) == (Reason.NODE_LOST, True)
    taken = replace(third, pod=over(2, 137, reason="Evicted"))
    found = shape.observe([silent, second, taken])
    assert (found.reason, found.detail["silent"]) == (Reason.EVICTED, False)


def test_a_pod_of_another_launch_or_number_counts_for_nobody():
    pods = [lives(0), lives(1, launch=2), lives(7)]
    found = shape.pods(job(), pods)
    assert [p and p["metadata"]["name"] for p in found] == ["ws-k7-0-abcde", None, None]


# --- what is written ------------------------------------------------------------------------------


def small(**options):
    more = {"uid": UID, "name": "k7", "namespace": "ns", "launch": 3, "mounts": ()}
    return work(**{**more, **options})


def writes(stub):
    return [p.rsplit("/", 2)[-2:] for m, p, _q in stub.seen if m != "GET"]


def full(number, **more):
    """As an API server has it."""
    made = lives(number, **more)
    made["metadata"]["labels"] |= names.labels("berth-", "", uid=UID, kind="job")
    made["spec"] |= {"terminationGracePeriodSeconds": 10}
    return made


def test_a_launch_is_two_writes_more_and_what_owns_the_pods_is_the_last(stub, driver):
    driver.ensure(small())
    kinds = [kind for kind, _name in writes(stub)]
    assert kinds == ["secrets", "services", "networkpolicies", "jobs"]
    driver.ensure(small())
    assert len(writes(stub)) == 4


def test_each_replica_is_seen_when_looked_at_and_when_watched(stub, driver):
    driver.ensure(small())
    for number in range(3):
        stub.put(PODS, full(number))
    found = driver.observe([UID])[UID]
    assert (found.seen, [r.seen for r in found.replicas]) == (Seen.READY, [Seen.READY] * 3)
    over = []
    watch = (batch for batch in driver.watch(stop=lambda: bool(over)) if batch is not None)
    (listed,) = next(watch)
    assert replace(listed, version=0) == replace(found, version=0)
    stub.drop(PODS, "ns", "ws-k7-1-abcde")
    seen = wait_for(lambda: next((o for o in next(watch) if o.seen != Seen.READY), None))
    assert [str(r.seen) for r in seen.replicas] == ["ready", "starting", "ready"]
    over.append(1)


def test_a_stop_ends_all_and_removal_leaves_nothing(stub, driver):
    driver.ensure(small())
    for number in range(3):
        stub.put(PODS, full(number))
    with pytest.raises(NotYet):
        driver.stop(UID, grace_s=30)
    made = stub.objects[JOBS, "ns/ws-k7"]
    assert made["spec"]["activeDeadlineSeconds"] == 1
    for number in range(3):
        stub.drop(PODS, "ns", f"ws-k7-{number}-abcde")
    made["status"] = {"conditions": [{"type": "Failed", "status": "True"}]}
    stub.put(JOBS, made)
    driver.stop(UID, grace_s=30)
    found = driver.observe([UID])[UID]
    assert (found.seen, found.reason) == (Seen.EXITED, "stopped")
    remove(driver, UID)
    ours = (JOBS, PODS, SECRETS, SERVICES, POLICIES)
    assert [key for key in stub.objects if key[0] in ours] == []


def test_a_failed_one_notes_how_and_the_next_launch_may_be_one_alone(stub, driver):
    driver.ensure(small())
    stub.put(PODS, full(0))
    failed = over(1, 3)
    failed["metadata"]["labels"] |= names.labels("berth-", "", uid=UID, kind="job")
    failed["spec"] |= {"terminationGracePeriodSeconds": 10}
    stub.put(PODS, failed)
    assert driver.observe([UID])[UID].exit_code == 3
    with pytest.raises(NotYet):
        driver.stop(UID, grace_s=30)
    made = stub.objects[JOBS, "ns/ws-k7"]
    assert json.loads(made["metadata"]["annotations"][names.ENDED])["code"] == 3
    assert "activeDeadlineSeconds" not in made["spec"]  # the Job controller ends the others itself
    stub.drop(PODS, "ns", "ws-k7-0-abcde")
    made["status"] = {"conditions": [{"type": "Failed", "status": "True"}]}
    stub.put(JOBS, made)
    driver.stop(UID, grace_s=30)
    with pytest.raises(NotYet):
        driver.ensure(small(replicas=1, launch=4))
    assert [key for key in stub.objects if key[0] in (JOBS, SERVICES, POLICIES)] == []
    driver.ensure(small(replicas=1, launch=4))
    found = driver.observe([UID])[UID]
    assert (found.launch, found.replicas) == (4, ())


def test_what_a_job_that_somebody_removed_left_is_removed(stub, driver):
    driver.ensure(small())
    stub.drop(JOBS, "ns", "ws-k7")
    remove(driver, UID)
    assert [key for key in stub.objects if key[0] in (SERVICES, POLICIES, SECRETS)] == []


def test_removal_needs_no_right_to_services_where_there_never_was_a_group(stub, driver):
    driver.ensure(small(replicas=1))

    def refuse(handler, _method, path, _query):
        if "/services/" not in path:
            return False
        handler.send_error(403)
        return True

    stub.fault = refuse
    remove(driver, UID)
    assert driver.observe([UID])[UID].seen == Seen.MISSING
