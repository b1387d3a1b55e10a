"""What serves, from its InferenceService and the pods that are there. Pure, like ``observe``.

The rules:

* its pods are alike and have no numbers: those that live are told in the order in which they were
  made, and one that is wanted and not there yet as a replica without a pod;
* it is READY as soon as one of them answers, and where none is wanted; else it is as far as the
  one that is farthest;
* a program that ended is started again by its node; where none has answered since and each one
  ended again and again, or by a code that says it is no use, the whole has ended: it would never
  answer;
* what a stop wrote down counts from then on.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from runtime.drivers.kubernetes import names, observe, observe_job, waiting
from runtime.drivers.kubernetes.observe import Found, Object, Sight
from runtime.protocol import Observation, ReplicaSeen, Seen
from runtime.reasons import Reason

Pod = TypeVar("Pod", bound=Mapping[str, Any])

STOP = "serving.kserve.io/stop"  # annotation: "true" where nothing of it is to run
_TRIES = 3
_AT_ITS_START_S = 60.0  # of one without a probe: it says nothing by being there
# A node counts all starts of a pod and tells only the last: so long none of them may have answered.
# It waits for five minutes at most between two, so there were several.
_NO_MORE_S = 600.0
_ITS_FIRST_S = 5.0  # from the pod's being taken up by its node to its first word
_FAR = (Seen.MISSING, Seen.STOPPING, Seen.CREATED, Seen.STARTING, Seen.READY)
_OF_A_POD = ("pod", "pod_uid", "ip")  # of whichever comes first: another one is no news


def is_served(owner: Object) -> bool:
    return owner.get("kind") == names.SERVED


def is_stopped(owner: Object) -> bool:
    """Whether this launch was stopped, and does not just sleep."""
    return bool(observe.note_of(owner).get("launch") == observe.launch_of(owner))


def wanted_of(owner: Object) -> int:
    notes = owner["metadata"].get("annotations") or {}
    if str(notes.get(STOP, "")).lower() == "true":
        return 0
    predictor = (owner.get("spec") or {}).get("predictor") or {}
    return int(predictor.get("minReplicas", 1))


def pods(owner: Object, pods: Iterable[Pod]) -> list[Pod | None]:
    """One at least, be it none, so that there is always something to tell."""
    name = owner["metadata"]["name"]
    mine: list[Pod | None] = [
        pod
        for pod in sorted(pods, key=_age)
        if (pod["metadata"].get("labels") or {}).get(names.WORKLOAD) == name
        and (is_stopped(owner) or not observe.is_going(pod))
    ]
    return mine + [None] * (max(1, wanted_of(owner)) - len(mine))


def judge(sights: Sequence[Sight]) -> Observation:
    owner = sights[0].owner
    if is_stopped(owner):
        left = next((sight for sight in sights if sight.pod is not None), sights[0])
        return _told(left, observe.written_end(left, observe.launch_of(owner)))
    if not wanted_of(owner):
        return _told(replace(sights[0], pod=None), Found(Seen.READY))
    each = [_replica(sight) for sight in sights]
    at = max(range(len(each)), key=lambda n: _FAR.index(each[n].seen))
    found = end_of(owner, [sight.pod for sight in sights]) or each[at]
    replicas = tuple(
        ReplicaSeen(
            index=number,
            seen=one.seen,
            reason=str(one.reason),
            node=str(((sight.pod or {}).get("spec") or {}).get("nodeName") or ""),
            pod=str(sight.pod["metadata"]["name"]) if sight.pod is not None else "",
            started_at=one.started_at,
            restarts=0
            if sight.pod is None
            else int(observe.main_status(sight.pod).get("restartCount") or 0),
            address=one.address,
        )
        for number, (sight, one) in enumerate(zip(sights, each, strict=True))
    )
    return replace(_told(sights[at], found), replicas=replicas)


def end_of(owner: Object, pods: Sequence[Object | None]) -> Found | None:
    """Return how it ended by itself; None when it did not, or is started again."""
    said = str((owner["metadata"].get("annotations") or {}).get(names.FINAL, ""))
    final = {int(code) for code in said.split(",") if code.isdigit()}
    ends = [None if pod is None else _hopeless(pod, final) for pod in pods]
    return ends[0] if all(ends) else None


def _hopeless(pod: Object, final: Collection[int]) -> Found | None:
    """Return how it ended last, where it was started often enough and never answered."""
    end = observe_job.own_end(pod)
    if end is not None and end.exit_code in final and not observe.is_ready(pod):
        return replace(end, message="")
    starts = 1 + int(observe.main_status(pod).get("restartCount") or 0)
    if end is None or starts < _TRIES or observe.is_ready(pod):
        return None
    began, ended = end.started_at or 0.0, end.ended_at or 0.0
    main = observe.main_name(pod)
    containers = (pod.get("spec") or {}).get("containers") or []
    if not any(one["name"] == main and one.get("startupProbe") for one in containers):
        return replace(end, message="") if ended - began < _AT_ITS_START_S else None
    taken_up = observe.moment((pod.get("status") or {}).get("startTime")) or 0.0
    quiet = observe.moment(observe.condition_of(pod, "Ready").get("lastTransitionTime")) or ended
    never = quiet <= taken_up + _ITS_FIRST_S
    return replace(end, message="") if never or began - quiet > _NO_MORE_S else None


def _replica(sight: Sight) -> Found:
    pod = sight.pod
    if pod is None:
        reason, message = waiting.not_created(sight.events)
        return Found(Seen.CREATED, reason or Reason.SCHEDULING, message)
    if (end := observe_job.own_end(pod)) is not None:
        return Found(Seen.STARTING, Reason.TRIED_AGAIN, f"exit code {end.exit_code}")
    if not (pod.get("spec") or {}).get("nodeName"):
        return observe.unplaced(sight, pod)
    return observe.placed(sight, pod)


def _told(sight: Sight, found: Found) -> Observation:
    told = observe.told(sight, found)
    detail = {name: value for name, value in told.detail.items() if name not in _OF_A_POD}
    return replace(told, detail=detail)


def _age(pod: Mapping[str, Any]) -> tuple[str, str]:
    meta = pod["metadata"]
    return str(meta.get("creationTimestamp", "")), str(meta["name"])
