"""Every word by which Kueue 0.19 holds something back: its reason, its numbers, its sentence."""

from __future__ import annotations

from typing import Any

import pytest

from queues.words import sentence
from runtime.drivers.kubernetes.queued import Queued, in_queue
from runtime.reasons import Reason

OWN = "berth"
LACKS = (
    "couldn't assign flavors to pod set main: insufficient unused quota for nvidia.com/gpu in flavor"
    " berth-h100-80, 1 more needed, insufficient unused quota for nvidia.com/gpu in flavor"
    " berth-a100-40, 2 more needed, untolerated taint {berth.dev/devices NoSchedule <nil>} in"
    " flavor berth-plain"
)
LARGE = (
    "couldn't assign flavors to pod set main: insufficient quota for nvidia.com/gpu in flavor"
    " berth-h100-80, previously considered podsets requests (0) + current podset request (16) >"
    " maximum capacity (8)"
)
IN_USE = "What it asks for is in use, or kept for others"
PLAIN = "What it asks for is in use, or kept for others."
NOT_YET = "It stands in line; the queue has not looked at it yet."
UNKNOWN = "The cluster's queue holds it back; what for is not known."


def workload(word: str, text: str = "", *others: dict[str, Any], **status: Any) -> dict[str, Any]:
    quota = {"type": "QuotaReserved", "status": "False", "reason": word, "message": text}
    return {"status": {"conditions": [quota, *others], **status}}


TABLE = [
    ("WaitingForQuota", LACKS, Reason.QUEUED, f"{IN_USE}: 1 GPU (h100-80) or 2 GPUs (a100-40) must get free."),
    ("WaitingForQuota", "Workload no longer fits after processing another workload", Reason.QUEUED, PLAIN),
    (
        "WaitingForQuota",
        "insufficient unused quota for memory in flavor berth-plain, 2Gi more needed",
        Reason.QUEUED,
        f"{IN_USE}: 2Gi memory (plain) must get free.",
    ),
    (
        "WaitingForPreemptedWorkloads",
        f"{LACKS}. Pending the preemption of 2 workload(s)",
        Reason.RECLAIMING,
        "2 that hold what it needs were told to end for it: it starts as soon as all are gone.",
    ),
    (
        "WaitingForPreemptedWorkloads",
        "Workload has overlapping preemption targets with another workload, but will fit after",
        Reason.RECLAIMING,
        "Others end for it: it starts as soon as they are gone.",
    ),
    ("ExceedsMaxQuota", LARGE, Reason.DOES_NOT_FIT, "It asks for 16 GPUs (h100-80); its project may hold 8 of it there at most."),
    (
        "NoMatchingFlavor",
        "resource example.com/odd unavailable in ClusterQueue",
        Reason.DOES_NOT_FIT,
        "No kind of device in the cluster's queue is one that it may get.",
    ),
    (
        "TopologyPlacementFailed",
        'topology "default" allows to fit only 6 out of 8 pod(s)',
        Reason.QUEUED,
        "Enough may be free, but not as near to each other as it asks for.",
    ),
    ("Misconfigured", "LocalQueue default doesn't exist", Reason.NO_QUEUE, ""),
    ("Misconfigured", "ClusterQueue berth-a is terminating or missing", Reason.NO_QUEUE, ""),
    ("Misconfigured", "resources didn't satisfy LimitRange constraints", Reason.DENIED, ""),
    ("Suspended", "LocalQueue default is stopped", Reason.NO_QUEUE, ""),
    ("Suspended", "ClusterQueue berth-a is inactive", Reason.NO_QUEUE, ""),
    ("PendingEvaluation", "Workload is pending evaluation in the scheduling queue", Reason.QUEUED, NOT_YET),
    (
        "WaitingForPodsReady",
        "waiting for all admitted workloads to be in PodsReady condition",
        Reason.QUEUED,
        "The cluster's queue waits until what it let in before is ready.",
    ),
    ("OnHold", "StatefulSet scaled to zero; workload on hold", Reason.QUEUED, "It is being put in line again."),
    ("AdmissionGated", "Admission is gated by: theirs", Reason.ON_HOLD, ""),
    ("Deactivated", "The workload is deactivated", Reason.ON_HOLD, ""),
    # what is said of many at once, without their numbers
    (
        "WaitingForQuota",
        "Bypassed scheduling evaluation because an equivalent workload recently failed",
        Reason.QUEUED,
        PLAIN,
    ),
    # a Kueue that has fewer words
    ("Pending", LACKS, Reason.QUEUED, f"{IN_USE}: 1 GPU (h100-80) or 2 GPUs (a100-40) must get free."),
    ("Pending", f"{LACKS}. Pending the preemption of 1 workload(s)", Reason.RECLAIMING, "1 that holds what it needs was told to end for it: it starts as soon as that is gone."),
    ("Pending", LARGE, Reason.DOES_NOT_FIT, "It asks for 16 GPUs (h100-80); its project may hold 8 of it there at most."),
    ("Pending", f"{LARGE}, insufficient unused quota for nvidia.com/gpu in flavor b, 1 more needed", Reason.QUEUED, f"{IN_USE}: 1 GPU (b) must get free."),
    ("Waiting", "waiting for all admitted workloads", Reason.QUEUED, "The cluster's queue waits until what it let in before is ready."),
    ("Inadmissible", "LocalQueue q doesn't exist", Reason.NO_QUEUE, ""),
    ("Inadmissible", "resources didn't satisfy LimitRange constraints", Reason.DENIED, ""),
    # one that has more
    ("SomethingNew", "its words", Reason.QUEUED, f"{UNKNOWN} its words"),
]  # fmt: skip


