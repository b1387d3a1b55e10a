"""Why something on a cluster waits, from the words that Kubernetes writes. Pure."""

import re
from collections.abc import Iterable, Mapping
from typing import Any

from runtime.drivers.kubernetes.answers import UNCOUNTED
from runtime.reasons import Reason

Object = Mapping[str, Any]

_MESSAGE_MAX = 400
_NODES = re.compile(
    r"\A0/(\d+) nodes are available: (.*?)(?:\. (?:preemption|no new claims).*)?\Z", re.DOTALL
)
_PART = re.compile(r"(\d+) (.+?)(?=, \d+ |\Z)", re.DOTALL)
_LACKING = re.compile(r"Insufficient ([\w/-]+(?:\.[\w/-]+)*)")

# In this order: the first that is in the text tells.
_IMAGE: tuple[tuple[Reason, re.Pattern[str]], ...] = (
    (
        Reason.IMAGE_PLATFORM,
        re.compile(r"no match for platform|no matching manifest|exec format", re.IGNORECASE),
    ),
    (
        Reason.IMAGE_UNREACHABLE,
        re.compile(
            r"dial tcp|no such host|timeout|connection re|x509|tls:|toomanyrequests|EOF"
            r"|5\d\d (?:Internal|Bad|Service|Gateway)",
            re.IGNORECASE,
        ),
    ),
    (
        Reason.IMAGE_AUTH,
        re.compile(
            r"unauthorized|authentication required|access denied|denied:|401|403 Forbidden"
            r"|no basic auth|authorization failed",
            re.IGNORECASE,
        ),
    ),
    (
        Reason.IMAGE_NOT_FOUND,
        re.compile(
            r"not found|manifest unknown|name unknown|does not exist|InvalidImageName"
            r"|couldn't parse image|invalid reference",
            re.IGNORECASE,
        ),
    ),
)
IMAGE_WORDS = frozenset(
    (
        "ErrImagePull",
        "ImagePullBackOff",
        "InvalidImageName",
        "ErrImageNeverPull",
        "ImageInspectError",
        "RegistryUnavailable",
        "SignatureValidationFailed",
    )
)
CONFIG_WORDS = frozenset(
    ("CreateContainerConfigError", "CreateContainerError", "RunContainerError")
)
PULLING = "Pulling"  # the node's event when a fetch of an image begins
_MOUNT_WORDS = frozenset(("FailedMount", "FailedAttachVolume", "FailedMapVolume"))
_PASSING_MARKS = ("batch.kubernetes.io/", "kueue.x-k8s.io/")
# What the scheduler's own plug-ins say of storage (pkg/scheduler/framework/plugins of 1.36).
_STORAGE = re.compile(
    r"persistent ?volume|pvc\(s\)|free storage|volume zone|volume count|available disk",
    re.IGNORECASE,
)
_NO_PROGRAM = re.compile(r"executable file not found|no such file or directory|permission denied")


def image_trouble(text: str) -> Reason:
    """What a failed fetch of an image means; unknown words are most often a wrong name."""
    for reason, words in _IMAGE:
        if words.search(text):
            return reason
    return Reason.IMAGE_NOT_FOUND


def no_program(text: str) -> bool:
    """Whether a container could not begin because its program is not there."""
    return bool(_NO_PROGRAM.search(text))


def unschedulable(message: str, *, could_fit: bool | None = None) -> tuple[Reason, str]:
    """Return why no node was found, and the numbers.

    ``could_fit`` False: no node would be large enough even when empty.
    """
    on_storage = bool(_STORAGE.search(message))
    match = _NODES.match(message)
    if match is None:
        return (Reason.VOLUME if on_storage else Reason.SCHEDULING), short(message)
    lacking: dict[str, int] = {}
    for count, why in _PART.findall(match.group(2)):
        if found := _LACKING.search(why):
            lacking[found.group(1)] = max(lacking.get(found.group(1), 0), int(count))
    if not lacking and on_storage:  # else the node of its volume is full: it waits for that
        return Reason.VOLUME, short(message)
    if not lacking:
        other = "Too many pods" in message or "unschedulable" in message
        return (Reason.NODES_FULL if other else Reason.NO_SUCH_NODE), short(message)
    words = ", ".join(f"{name} ({count})" for name, count in sorted(lacking.items()))
    reason = Reason.NO_SUCH_NODE if could_fit is False else Reason.NODES_FULL
    return reason, f"Not enough left on so many of {match.group(1)} nodes: {words}."


