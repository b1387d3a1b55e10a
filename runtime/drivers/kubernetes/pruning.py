"""Objects cut down to what ``observe`` reads: ten thousand of them stay small. Pure."""

from typing import Any

from runtime.drivers.kubernetes import names, observe_served
from runtime.drivers.kubernetes.nodes import choice_of
from runtime.drivers.kubernetes.shapes.operated import as_job

Object = dict[str, Any]

MESSAGE_MAX = 2_000
_META = (
    "name",
    "namespace",
    "uid",
    "labels",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "finalizers",
    "resourceVersion",
    "generation",
    "creationTimestamp",
)
_NOTES = {names.LAUNCH, names.ENDED, names.ROLE, names.RETRIES, names.FAILURES, names.IGNORED}
_NOTES |= {observe_served.STOP, names.FINAL}
# What a Job's ends are judged by, and how many pods it has.
_JOB = ("backoffLimit", "backoffLimitPerIndex", "completionMode", "completions", "podFailurePolicy")


def _small_meta(obj: Object) -> Object:
    meta = obj["metadata"]
    found = {name: meta[name] for name in _META if name in meta}
    notes = meta.get("annotations") or {}
    found["annotations"] = {k: v for k, v in notes.items() if k in _NOTES}
    return found


def small_set(obj: Object) -> Object:
    spec = obj.get("spec") or {}
    pod = (spec.get("template") or {}).get("spec") or {}
    containers = pod.get("containers") or []
    small = [{"name": c.get("name"), "resources": c.get("resources") or {}} for c in containers]
    return {
        "metadata": _small_meta(obj),
        "spec": {
            "replicas": spec.get("replicas"),
            "template": {"spec": {"containers": small, **choice_of(pod)}},
        },
        "status": {"observedGeneration": (obj.get("status") or {}).get("observedGeneration", 0)},
    }


def small_job(obj: Object) -> Object:
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    small = small_set(obj)
    return {
        **small,
        "kind": "Job",
        "spec": {
            **small["spec"],
            "replicas": 1,
            "suspend": bool(spec.get("suspend")),
            **{name: spec[name] for name in _JOB if name in spec},
        },
        "status": {
            "conditions": status.get("conditions") or [],
            "failed": status.get("failed") or 0,
        },
    }


def small_served(obj: Object) -> Object:
    """The one pod that it describes stands where other kinds have theirs."""
    predictor = (obj.get("spec") or {}).get("predictor") or {}
    small = small_set({**obj, "spec": {"replicas": 1, "template": {"spec": predictor}}})
    kept = {"minReplicas": predictor.get("minReplicas", 1)}
    return {**small, "kind": names.SERVED, "spec": {**small["spec"], "predictor": kept}}


def small_operated(kind: str, obj: Object) -> Object:
    """Of an operator's object, as the Job that it is judged as."""
    told = as_job({**obj, "kind": kind})
    return {**told, "metadata": _small_meta(obj)}


def small_pod(obj: Object, before: Object | None = None) -> Object:
    """``before``: what was kept of it so far; it says when somebody asked it to go."""
    spec, status = obj.get("spec") or {}, obj.get("status") or {}
    kept = ("phase", "reason", "message", "conditions", "containerStatuses", "podIP", "startTime")
    return {
        "metadata": _small_meta(obj) | _first_asked(obj, before),
        "spec": {
            "nodeName": spec.get("nodeName"),
            "containers": [
                {
                    "name": c["name"],
                    "ports": c.get("ports") or [],
                    "startupProbe": c.get("startupProbe"),
                }
                for c in spec.get("containers") or []
            ],
        },
        "status": {name: status[name] for name in kept if name in status},
    }


def small_event(obj: Object) -> Object:
    kept = ("type", "reason", "message", "lastTimestamp", "eventTime", "count", "series")
    about = obj.get("involvedObject") or {}
    return {
        **{name: obj[name] for name in kept if name in obj},
        # nobody but its writer bounds it, and eight of each workload are kept
        "message": str(obj.get("message") or "")[:MESSAGE_MAX],
        "involvedObject": {k: about.get(k) for k in ("kind", "uid", "fieldPath")},
        "metadata": {"creationTimestamp": obj["metadata"].get("creationTimestamp")},
    }


def _first_asked(obj: Object, before: Object | None) -> Object:
    """The kubelet's last deletion has no grace and a new time: it ended the asking, not the pod."""
    if before is None or before["metadata"].get("uid") != obj["metadata"].get("uid"):
        return {}
    names_of_it = ("deletionTimestamp", "deletionGracePeriodSeconds")
    asked = {name: before["metadata"][name] for name in names_of_it if name in before["metadata"]}
    return {} if obj["metadata"].get("deletionGracePeriodSeconds") else asked
