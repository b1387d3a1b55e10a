"""What runs to its end: a Job of one pod, or an indexed Job whose pods meet (a group).

It stays as the record of how it ended. A stop does not suspend the Job, because Kueue would let it
go on: its Workload is made inactive, so that it leaves the line and nobody gives way to it. Where
that is not ours to do the Job itself is the net: one that runs gets a deadline that is over (the
Job controller then ends its pods with their own grace), and one that waits is put into a queue that
does not exist. Both are one write, with the note of how it ended.
"""

import contextlib
import json
import time
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from runtime.drivers.kubernetes import names, observe_job, queues
from runtime.drivers.kubernetes import observe as seeing
from runtime.drivers.kubernetes.builders import pod_fields, workload
from runtime.drivers.kubernetes.builders.workload import template
from runtime.drivers.kubernetes.client import Object
from runtime.drivers.kubernetes.ending import ENDING, end_pods
from runtime.drivers.kubernetes.observe import Sight
from runtime.drivers.kubernetes.options import KubernetesOptions
from runtime.drivers.kubernetes.shapes.base import Hands, Pod, firsts
from runtime.protocol import Denied, InvalidSpec, NotYet, Observation
from runtime.spec import RetryPolicy, WorkloadSpec
from runtime.training import BESIDE

VERSION, PLURAL, KIND = "batch/v1", "jobs", "Job"


# --- what is asked for ----------------------------------------------------------------------------
def build(
    spec: WorkloadSpec, options: KubernetesOptions, *, files: bool = False
) -> list[dict[str, Any]]:
    """A lost node or an eviction costs no attempt; some exit codes end it at once.

    A queue holds it by ``suspend``, which Kueue sets when it is made.
    """
    if any(group.role in BESIDE for group in spec.groups):
        raise InvalidSpec("A Job's replicas are all alike: no parameter servers, no evaluator.")
    meta, pod_labels = workload.head(spec, options)
    made = {
        "apiVersion": VERSION,
        "kind": KIND,
        "metadata": meta,
        "spec": {
            **bounds(spec),
            **endings(spec),
            "template": template(spec, options, labels=pod_labels, files=files),
        },
    }
    if spec.is_group:
        meta["annotations"][names.ROLE] = observe_job.roles_said(spec.groups)
    meeting = pod_fields.meeting(workload.own(spec, options)) if spec.is_group else []
    return [*meeting, made]


def endings(spec: WorkloadSpec) -> dict[str, Any]:
    """Return which ends are tried again, and when the next pod is made."""
    return {
        "podFailurePolicy": {"rules": _rules(spec.retry)},
        "podReplacementPolicy": "Failed",
    }


def bounds(spec: WorkloadSpec) -> dict[str, Any]:
    """Each replica of a group has its attempts; the first that used them up ends all."""
    again = max(0, spec.retry.attempts - 1)
    count = {"completions": spec.replicas, "parallelism": spec.replicas}
    if not spec.is_group:
        return {"backoffLimit": again, **count}
    limits = {"backoffLimitPerIndex": again, "maxFailedIndexes": 0}
    return {**count, **limits, "completionMode": "Indexed"}


def _rules(policy: RetryPolicy) -> list[dict[str, Any]]:
    disrupted = {"status": "True", "type": "DisruptionTarget"}
    # First: a program that is moved ends by SIGTERM with a code of its own.
    rules: list[dict[str, Any]] = [{"action": "Ignore", "onPodConditions": [disrupted]}]
    for operator, codes in (("In", policy.never), ("NotIn", policy.on)):
        if values := sorted({*codes} - {0}):
            final = {"containerName": names.MAIN, "operator": operator, "values": values}
            rules.append({"action": "FailJob", "onExitCodes": final})
    return rules


