"""What a Job is, or a group of its replicas, from the Job and its pods. Pure, like ``observe``.

The rules:

* it is over when the Job says so, or its pod ended with a code that is final by itself (the Job's
  own retry policy says which); how it ended is the exit code, and the last words the program left
  are the message;
* what a stop wrote down counts from then on: the pod may be gone by that time;
* a pod that was taken away, or failed otherwise, is followed by another one of the same Job:
  STARTING, with the reason;
* a group is as far as the replica that is least far; who has ended well waits for the others;
* it has ended when all have ended well, or when one has failed for good: how the first of these
  ended is how the whole did, and the Job controller takes the others down.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from runtime import training
from runtime.drivers.kubernetes import names, observe, waiting
from runtime.drivers.kubernetes.observe import Found, Object, Sight
from runtime.protocol import Observation, ReplicaSeen, Seen
from runtime.reasons import Reason
from runtime.spec import PodGroup, RetryPolicy

Pod = TypeVar("Pod", bound=Mapping[str, Any])
_LAST_WORDS = 4096
_BACKOFF = 6  # where a Job says nothing
_OVER = ("Succeeded", "Failed")
_GIVEN_PORTS = names.MAINS - {names.MAIN}


def judge(sight: Sight) -> Observation:
    """Return the observation of whatever owns the pod."""
    if not observe.is_job(sight.owner):
        return observe.judge(sight)
    told = observe.told(sight, _found(sight))
    return replace(told, detail={**told.detail, "restarts": restarts_of(sight.owner, sight.pod)})


def newest(job: Object, pods: Iterable[Pod]) -> Pod | None:
    """Return the pod of this launch that counts: the one that was made last."""
    launch = observe.launch_of(job)
    mine = [pod for pod in pods if observe.launch_of(pod) == launch]
    return max(mine, key=_age, default=None)


def _age(pod: Object) -> tuple[bool, str, int]:
    """One that lives before all that are over; stamps have whole seconds only."""
    meta = pod["metadata"]
    version = str(meta.get("resourceVersion", ""))
    changed = int(version) if version.isdigit() else 0
    return (not is_over(pod), str(meta.get("creationTimestamp", "")), changed)


def is_over(pod: Object) -> bool:
    """Nothing of it runs any more."""
    return (pod.get("status") or {}).get("phase") in _OVER


def is_finished(job: Object) -> bool:
    return any(_has(job, word) for word in ("Complete", "Failed"))


def is_complete(job: Object) -> bool:
    return _has(job, "Complete")


def is_failing(job: Object) -> bool:
    """It is over, or its last pods are taken down."""
    return _has(job, "Failed") or _has(job, "FailureTarget")


def is_suspended(job: Object) -> bool:
    return bool((job.get("spec") or {}).get("suspend"))


def end_of(job: Object, pod: Object | None) -> Found | None:
    """Return how it ended for good, None when it has not, or is tried again."""
    end = None if pod is None else own_end(pod)
    if pod is not None and end is not None and _is_final(job, pod, end.exit_code):
        return end
    if not is_finished(job):
        return None
    if end is not None:
        return end
    if _has(job, "Complete"):
        return Found(Seen.EXITED, exit_code=0)
    return Found(Seen.EXITED, message=waiting.short(why_failed(job)))


def why_failed(job: Object) -> str:
    return str(observe.condition_of(job, "Failed").get("message") or "")


def policy_of(job: Object) -> RetryPolicy:
    """Return what it was made with, as the Job itself says it."""
    spec = job.get("spec") or {}
    again = spec.get("backoffLimitPerIndex", spec.get("backoffLimit", _BACKOFF))
    codes: dict[str, tuple[int, ...]] = {}
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or []:
        if (told := rule.get("onExitCodes")) and rule.get("action") == "FailJob":
            codes[str(told.get("operator"))] = tuple(told.get("values") or ())
    return RetryPolicy(int(again) + 1, never=codes.get("In", ()), on=codes.get("NotIn", ()))


def _is_final(job: Object, pod: Object, code: int | None) -> bool:
    """Whether the cluster will not try again, before its Job says so.

    A pod that somebody or a queue took away ended by that, whatever its attempts were: the Job
    controller judges it. What its policy names ends it all the same.
    """
    policy = policy_of(job)
    if code is None:
        return False
    if observe.is_deleted(pod):
        return replace(policy, attempts=max(2, policy.attempts)).is_final(code)
    return policy.is_final(code)


def note(job: Object, pod: Object | None) -> dict[str, Any]:
    """Return how it ended, for the annotation; {} when it is ended now."""
    end = end_of(job, pod)
    return {} if end is None else observe.as_note(end)


def _found(sight: Sight) -> Found:
    job, pod = sight.owner, sight.pod
    launch = observe.launch_of(job)
    if observe.note_of(job).get("launch") == launch:
        gone = pod is None or is_over(pod)
        return observe.written_end(replace(sight, pod=None if gone else pod), launch)
    # What a queue puts out ends by SIGTERM like what a person stops: only the Job tells.
    if is_suspended(job) and not is_finished(job):
        return held(sight)
    return end_of(job, pod) or alive(sight)


def alive(sight: Sight) -> Found:
    pod = sight.pod
    if pod is None:
        return observe.not_made(sight)
    if (end := own_end(pod)) is not None:
        return Found(Seen.STARTING, Reason.TRIED_AGAIN, f"exit code {end.exit_code}")
    if observe.is_going(pod):
        return Found(Seen.STARTING, *waiting.interruption(pod))
    if not (pod.get("spec") or {}).get("nodeName"):
        return observe.unplaced(sight, pod)
    found = observe.placed(sight, pod)
    return found if _listens(pod) else replace(found, address="")


def held(sight: Sight) -> Found:
    """Its queue has not let it in, or has put it out for another one."""
    if sight.pod is not None and not is_over(sight.pod):
        return Found(Seen.STARTING, Reason.PREEMPTED, sight.queued.text)
    return Found(Seen.CREATED, sight.queued.reason, sight.queued.text)


def own_end(pod: Object) -> Found | None:
    """How the program ended; None when it did not, or was taken away with its node or pod."""
    if observe.is_disrupted(pod):
        return None
    status = observe.main_status(pod)
    state = status.get("state") or {}
    ended = state.get("terminated")
    if "waiting" in state:  # for its next start, where the node starts it again
        ended = (status.get("lastState") or {}).get("terminated")
    if not ended and (lacks := observe.not_brought(pod)) is not None:
        return lacks
    if not ended or ended.get("reason") in observe.NOT_AN_END:
        return None
    words = str(ended.get("message") or "").encode()[:_LAST_WORDS].decode(errors="ignore")
    found = observe.ended_as(ended)
    return replace(found, message=found.message or words)


def _listens(pod: Object) -> bool:
    """Whether its program answers at a port; to its own containers an operator adds one."""
    containers = (pod.get("spec") or {}).get("containers") or []
    return any(c.get("ports") and c["name"] not in _GIVEN_PORTS for c in containers)


def _has(job: Object, kind: str) -> bool:
    return observe.condition_of(job, kind).get("status") == "True"


_STOPPED = "stopped"  # it did not end by itself
_FAR = (Seen.MISSING, Seen.CREATED, Seen.STARTING, Seen.READY, Seen.STOPPING, Seen.EXITED)


def is_group(owner: Object) -> bool:
    return (owner.get("spec") or {}).get("completionMode") == "Indexed"


def size_of(owner: Object) -> int:
    return int((owner.get("spec") or {}).get("completions") or 1)


def roles_said(groups: Iterable[PodGroup]) -> str:
    """Return roles as the annotation has them: ``chief:1,worker:3``."""
    return ",".join(f"{group.role}:{group.replicas}" for group in groups)


def roles_of(owner: Object) -> list[str]:
    """Return the role of each replica, by number."""
    said = str((owner["metadata"].get("annotations") or {}).get(names.ROLE, ""))
    found: list[str] = []
    for one in said.split(","):
        role, _colon, count = one.partition(":")
        found += [role] * (int(count) if count.isdigit() else 0)
    return found or [said or "main"] * size_of(owner)


def index_of(pod: Object) -> int:
    """Return the number of the replica that the pod is; 0 for one that has none."""
    text = str((pod["metadata"].get("labels") or {}).get(names.INDEX, "0"))
    return int(text) if text.isdigit() else 0


def judge_group(sights: Sequence[Sight]) -> Observation:
    """Return the observation of the whole, with each replica's own."""
    job, first = sights[0].owner, sights[0]
    roles = roles_of(job)
    each = [_replica(sight, role) for sight, role in zip(sights, roles, strict=True)]
    whole, at = _whole(sights, each)
    # Always the same pod, or it would look as if another had taken its place.
    told = observe.told(replace(first, events=sights[at].events), whole)
    replicas = tuple(
        ReplicaSeen(
            index=number,
            role=roles[number],
            seen=found.seen,
            exit_code=found.exit_code,
            reason=str(found.reason),
            node=str(((sight.pod or {}).get("spec") or {}).get("nodeName") or ""),
            pod=str(sight.pod["metadata"]["name"]) if sight.pod is not None else "",
            started_at=found.started_at,
            ended_at=found.ended_at,
            restarts=restarts_of(job, sight.pod, roles[number]),
        )
        for number, (sight, found) in enumerate(zip(sights, each, strict=True))
    )
    return replace(told, replicas=replicas)