# The controller tries again by itself. Modified: two writers of a namespace's quota at once.
_PASSING = ("already exists", "object is being deleted", "object has been modified", UNCOUNTED)


def not_created(events: Iterable[Object]) -> tuple[str, str]:
    """Return why the pod could not be made at all (admission), empty words when nothing says so."""
    for event in newest_first(events):
        if event.get("reason") != "FailedCreate":
            continue
        text = str(event.get("message", ""))
        low = text.lower()
        if "exceeded quota" in low or "failed quota" in low:
            return Reason.QUOTA_DENIED, short(text)
        if any(passing in low for passing in _PASSING):
            return "", ""
        return Reason.DENIED, short(text)
    return "", ""


def creating(events: Iterable[Object]) -> tuple[str, str]:
    """Return what a scheduled pod without a container is busy with."""
    for event in newest_first(events):
        word, text = event.get("reason"), short(str(event.get("message", "")))
        if word in _MOUNT_WORDS:
            return Reason.VOLUME, text
        if word == PULLING:
            return Reason.PULLING, ""
        if word == "Pulled":
            return "", ""
        if word == "FailedCreatePodSandBox":
            return "", text
    return "", ""


def interruption(pod: Object) -> tuple[str, str]:
    """Return why a pod that was wanted goes away by somebody else's hand."""
    status = pod.get("status") or {}
    word = str(status.get("reason", ""))
    text = short(str(status.get("message", "")))
    for condition in status.get("conditions") or []:
        if condition.get("type") in {"DisruptionTarget", "TerminationTarget"}:
            word = word or str(condition.get("reason", ""))
            text = text or short(str(condition.get("message", "")))
    if word in {"PreemptionByScheduler", "Preempting", "Preempted", "WorkloadPreempted"}:
        return Reason.PREEMPTED, text
    if word in {"NodeLost", "DeletionByTaintManager", "DeletionByPodGC"}:
        return Reason.NODE_LOST, text
    if word in {"EvictionByEvictionAPI", "Terminated", "NodeShutdown"}:
        return Reason.DRAINED, text
    # A pod that somebody deleted is "Failed" too, by its program's end: then nobody gave a reason.
    if word:
        return Reason.EVICTED, text or word
    return Reason.REPLACED, text or kept_by(pod)


def kept_by(pod: Object) -> str:
    """Return whose mark keeps a pod that is over, and '' where it is none or the pod still runs.

    The cluster's own marks go by themselves; another one stays until its owner takes it off.
    """
    meta, status = pod["metadata"], pod.get("status") or {}
    marks = [m for m in meta.get("finalizers") or [] if not str(m).startswith(_PASSING_MARKS)]
    runs = any("running" in (c.get("state") or {}) for c in status.get("containerStatuses") or [])
    if not marks or runs or not meta.get("deletionTimestamp"):
        return ""
    return short(f"Its pod is over, but a finalizer keeps it: {', '.join(sorted(marks))}.")


def newest_first(events: Iterable[Object]) -> list[Object]:
    return sorted(events, key=event_time, reverse=True)


def event_time(event: Object) -> str:
    series = event.get("series") or {}
    return str(
        series.get("lastObservedTime")
        or event.get("lastTimestamp")
        or event.get("eventTime")
        or (event.get("metadata") or {}).get("creationTimestamp")
        or ""
    )


def short(text: str) -> str:
    """One line of bounded length, without the cluster's object uids."""
    line = " ".join(text.split())
    return line if len(line) <= _MESSAGE_MAX else line[: _MESSAGE_MAX - 1] + "…"
