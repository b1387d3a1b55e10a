"""Objects as an API server shows them, in few words."""

from runtime.drivers.kubernetes import names, shapes
from runtime.drivers.kubernetes.options import KubernetesOptions

UID = "9d2c7b11-64a0-4b7e-9d0f-7a1b2c3d4e5f"
NS = "berth-demo-0b7c8a52"
AT = "2026-11-21T06:00:00Z"
LATER = "2026-11-21T06:00:09Z"


def built(spec, options=None, *, files=False):
    """What owns the pods of a workload, word for word."""
    made = shapes.of_spec(spec).build(spec, options or KubernetesOptions(), files=files)
    return made[-1]


def statefulset(*, replicas=1, launch=1, ended=None, uid=UID, name="ws-k7mn2p", gpus="", **meta):
    notes = {names.LAUNCH: str(launch)}
    if ended is not None:
        notes[names.ENDED] = ended
    requests = {"cpu": "1", "memory": "1Gi"} | ({"nvidia.com/gpu": gpus} if gpus else {})
    main = {"name": "main", "resources": {"requests": requests}}
    described = {"containers": [main], "tolerations": [{"key": "k", "operator": "Exists"}]}
    return {
        "metadata": {
            "name": name,
            "namespace": NS,
            "annotations": notes,
            "labels": {names.UID: uid, names.KIND: "workspace", names.MANAGED: "true"},
            "generation": 1,
            "resourceVersion": "10",
            **meta,
        },
        "spec": {"replicas": replicas, "template": {"spec": described}},
        "status": {"observedGeneration": 1},
    }


def pod(*, main=None, node="node1", phase="Running", ready=False, launch=1, conditions=(), **more):
    meta = {
        "name": "ws-k7mn2p-0",
        "namespace": NS,
        "uid": "pod-1",
        "annotations": {names.LAUNCH: str(launch)},
        "labels": {names.UID: UID},
        "resourceVersion": "11",
        **more.pop("metadata", {}),
    }
    status = {
        "phase": phase,
        "podIP": "10.244.0.7" if node else None,
        "conditions": [
            {
                "type": "PodScheduled",
                "status": "True" if node else "False",
                "lastTransitionTime": AT,
            },
            {
                "type": "Ready",
                "status": "True" if ready else "False",
                "lastTransitionTime": LATER,
            },
        ],
        "containerStatuses": [] if main is None else [{"name": "main", "image": "img:1", **main}],
        **more,
    }
    if conditions:
        status["conditions"] = list(conditions)
    return {
        "metadata": meta,
        "spec": {
            "nodeName": node,
            "containers": [{"name": "main", "ports": [{"containerPort": 8888}]}],
        },
        "status": status,
    }


def waits(reason, message=""):
    return {"state": {"waiting": {"reason": reason, "message": message}}}


def runs(**more):
    return {
        "state": {"running": {"startedAt": AT}},
        "containerID": "containerd://1",
        "imageID": "img@sha256:1",
        **more,
    }


def ended(code, reason="Error", *, message="", again=True, **more):
    """``again``: the node has already started it anew."""
    over = {
        "terminated": {
            "exitCode": code,
            "reason": reason,
            "message": message,
            "startedAt": AT,
            "finishedAt": LATER,
            **more,
        }
    }
    if not again:
        return {"state": over, "containerID": "containerd://1"}
    return runs(lastState=over, restartCount=1)


def event(reason, message="", *, kind="Pod", at=AT, typ="Warning", uid="pod-1", name="e1"):
    return {
        "type": typ,
        "reason": reason,
        "message": message,
        "lastTimestamp": at,
        "count": 1,
        "involvedObject": {
            "kind": kind,
            "uid": uid if kind == "Pod" else "set-1",
            "namespace": NS,
            "name": "ws-k7mn2p-0" if kind == "Pod" else "ws-k7mn2p",
        },
        "metadata": {"name": name, "namespace": NS, "resourceVersion": "12"},
    }


def unschedulable(message):
    return pod(
        node=None,
        phase="Pending",
        conditions=[
            {
                "type": "PodScheduled",
                "status": "False",
                "reason": "Unschedulable",
                "message": message,
            }
        ],
    )