def note_group(job: Object, pods: Sequence[Object | None]) -> dict[str, Any]:
    """Return how the whole ended, for the annotation; {} when it is ended now."""
    end = _end(job, [None if pod is None else own_end(pod) for pod in pods], pods)
    return {} if end is None else observe.as_note(end)


def _whole(sights: Sequence[Sight], each: Sequence[Found]) -> tuple[Found, int]:
    """Return what the whole is, and the number of the replica that it follows from."""
    job = sights[0].owner
    launch = observe.launch_of(job)
    if observe.note_of(job).get("launch") == launch:
        left = next((s.pod for s in sights if s.pod and not is_over(s.pod)), None)
        return observe.written_end(replace(sights[0], pod=left), launch), 0
    if is_suspended(job) and not is_finished(job):
        kept = [held(sight) for sight in sights]
        at = max(range(len(kept)), key=lambda n: _FAR.index(kept[n].seen))
        return kept[at], at
    pods = [sight.pod for sight in sights]
    ends = [None if pod is None else own_end(pod) for pod in pods]
    if (end := _end(job, ends, pods)) is not None:
        return end, 0
    # of those that are least far one that was taken away, not one whose node may come back
    at = min(range(len(each)), key=lambda n: (_FAR.index(each[n].seen), each[n].silent))
    if each[at].seen is not Seen.READY:
        return each[at], at
    running = [found for found in each if found.seen is Seen.READY]
    ready = max((found.ready_at or 0.0 for found in running), default=0.0)
    return replace(each[at], address=each[0].address, ready_at=ready or None), at


