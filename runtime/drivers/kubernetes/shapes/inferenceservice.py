"""What serves, where a cluster has KServe: an InferenceService in its Standard mode.

The container is ours, and how many of it run Berth decides: KServe makes a Deployment of it,
without a scaler and without a route, as requests are sent to the pods themselves. No replica, be
it asleep or stopped, is KServe's own stop: the Deployment goes, the InferenceService stays. Kueue
lets each pod in for itself.
"""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from runtime import training
from runtime.capabilities.workloads import Held
from runtime.drivers.kubernetes import names, observe_served
from runtime.drivers.kubernetes import observe as seeing
from runtime.drivers.kubernetes.builders import pod_fields, workload
from runtime.drivers.kubernetes.builders.tenant_policies import peer
from runtime.drivers.kubernetes.client import Object
from runtime.drivers.kubernetes.ending import AGAIN_S, ENDING, hurry, not_gone
from runtime.drivers.kubernetes.observe import Sight
from runtime.drivers.kubernetes.observe_served import STOP
from runtime.drivers.kubernetes.options import KubernetesOptions
from runtime.drivers.kubernetes.shapes.base import Hands, Pod
from runtime.protocol import InvalidSpec, NotYet, Observation
from runtime.spec import WorkloadSpec

VERSION, PLURAL, KIND = "serving.kserve.io/v1beta1", "inferenceservices", names.SERVED
operator = training.KSERVE
_MODE = {
    "serving.kserve.io/deploymentMode": "Standard",
    "serving.kserve.io/autoscalerClass": "none",
}
_POLICIES = pod_fields.KINDS[1]
_AWAY = f"KServe does not take it down: it does not run, or is older than {training.KSERVE_LEAST}."
_PATIENCE_S = 20.0  # it does so within a second where it runs
_SILENT = 3  # unanswered in a row, it is asked no more requests until it answers again


def build(
    spec: WorkloadSpec, options: KubernetesOptions, *, files: bool = False
) -> list[dict[str, Any]]:
    """Everything is said, also that it is not stopped: what is not said would stay as it was."""
    if operator not in options.operators:
        raise InvalidSpec("This cluster has no KServe, by which models are served.")
    if spec.serve is None or spec.serve.replicas < 1:
        raise InvalidSpec("What serves begins with one replica or more.")
    meta, labels = workload.head(spec, options)
    final = ",".join(map(str, spec.retry.never))
    meta["annotations"] |= {**_MODE, STOP: "false", names.FINAL: final}
    labels[names.WORKLOAD] = meta["name"]
    made = workload.template(spec, options, labels=labels, files=files)
    pod, head = made["spec"], made["metadata"]
    container = pod["containers"][0]
    container["name"] = names.KSERVE
    if asks := container.get("startupProbe"):
        container["readinessProbe"] = {**asks, "failureThreshold": _SILENT}
    own = workload.own(spec, options)
    ports = dict.fromkeys([workload.port_of(spec), *spec.ports])
    ways = [pod_fields.way(own, map(peer, options.proxy_peers), ports)]
    predictor = {**pod, "annotations": head["annotations"], "labels": head["labels"]}
    return [
        *(ways if options.proxy_peers else ()),
        {
            "apiVersion": VERSION,
            "kind": KIND,
            "metadata": meta,
            "spec": {"predictor": predictor | _so_many(spec.serve.replicas)},
        },
    ]


def _so_many(replicas: int) -> dict[str, int]:
    return {"minReplicas": replicas, "maxReplicas": replicas}


def pods(owner: Mapping[str, Any], pods: Iterable[Pod]) -> list[Pod | None]:
    return observe_served.pods(owner, pods)


def observe(sights: Sequence[Sight]) -> Observation:
    return observe_served.judge(sights)


def beside(owner: Mapping[str, Any]) -> list[tuple[str, str, str]]:
    return [(*_POLICIES, str(owner["metadata"]["name"]))]


def scale(hands: Hands, owner: Object, replicas: int) -> None:
    """Let so many run, within this launch."""
    if observe_served.is_stopped(owner) or observe_served.wanted_of(owner) == replicas:
        return
    # Not over a stop that came in between: who reads on is told so, and asks again.
    seen = {"resourceVersion": owner["metadata"]["resourceVersion"]}
    notes = {STOP: "false" if replicas else "true"}
    change: dict[str, Any] = {"metadata": {"annotations": notes, **seen}}
    if replicas:
        change["spec"] = {"predictor": _so_many(replicas)}
    _patch(hands, owner, change)


def must_write(hands: Hands, owner: Object, spec: WorkloadSpec) -> bool:
    """An older launch ends first; its object then becomes this one's."""
    if owner["metadata"].get("deletionTimestamp"):
        raise NotYet(ENDING, retry_in=0.3)
    if seeing.launch_of(owner) >= spec.launch:
        return False
    stop(hands, owner, grace_s=spec.stop_grace_s)
    return True


def stop(hands: Hands, owner: Object, *, grace_s: float) -> None:
    """NotYet until no pod of it is there and none can come any more; Held when KServe is away."""
    if owner["metadata"].get("deletionTimestamp"):
        raise NotYet(ENDING, retry_in=0.5)
    found = hands.pods(owner)
    notes: dict[str, str] = {}
    if not observe_served.is_stopped(owner):
        its = [pod for pod in observe_served.pods(owner, found) if pod is not None]
        end = observe_served.end_of(owner, its) if its else None
        hands.logs.keep(owner, its)
        note = {"launch": seeing.launch_of(owner), "at": time.time(), "reason": "stopped"}
        note |= {} if end is None else seeing.as_note(end)
        notes = {names.ENDED: json.dumps(note, separators=(",", ":"))}
    if notes or observe_served.wanted_of(owner):  # somebody let it run again all the same
        _patch(hands, owner, {"metadata": {"annotations": {**notes, STOP: "true"}}})
    for pod in found:
        hurry(hands.client, pod, grace_s)
    stays = [pod for pod in found if not seeing.is_going(pod)]
    if not stays and found:
        raise not_gone(found[0])
    if stays or seeing.condition_of(owner, "Stopped").get("status") != "True":
        since = time.time() - float(seeing.note_of(owner).get("at") or time.time())
        if since > _PATIENCE_S:
            raise Held(_AWAY, retry_in=AGAIN_S)
        raise NotYet("KServe has not taken it down yet.", retry_in=0.2)


def remove(hands: Hands, owner: Object) -> None:
    """Take it away with what lies beside it, itself last: it leads to the rest."""
    meta = owner["metadata"]
    for version, plural, name in beside(owner):
        hands.client.delete(version, plural, name, meta["namespace"])
    hands.client.delete(VERSION, PLURAL, meta["name"], meta["namespace"], uid=meta["uid"])


def _patch(hands: Hands, owner: Object, change: Mapping[str, Any]) -> None:
    meta = owner["metadata"]
    hands.client.patch(VERSION, PLURAL, meta["name"], meta["namespace"], change)