# --- what is there --------------------------------------------------------------------------------
def pods(owner: Mapping[str, Any], pods: Iterable[Pod]) -> list[Pod | None]:
    meta = owner["metadata"]
    mine = [p for p in pods if (p["metadata"].get("labels") or {}).get(names.JOB) == meta["name"]]
    if not observe_job.is_group(owner):
        return [observe_job.newest(owner, mine)]
    of: dict[int, list[Pod]] = defaultdict(list)
    for pod in mine:
        of[observe_job.index_of(pod)].append(pod)
    return [observe_job.newest(owner, of[number]) for number in range(observe_job.size_of(owner))]


def observe(sights: Sequence[Sight]) -> Observation:
    if observe_job.is_group(sights[0].owner):
        return observe_job.judge_group(sights)
    return observe_job.judge(sights[0])


def beside(owner: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    if not observe_job.is_group(owner):
        return []
    return [
        (version, plural, str(owner["metadata"]["name"])) for version, plural in pod_fields.KINDS
    ]


# --- what is done ---------------------------------------------------------------------------------
def must_write(hands: Hands, owner: Object, spec: WorkloadSpec) -> bool:
    if owner["metadata"].get("deletionTimestamp"):
        raise NotYet(ENDING, retry_in=0.3)
    if seeing.launch_of(owner) >= spec.launch:
        return False
    stop(hands, owner, grace_s=spec.stop_grace_s)
    # A Job can't be changed into another one: the next launch is a new one of its name.
    remove(hands, owner)
    raise NotYet(ENDING, retry_in=0.2)


def stop(hands: Hands, owner: Object, *, grace_s: float) -> None:
    """NotYet until no pod of it runs and none can come any more."""
    if owner["metadata"].get("deletionTimestamp"):
        raise NotYet(ENDING, retry_in=0.5)
    found = [p for p in hands.pods(owner) if names.JOB in (p["metadata"].get("labels") or {})]
    is_over, own_end = observe_job.is_finished(owner), _own_end(owner, pods(owner, found))
    if not (is_over or own_end) and names.QUEUE in (owner["metadata"].get("labels") or {}):
        with contextlib.suppress(Denied, NotYet):  # a Kueue of others, or none any more
            queues.hold(hands.client, owner)
    if seeing.note_of(owner).get("launch") != seeing.launch_of(owner):
        _end(hands, owner, found)
    alive = [pod for pod in found if not observe_job.is_over(pod)]
    end_pods(hands.client, alive, grace_s)
    if not (is_over or observe_job.is_suspended(owner)):
        raise NotYet(ENDING, retry_in=0.3)  # a pod may just be made


def _end(hands: Hands, owner: Object, found: list[Object]) -> None:
    """Note how it ended, keep the end of its log, and let no pod come any more."""
    its = pods(owner, found)
    end = _own_end(owner, its)
    hands.logs.keep(owner, its, firsts(pods, owner, found))
    note = {"launch": seeing.launch_of(owner), "at": time.time(), "reason": "stopped"}
    text = json.dumps({**note, **end}, separators=(",", ":"))
    change: dict[str, Any] = {"metadata": {"annotations": {names.ENDED: text}}}
    if not end:
        # Of what waits, too: Kueue may let in once more what it has just put out.
        change["spec"] = {"activeDeadlineSeconds": 1}
        if observe_job.is_suspended(owner):
            change["metadata"]["labels"] = {names.QUEUE: names.OVER}
    meta = owner["metadata"]
    hands.client.patch(VERSION, PLURAL, meta["name"], meta["namespace"], change)


def _own_end(owner: Object, its: Sequence[Object | None]) -> Mapping[str, Any]:
    """Return how it ended by itself; nothing where it did not."""
    if observe_job.is_group(owner):
        return observe_job.note_group(owner, its)
    return observe_job.note(owner, its[0])


def remove(hands: Hands, owner: Object) -> None:
    """Take it away with what lies beside it, the Job last: it leads to the rest."""
    meta = owner["metadata"]
    for version, plural, name in beside(owner):
        hands.client.delete(version, plural, name, meta["namespace"])
    hands.client.delete(VERSION, PLURAL, meta["name"], meta["namespace"], uid=meta["uid"])
