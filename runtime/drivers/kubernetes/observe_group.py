"""What a group is, from its Job and the newest pod of each of its replicas. Pure.

The rules, beside those of a Job of one (``observe_job``):

* it is as far as the replica that is least far; who has ended well waits for the others;
* it has ended when all have ended well, or when one has failed for good: how the first of these
  ended is how the whole did, and the Job controller takes the others down.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from runtime.drivers.kubernetes import names, observe, observe_job, waiting
from runtime.drivers.kubernetes.observe import Found, Object, Sight
from runtime.protocol import Observation, ReplicaSeen, Seen

_STOPPED = "stopped"  # it did not end by itself
_FAR = (Seen.MISSING, Seen.CREATED, Seen.STARTING, Seen.READY, Seen.STOPPING, Seen.EXITED)


def is_group(owner: Object) -> bool:
    return (owner.get("spec") or {}).get("completionMode") == "Indexed"


def size_of(owner: Object) -> int:
    return int((owner.get("spec") or {}).get("completions") or 1)


def index_of(pod: Object) -> int:
    """Return the number of the replica that the pod is; 0 for one that has none."""
    text = str((pod["metadata"].get("labels") or {}).get(names.INDEX, "0"))
    return int(text) if text.isdigit() else 0


def judge(sights: Sequence[Sight]) -> Observation:
    """Return the observation of the whole, with each replica's own."""
    job, first = sights[0].owner, sights[0]
    each = [_replica(sight) for sight in sights]
    whole, at = _whole(sights, each)
    # Always the same pod, or it would look as if another had taken its place.
    told = observe.told(replace(first, events=sights[at].events), whole)
    role = str((job["metadata"].get("annotations") or {}).get(names.ROLE, "")) or "main"
    replicas = tuple(
        ReplicaSeen(
            index=number,
            role=role,
            seen=found.seen,
            exit_code=found.exit_code,
            reason=str(found.reason),
            node=str(((sight.pod or {}).get("spec") or {}).get("nodeName") or ""),
            pod=str(sight.pod["metadata"]["name"]) if sight.pod is not None else "",
            started_at=found.started_at,
            ended_at=found.ended_at,
        )
        for number, (sight, found) in enumerate(zip(sights, each, strict=True))
    )
    return replace(told, replicas=replicas)


def note(job: Object, pods: Sequence[Object | None]) -> dict[str, Any]:
    """Return how the whole ended, for the annotation; {} when it is ended now."""
    end = _end(job, [None if pod is None else observe_job.own_end(pod) for pod in pods], pods)
    return {} if end is None else observe.as_note(end)


def _whole(sights: Sequence[Sight], each: Sequence[Found]) -> tuple[Found, int]:
    """Return what the whole is, and the number of the replica that it follows from."""
    job = sights[0].owner
    launch = observe.launch_of(job)
    if observe.note_of(job).get("launch") == launch:
        left = next((s.pod for s in sights if s.pod and not observe_job.is_over(s.pod)), None)
        return observe.written_end(replace(sights[0], pod=left), launch), 0
    if observe_job.is_suspended(job) and not observe_job.is_finished(job):
        held = [observe_job.held(sight) for sight in sights]
        at = max(range(len(held)), key=lambda n: _FAR.index(held[n].seen))
        return held[at], at
    pods = [sight.pod for sight in sights]
    ends = [None if pod is None else observe_job.own_end(pod) for pod in pods]
    if (end := _end(job, ends, pods)) is not None:
        return end, 0
    at = min(range(len(each)), key=lambda n: _FAR.index(each[n].seen))
    if each[at].seen is not Seen.READY:
        return each[at], at
    running = [found for found in each if found.seen is Seen.READY]
    ready = max((found.ready_at or 0.0 for found in running), default=0.0)
    return replace(each[at], address=each[0].address, ready_at=ready or None), at


def _replica(sight: Sight) -> Found:
    job, pod = sight.owner, sight.pod
    told_to_end = observe.note_of(job).get("launch") == observe.launch_of(job)
    is_ending = told_to_end or observe_job.is_failing(job) or observe_job.is_complete(job)
    end = None if pod is None else observe_job.own_end(pod)
    if pod is not None and end is not None and (is_ending or _is_last(job, pod, end)):
        taken = observe.is_deleted(pod) and end.exit_code
        return replace(end, reason=_STOPPED) if taken else end
    if not is_ending:
        return observe_job.alive(sight)
    is_gone = pod is None or observe_job.is_over(pod)
    return Found(Seen.EXITED, _STOPPED) if is_gone else Found(Seen.STOPPING)


def _end(
    job: Object, ends: Sequence[Found | None], pods: Sequence[Mapping[str, Any] | None]
) -> Found | None:
    """Return how the whole ended for good; None when it has not, or is tried again."""
    done = [end for end in ends if end is not None and end.exit_code == 0]
    if len(done) == len(ends):
        began = min(end.started_at or 0.0 for end in done)
        return replace(max(done, key=_when), message=done[0].message, started_at=began or None)
    failing = observe_job.is_failing(job)
    failed = [
        end
        for end, pod in zip(ends, pods, strict=True)
        if end is not None
        and pod is not None
        and end.exit_code
        and not observe.is_deleted(pod)
        and (failing or _is_last(job, pod, end))
    ]
    if failed:
        return min(failed, key=_when)
    if observe_job.is_complete(job):
        return Found(Seen.EXITED, exit_code=0)
    if not failing:
        return None
    return Found(Seen.EXITED, message=waiting.short(observe_job.why_failed(job)))


def _is_last(job: Object, pod: Object, end: Found) -> bool:
    """Whether the replica that ended so is not made anew."""
    if end.exit_code == 0:
        return True
    if observe.is_deleted(pod) or end.exit_code is None:
        return False
    policy = observe_job.policy_of(job)
    tried = (pod["metadata"].get("annotations") or {}).get(names.FAILURES, "0")
    used_up = str(tried).isdigit() and int(tried) >= policy.attempts - 1
    return used_up or policy.is_final(end.exit_code)


def _when(end: Found) -> float:
    return end.ended_at or 0.0
