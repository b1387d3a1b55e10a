"""From what the API server holds to what the engine is told. Pure: no clock, no requests.

The rules:

* a StatefulSet with no replica wanted is over once its pod is gone; how it ended stands in an
  annotation that the stop wrote, because the pod takes its own record with it;
* a main container that ended is EXITED for good in this launch, although the node starts it
  again (a StatefulSet's pods know no other way): the engine then stops it;
* a pod that somebody or something took away is STARTING, with the reason: another one comes.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from runtime.drivers.kubernetes import names, waiting
from runtime.drivers.kubernetes.queued import Queued
from runtime.protocol import Observation, Seen
from runtime.reasons import Reason

Object = Mapping[str, Any]
EVENTS_KEPT = 5
# The node itself was away: what it says about the container then is not the program's end.
NOT_AN_END = frozenset(("Unknown", "ContainerStatusUnknown"))


@dataclass(frozen=True)
class Sight:
    """Everything known about one replica of a workload."""

    owner: Object  # its StatefulSet or Job
    pod: Object | None = None
    events: Sequence[Object] = ()
    queued: Queued = field(default_factory=Queued)  # what its queue says, when it is held back
    node_ready: bool | None = None
    silence: str = ""  # of a node that is not: its name, and since when
    could_fit: bool | None = None
    answered_at: float | None = None  # its probe was answered, though the node has not said so
    interrupted: tuple[str, str] = ("", "")  # why its previous pod went


@dataclass(frozen=True)
class Found:
    seen: Seen
    reason: str = ""
    message: str = ""
    address: str = ""
    exit_code: int | None = None
    started_at: float | None = None
    ready_at: float | None = None
    ended_at: float | None = None
    silent: bool = False  # its node only says nothing: the cluster has not given its pod up


def judge(sight: Sight) -> Observation:
    """Return the observation of a StatefulSet; the caller gives it a version."""
    launch = launch_of(sight.owner)
    found = _wanted(sight) if replicas_of(sight.owner) else written_end(sight, launch)
    return told(sight, found)


def told(sight: Sight, found: Found) -> Observation:
    meta = sight.owner["metadata"]
    labels, launch = meta.get("labels") or {}, launch_of(sight.owner)
    if meta.get("deletionTimestamp"):
        found = Found(Seen.STOPPING)
    return Observation(
        uid=labels.get(names.UID, ""),
        seen=found.seen,
        launch=launch,
        kind=labels.get(names.KIND, ""),
        address=found.address,
        exit_code=found.exit_code,
        reason=str(found.reason),
        message=found.message,
        started_at=found.started_at,
        ready_at=found.ready_at,
        ended_at=found.ended_at,
        detail=detail_of(sight, found),
        installation=labels.get(names.INSTALLATION, ""),
    )


def launch_of(obj: Object) -> int:
    value = str((obj["metadata"].get("annotations") or {}).get(names.LAUNCH, "0"))
    return int(value) if value.isdigit() else 0


def replicas_of(statefulset: Object) -> int:
    return int((statefulset.get("spec") or {}).get("replicas", 1) or 0)


def ending_of(pod: Object) -> dict[str, Any] | None:
    """Return how the main container ended, for the annotation; None when it did not."""
    end = _end(pod)
    return None if end is None else as_note(end)


def as_note(end: Found) -> dict[str, Any]:
    """Return an end as it is written down; ``note_of`` reads it."""
    return {
        "code": end.exit_code,
        "reason": str(end.reason),
        "message": end.message,
        "started": end.started_at,
        "at": end.ended_at,
    }


def note_of(owner: Object) -> Mapping[str, Any]:
    """Return how a run ended as its stop wrote it down, {} when nothing is written."""
    text = (owner["metadata"].get("annotations") or {}).get(names.ENDED, "")
    try:
        end = json.loads(text) if text else {}
    except ValueError:
        return {}
    return end if isinstance(end, dict) else {}


def main_status(pod: Object) -> Object:
    for status in (pod.get("status") or {}).get("containerStatuses") or []:
        if status.get("name") in names.MAINS:
            found: Object = status
            return found
    return {}


def main_name(pod: Object) -> str:
    """Return what the container is called that is the workload."""
    containers = (pod.get("spec") or {}).get("containers") or []
    return next((c["name"] for c in containers if c["name"] in names.MAINS), names.MAIN)


def is_going(pod: Object) -> bool:
    """Taken away, or over as a whole: its StatefulSet makes another."""
    phase = (pod.get("status") or {}).get("phase")
    return bool(pod["metadata"].get("deletionTimestamp")) or phase in {"Failed", "Succeeded"}


def is_deleted(pod: Object) -> bool:
    """Somebody asked it to go."""
    return bool(pod["metadata"].get("deletionTimestamp"))


def is_disrupted(pod: Object) -> bool:
    """The cluster took it away, or its node ended it as a whole."""
    return condition_of(pod, "DisruptionTarget").get("status") == "True" or is_thrown_out(pod)


def is_ready(pod: Object) -> bool:
    return condition_of(pod, "Ready").get("status") == "True"


# --- not wanted any more ----------------------------------------------------------------------
def written_end(sight: Sight, launch: int) -> Found:
    if sight.pod is not None:
        return Found(Seen.STOPPING)
    end = note_of(sight.owner)
    if end.get("launch") != launch:
        return Found(Seen.EXITED)
    return Found(
        Seen.EXITED,
        reason=str(end.get("reason") or ""),
        message=str(end.get("message") or ""),
        exit_code=end.get("code"),
        started_at=end.get("started"),
        ended_at=end.get("at"),
    )


# --- wanted -----------------------------------------------------------------------------------
def _wanted(sight: Sight) -> Found:
    pod = sight.pod
    if pod is None:
        return not_made(sight)
    if launch_of(pod) == launch_of(sight.owner) and (end := _end(pod)) is not None:
        return end
    if is_going(pod):
        return Found(Seen.STARTING, *waiting.interruption(pod))
    if not (pod.get("spec") or {}).get("nodeName"):
        return unplaced(sight, pod)
    return placed(sight, pod)


def placed(sight: Sight, pod: Object) -> Found:
    running = (main_status(pod).get("state") or {}).get("running")
    started = moment((running or {}).get("startedAt"))
    # Still marked ready a moment later than its node: what was true stays until it is not.
    lost = sight.node_ready is False and not is_ready(pod)
    has_address = bool((pod.get("status") or {}).get("podIP"))
    if has_address and not lost and (ready := _ready_at(sight, pod)) is not None:
        host = str(pod["status"]["podIP"])
        shown = f"[{host}]" if ":" in host else host
        return Found(
            Seen.READY, address=f"{shown}:{_port(pod)}", started_at=started, ready_at=ready
        )
    if sight.node_ready is False:
        return Found(
            Seen.STARTING, Reason.NODE_LOST, sight.silence, started_at=started, silent=True
        )
    status = pod.get("status") or {}
    for container in status.get("containerStatuses") or []:
        held = (container.get("state") or {}).get("waiting") or {}
        word, text = str(held.get("reason", "")), str(held.get("message", ""))
        if word in waiting.IMAGE_WORDS:
            text = _with_event(sight, word, text)
            message = f"{container.get('image', '')}: {waiting.short(text)}"
            return Found(Seen.STARTING, waiting.image_trouble(f"{word} {text}"), message)
        if word in waiting.CONFIG_WORDS:
            return Found(Seen.STARTING, Reason.CONFIG, waiting.short(text))
    if not main_status(pod).get("containerID"):
        reason, message = waiting.creating(sight.events)
        return Found(Seen.STARTING, reason or sight.interrupted[0], message)
    return Found(Seen.STARTING, Reason.PROGRAM if started else "", started_at=started)


def _ready_at(sight: Sight, pod: Object) -> float | None:
    """Since when it answers, by the node's word or, where it is alone in its pod, by our own."""
    alone = len(pod["spec"].get("containers") or []) == 1
    if sight.answered_at is not None and alone:
        return sight.answered_at
    if not is_ready(pod) or "running" not in (main_status(pod).get("state") or {}):
        return None
    return moment(condition_of(pod, "Ready").get("lastTransitionTime"))


