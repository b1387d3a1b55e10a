"""What a Job of ours is, from the Job and its newest pod. Pure, like ``observe``.

The rules:

* it is over when the Job says so, or its pod ended with a code that is final by itself (the Job's
  own retry policy says which); how it ended is the exit code, and the last words the program left
  are the message;
* what a stop wrote down counts from then on: the pod may be gone by that time;
* a pod that was taken away, or failed otherwise, is followed by another one of the same Job:
  STARTING, with the reason.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from typing import Any, TypeVar

from runtime.drivers.kubernetes import observe, waiting
from runtime.drivers.kubernetes.observe import Found, Object, Sight
from runtime.protocol import Observation, RetryPolicy, Seen
from runtime.reasons import Reason

Pod = TypeVar("Pod", bound=Mapping[str, Any])
_LAST_WORDS = 4096
_BACKOFF = 6  # where a Job says nothing
_OVER = ("Succeeded", "Failed")


def judge(sight: Sight) -> Observation:
    """Return the observation of whatever owns the pod."""
    if not observe.is_job(sight.owner):
        return observe.judge(sight)
    return observe.told(sight, _found(sight))


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
    return str(_condition(job, "Failed").get("message") or "")


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
        reason, message = waiting.not_created(sight.events)
        if reason:
            return Found(Seen.CREATED, reason, message)
        return observe.again(sight) or Found(Seen.CREATED, Reason.SCHEDULING)
    if observe.is_going(pod):
        return _once_more(pod)
    if not (pod.get("spec") or {}).get("nodeName"):
        return observe.unplaced(sight, pod)
    found = observe.placed(sight, pod)
    return found if _listens(pod) else replace(found, address="")


def held(sight: Sight) -> Found:
    """Its queue has not let it in, or has put it out for another one."""
    if sight.pod is not None and not is_over(sight.pod):
        return Found(Seen.STARTING, Reason.PREEMPTED, sight.queued[1])
    return Found(Seen.CREATED, *sight.queued)


def _once_more(pod: Object) -> Found:
    end = own_end(pod)
    if end is None:
        return Found(Seen.STARTING, *waiting.interruption(pod))
    return Found(Seen.STARTING, Reason.TRIED_AGAIN, f"exit code {end.exit_code}")


def own_end(pod: Object) -> Found | None:
    """How the program ended; None when it did not, or was taken away with its node or pod."""
    if observe.is_disrupted(pod):
        return None
    ended = (observe.main_status(pod).get("state") or {}).get("terminated")
    if not ended or ended.get("reason") in observe.NOT_AN_END:
        return None
    words = str(ended.get("message") or "").encode()[:_LAST_WORDS].decode(errors="ignore")
    found = observe.ended_as(ended)
    return replace(found, message=found.message or words)


def _listens(pod: Object) -> bool:
    return any(c.get("ports") for c in (pod.get("spec") or {}).get("containers") or [])


def _has(job: Object, kind: str) -> bool:
    return _condition(job, kind).get("status") == "True"


def _condition(job: Object, kind: str) -> Object:
    return observe.condition_of(job, kind)