def _replica(sight: Sight, role: str) -> Found:
    job, pod = sight.owner, sight.pod
    note = observe.note_of(job)
    told_to_end = note.get("launch") == observe.launch_of(job)
    # A stop right after the last good end suspends what the operator then never calls complete.
    is_good = is_complete(job) or (told_to_end and note.get("code") == 0)
    is_ending = told_to_end or is_failing(job) or is_good
    end = None if pod is None else own_end(pod)
    if pod is not None and end is not None and (is_ending or _is_last(job, pod, end)):
        taken = observe.is_deleted(pod) and end.exit_code
        return replace(end, reason=_STOPPED) if taken else end
    if not is_ending:
        return alive(sight)
    is_gone = pod is None or is_over(pod)
    if is_gone and is_good and not _serves(job, role):
        return Found(Seen.EXITED, exit_code=0)  # the whole would not be good otherwise
    return Found(Seen.EXITED, _STOPPED) if is_gone else Found(Seen.STOPPING)


def _serves(job: Object, role: str) -> bool:
    """Whether it goes on until it is ended when the others are done."""
    return role in training.BESIDE or (role == training.WORKER and job.get("kind") == "MPIJob")


def _end(
    job: Object, ends: Sequence[Found | None], pods: Sequence[Mapping[str, Any] | None]
) -> Found | None:
    """Return how the whole ended for good; None when it has not, or is tried again."""
    done = [end for end in ends if end is not None and end.exit_code == 0]
    if len(done) == len(ends):
        began = min(end.started_at or 0.0 for end in done)
        return replace(max(done, key=_when), message=done[0].message, started_at=began or None)
    failing = is_failing(job)
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
    if is_complete(job):
        return Found(Seen.EXITED, exit_code=0)
    if not failing:
        return None
    return Found(Seen.EXITED, message=waiting.short(why_failed(job)))


def _is_last(job: Object, pod: Object, end: Found) -> bool:
    """Whether the replica that ended so is not made anew."""
    if end.exit_code == 0:
        return True
    if observe.is_deleted(pod) or end.exit_code is None:
        return False
    policy = policy_of(job)
    return failures_of(pod) >= policy.attempts - 1 or policy.is_final(end.exit_code)


def failures_of(pod: Object) -> int:
    """Return how often the replica ended badly before: in earlier pods, and in this one."""
    said = str((pod["metadata"].get("annotations") or {}).get(names.FAILURES, "0"))
    return _started_again(pod) + (int(said) if said.isdigit() else 0)


def restarts_of(job: Object, pod: Object | None, role: str = "") -> int:
    """Return how often a replica began anew: what its pod knows, or the whole of who is alone.

    An operator tells of its launcher, as a Job of a lone pod, how many of its pods ended badly.
    """
    if not is_group(job) or role == training.LAUNCHER:
        failed = int((job.get("status") or {}).get("failed") or 0)
        return max(0, failed - is_failing(job))
    if pod is None:
        return 0
    notes = pod["metadata"].get("annotations") or {}
    said = (str(notes.get(name, "0")) for name in (names.FAILURES, names.IGNORED))
    return _started_again(pod) + sum(int(one) for one in said if one.isdigit())


def _started_again(pod: Object) -> int:
    """Return how often the node started its container again, in the same pod."""
    return int(observe.main_status(pod).get("restartCount") or 0)


def _when(end: Found) -> float:
    return end.ended_at or 0.0
