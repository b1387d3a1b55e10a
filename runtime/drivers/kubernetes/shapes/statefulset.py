"""What goes on until it is stopped: a StatefulSet of one replica.

Its pod has a stable name and comes back after a preemption. A stop wants no replica and keeps the
StatefulSet, with the note of how the run ended: the pod takes its own record with it.
"""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from runtime.drivers.kubernetes import names
from runtime.drivers.kubernetes import observe as seeing
from runtime.drivers.kubernetes.builders import workload
from runtime.drivers.kubernetes.builders.workload import template
from runtime.drivers.kubernetes.client import Object
from runtime.drivers.kubernetes.ending import ENDING, hurry, not_gone
from runtime.drivers.kubernetes.observe import Sight
from runtime.drivers.kubernetes.options import KubernetesOptions
from runtime.drivers.kubernetes.shapes.base import Hands, Pod
from runtime.protocol import InvalidSpec, NotYet, Observation
from runtime.spec import WorkloadSpec

VERSION, PLURAL, KIND = "apps/v1", "statefulsets", "StatefulSet"
SAYS_MORE_S = 10.0  # who is given longer than any stop is being parked, and has things to save


def build(
    spec: WorkloadSpec, options: KubernetesOptions, *, files: bool = False
) -> list[dict[str, Any]]:
    """One replica with a stable name: a bare pod would not come back after a preemption."""
    if spec.is_group:
        raise InvalidSpec("Only what runs to its end can have several replicas.")
    meta, pod_labels = workload.head(spec, options)
    return [
        {
            "apiVersion": VERSION,
            "kind": KIND,
            "metadata": meta,
            "spec": {
                "podManagementPolicy": "Parallel",
                "replicas": 1,
                "revisionHistoryLimit": 1,
                "selector": {"matchLabels": {names.UID: meta["labels"][names.UID]}},
                "template": template(spec, options, labels=pod_labels, files=files),
            },
        }
    ]


def pods(owner: Mapping[str, Any], pods: Iterable[Pod]) -> list[Pod | None]:
    name = names.pod(owner["metadata"]["name"])
    return [next((pod for pod in pods if pod["metadata"]["name"] == name), None)]


def observe(sights: Sequence[Sight]) -> Observation:
    return seeing.judge(sights[0])


def beside(owner: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    del owner
    return []


def must_write(hands: Hands, owner: Object, spec: WorkloadSpec) -> bool:
    if owner["metadata"].get("deletionTimestamp"):
        raise NotYet(ENDING, retry_in=0.5)
    if seeing.launch_of(owner) >= spec.launch:
        return False
    (pod,) = pods(owner, hands.pods(owner))
    if pod is None and not seeing.replicas_of(owner):
        return True
    if pod is not None and seeing.ending_of(pod) is not None:
        return True  # it ended by itself; the new description replaces its pod
    if seeing.replicas_of(owner):  # asked once: what is held by something comes here often
        _scale_down(hands, owner, pod)
    raise not_gone(pod)


def stop(hands: Hands, owner: Object, *, grace_s: float) -> None:
    if owner["metadata"].get("deletionTimestamp"):
        raise NotYet(ENDING, retry_in=0.5)
    (pod,) = pods(owner, hands.pods(owner))
    if seeing.replicas_of(owner):
        owner = _scale_down(hands, owner, pod)
    elif pod is not None and grace_s > SAYS_MORE_S and seeing.ending_of(pod) is None:
        hands.logs.keep(owner, [pod])  # what it says, and its owner's hook, while it ends
    if pod is not None:
        hurry(hands.client, pod, grace_s)
        raise not_gone(pod)
    status = owner.get("status") or {}
    if int(status.get("observedGeneration", 0)) < int(owner["metadata"].get("generation", 0)):
        raise NotYet(ENDING, retry_in=0.1)  # a pod may just be made


def remove(hands: Hands, owner: Object) -> None:
    """Take it away; what it had of claims stays."""
    meta = owner["metadata"]
    hands.client.delete(VERSION, PLURAL, meta["name"], meta["namespace"])


def _scale_down(hands: Hands, owner: Object, pod: Object | None) -> Object:
    """Note how it ended, keep the end of its log, and want no pod: one write, two at most."""
    launch = seeing.launch_of(owner)
    end = None
    if pod is not None and seeing.launch_of(pod) == launch:
        end = seeing.ending_of(pod)
        hands.logs.keep(owner, [pod])
    note = {"launch": launch, "at": time.time(), "reason": "stopped", **(end or {})}
    change = {
        "metadata": {"annotations": {names.ENDED: json.dumps(note, separators=(",", ":"))}},
        "spec": {"replicas": 0},
    }
    meta = owner["metadata"]
    return hands.client.patch(VERSION, PLURAL, meta["name"], meta["namespace"], change) or owner