@pytest.mark.parametrize(("word", "text", "reason", "said"), TABLE)
def test_c14_each_word_of_the_queue_has_its_reason_and_its_sentence(
    word: str, text: str, reason: Reason, said: str
) -> None:
    found = in_queue(workload(word, text), OWN)
    assert (found.reason, found.text) == (reason, text)
    assert sentence(found.line) == said


def test_what_it_lacks_is_told_by_kind_as_berth_calls_it() -> None:
    line = in_queue(workload("WaitingForQuota", LACKS), OWN).line
    assert [list(one) for one in line["lacks"]] == [
        ["h100-80", "nvidia.com/gpu", "1"],
        ["a100-40", "nvidia.com/gpu", "2"],
    ]


def test_of_several_kinds_those_that_are_there_and_their_devices_say_what_it_may_have() -> None:
    def of(what: str, flavor: str, asked: str, top: str) -> str:
        considered = "previously considered podsets requests (0) + current podset request"
        return (
            f"insufficient quota for {what} in flavor {flavor}, {considered} ({asked}) >"
            f" maximum capacity ({top})"
        )

    told = [
        of("cpu", "berth-a100-40", "10m", "0"),
        of("cpu", "berth-h100-80", "900", "4"),
        of("nvidia.com/gpu", "berth-h100-80", "9", "4"),
    ]
    found = in_queue(workload("ExceedsMaxQuota", ", ".join(told)), OWN)
    said = sentence(found.line)
    assert said == "It asks for 9 GPUs (h100-80); its project may hold 4 of it there at most."


def test_what_was_not_ready_in_time_is_told_with_when_it_is_tried_again() -> None:
    put_back = {
        "type": "Requeued",
        "status": "False",
        "reason": "PodsReadyTimeout",
        "message": "Exceeded the PodsReady timeout ns/a",
    }
    at = "2026-11-26T10:00:00Z"
    found = in_queue(
        workload("PendingEvaluation", "waits", put_back, requeueState={"count": 1, "requeueAt": at})
    )
    assert (found.reason, found.line["again_at"]) == (Reason.QUEUED, at)
    assert sentence(found.line).startswith("It was not ready in time")


@pytest.mark.parametrize("why", ["RequeuingLimitExceeded", "MaximumExecutionTimeExceeded"])
def test_what_the_queue_gave_up_says_so(why: str) -> None:
    evicted = {"type": "Evicted", "status": "True", "reason": f"DeactivatedDueTo{why}"}
    found = in_queue(workload("Deactivated", "The workload is deactivated", evicted))
    assert found.reason == Reason.ON_HOLD
    assert sentence(found.line).startswith("The cluster's queue ")


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("UnsatisfiedAdmissionChecks", "something else that must agree"),
        ("UnsatisfiedChecks", "something else that must agree"),
        ("PendingDelayedTopologyRequests", "its nodes are being chosen"),
        ("NoReservation", "has not looked at it yet"),
    ],
)
def test_what_has_its_quota_and_is_not_let_in_yet_says_for_what_it_waits(
    word: str, said: str
) -> None:
    reserved = {"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved"}
    admitted = {"type": "Admitted", "status": "False", "reason": word, "message": "m"}
    found = in_queue({"status": {"conditions": [reserved, admitted]}})
    assert found.reason == Reason.QUEUED
    assert said in sentence(found.line)


def test_what_was_let_in_is_held_by_nothing() -> None:
    said = {"type": "QuotaReserved", "status": "True", "reason": "QuotaReserved", "message": "in"}
    assert in_queue({"status": {"conditions": [said]}}) == Queued()
    assert in_queue({}) == Queued()