def not_made(sight: Sight) -> Found:
    """Say why it has no pod, as far as its events do."""
    reason, message = waiting.not_created(sight.events)
    if reason:
        return Found(Seen.CREATED, reason, message)
    return again(sight) or Found(Seen.CREATED, Reason.SCHEDULING)


def again(sight: Sight) -> Found | None:
    """A run that was interrupted and whose next pod is not there yet."""
    reason, message = sight.interrupted
    return Found(Seen.STARTING, reason, message) if reason else None


def unplaced(sight: Sight, pod: Object) -> Found:
    condition = condition_of(pod, "PodScheduled")
    if condition.get("reason") == "SchedulingGated":
        return Found(Seen.CREATED, sight.queued.reason, sight.queued.text)
    if condition.get("status") != "False":
        return again(sight) or Found(Seen.CREATED, Reason.SCHEDULING)
    text = str(condition.get("message", ""))
    return Found(Seen.CREATED, *waiting.unschedulable(text, could_fit=sight.could_fit))


def _with_event(sight: Sight, word: str, text: str) -> str:
    """A back-off says little: the failure before it stands in an event."""
    if word != "ImagePullBackOff" or ": " in text:
        return text
    for event in waiting.newest_first(sight.events):
        if event.get("reason") == "Failed" and "pull" in str(event.get("message", "")):
            return str(event["message"])
    return text


def _end(pod: Object) -> Found | None:
    """How the main container ended first in this pod, whatever the node did afterwards."""
    status = main_status(pod)
    if is_thrown_out(pod):
        return None
    for state in (status.get("lastState") or {}, status.get("state") or {}):
        ended = state.get("terminated")
        if ended and ended.get("reason") not in NOT_AN_END and not _by_deletion(pod, ended):
            return ended_as(ended)
    held = (status.get("state") or {}).get("waiting") or {}
    text = str(held.get("message", ""))
    if held.get("reason") == "RunContainerError" and waiting.no_program(text):
        return Found(Seen.EXITED, Reason.COMMAND_NOT_FOUND, waiting.short(text), exit_code=127)
    return None


def is_thrown_out(pod: Object) -> bool:
    """The node ended the whole pod (eviction, shutdown): its containers' ends say nothing."""
    status = pod.get("status") or {}
    return status.get("phase") == "Failed" and bool(status.get("reason"))


def _by_deletion(pod: Object, ended: Object) -> bool:
    """Whether it ended because somebody asked the pod to go: not by itself then."""
    meta = pod["metadata"]
    due = moment(meta.get("deletionTimestamp"))
    if due is None:
        return False
    asked = due - float(meta.get("deletionGracePeriodSeconds") or 0)
    over = moment(ended.get("finishedAt"))
    return over is None or over >= asked


def not_brought(pod: Object) -> Found | None:
    """Return the end of a pod whose code did not come, and why; its program never began."""
    for status in (pod.get("status") or {}).get("initContainerStatuses") or []:
        ended = (status.get("state") or {}).get("terminated") or {}
        if status.get("name") == names.BRINGS and ended.get("exitCode"):
            found, words = ended_as(ended), waiting.short(str(ended.get("message") or ""))
            return replace(found, reason=found.reason or Reason.CODE_NOT_FETCHED, message=words)
    return None


def ended_as(ended: Object) -> Found:
    word, text = ended.get("reason"), str(ended.get("message") or "")
    reason: str = ""
    told = ""  # what the program itself said is its owner's: it is in the log
    if word == "OOMKilled":
        reason = Reason.OOM
    elif word in {"StartError", "ContainerCannotRun"}:
        reason = Reason.COMMAND_NOT_FOUND if waiting.no_program(text) else Reason.START_FAILED
        told = waiting.short(text)  # the runtime's words
    return Found(
        Seen.EXITED,
        reason,
        told,
        exit_code=code_of(ended),
        started_at=moment(ended.get("startedAt")),
        ended_at=moment(ended.get("finishedAt")),
    )


def code_of(ended: Object) -> int:
    """A death by signal as a negative number, as on one machine; 137 of an OOM as it is."""
    code = int(ended.get("exitCode", 0))
    if ended.get("signal"):
        return -int(ended["signal"])
    return code


# --- small things -------------------------------------------------------------------------------
def moment(text: Any) -> float | None:
    if not text:
        return None
    return datetime.fromisoformat(str(text)).timestamp()


def condition_of(pod: Object, kind: str) -> Object:
    for condition in (pod.get("status") or {}).get("conditions") or []:
        if condition.get("type") == kind:
            found: Object = condition
            return found
    return {}


def _port(pod: Object) -> int:
    for container in pod["spec"]["containers"]:
        if container["name"] in names.MAINS and container.get("ports"):
            return int(container["ports"][0]["containerPort"])
    return names.PORT


def detail_of(sight: Sight, found_out: Found) -> dict[str, Any]:
    meta = sight.owner["metadata"]
    over = found_out.seen == Seen.EXITED  # what the node does with it afterwards is no news
    found: dict[str, Any] = {
        "namespace": meta.get("namespace", ""),
        "name": meta.get("name", ""),
        "pod": pod_name(sight),
        "node": "",
        "events": [_told(e) for e in _warnings(sight.events, over=over)],
        "pull": _pull(sight) if found_out.reason == Reason.PULLING else None,
        "line": dict(sight.queued.line) if is_held_back(sight, found_out) else None,
        "silent": found_out.silent,
    }
    if sight.pod is None:
        return found
    status, spec = sight.pod.get("status") or {}, sight.pod.get("spec") or {}
    main = main_status(sight.pod)
    return {
        **found,
        "node": spec.get("nodeName") or "",
        "pod_uid": sight.pod["metadata"].get("uid", ""),
        "image": main.get("image", ""),
        "image_id": main.get("imageID", ""),
        "restarts": 0 if over else int(main.get("restartCount", 0)),
        "scheduled_at": moment(condition_of(sight.pod, "PodScheduled").get("lastTransitionTime"))
        if spec.get("nodeName")
        else None,
        "image_ready": bool(main.get("imageID")),
        "ip": status.get("podIP", ""),
    }


def is_held_back(sight: Sight, found_out: Found) -> bool:
    """Whether it waits for what its queue says."""
    queued = sight.queued
    told = (found_out.seen, found_out.reason, found_out.message)
    return told == (Seen.CREATED, queued.reason, queued.text)


def _pull(sight: Sight) -> dict[str, Any] | None:
    """Since when the node fetches the image; how far it is no container runtime tells."""
    for event in waiting.newest_first(sight.events):
        if event.get("reason") == waiting.PULLING:
            return {"since": moment(waiting.event_time(event))}
    return None


def pod_name(sight: Sight) -> str:
    """A StatefulSet's pod has its name before it is there, a Job's has not."""
    if has_unnamed_pods(sight.owner):
        return str(sight.pod["metadata"]["name"]) if sight.pod is not None else ""
    return names.pod(sight.owner["metadata"].get("name", ""))


def is_job(owner: Object) -> bool:
    """Whether it runs to its end."""
    return owner.get("kind") in names.JOBS


def has_unnamed_pods(owner: Object) -> bool:
    return owner.get("kind") in names.UNNAMED


def _warnings(events: Sequence[Object], *, over: bool) -> list[Object]:
    found = [e for e in waiting.newest_first(events) if e.get("type") == "Warning"]
    noise = {"Unhealthy", "BackOff"} if over else {"Unhealthy"}
    return [e for e in found if e.get("reason") not in noise][:EVENTS_KEPT]


def _told(event: Object) -> dict[str, Any]:
    return {
        "reason": event.get("reason", ""),
        "message": waiting.short(str(event.get("message", ""))),
        "count": int(event.get("count") or (event.get("series") or {}).get("count") or 1),
        "at": moment(waiting.event_time(event)),
    }
