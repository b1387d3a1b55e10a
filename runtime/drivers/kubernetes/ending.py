"""What to say of a pod that was told to go and is still there (C14), how to end one sooner than its
description says, and what is left of a workload whose StatefulSet or Job is gone (E11).

A pod is seen by the watch, so it costs nothing to find. Secrets can't be listed, on purpose
(docs/dev/rbac.md): they are removed before the object that leads to them, so that a worker which
dies in between leaves something by which the next one goes on.
"""

import contextlib
import time
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from typing import Any

from runtime.capabilities.workloads import Held
from runtime.drivers.kubernetes import names, observe, waiting
from runtime.drivers.kubernetes.builders import pod_fields
from runtime.drivers.kubernetes.client import KubeClient, Object
from runtime.drivers.kubernetes.names import Key, owner_key, uid_of
from runtime.protocol import Denied, NotYet, Observation, Seen

ENDING = "Its pod is still ending."
# A node needs a moment to tell that a program which it killed is over, and clocks differ a little.
SLACK_S = 3.0
AGAIN_S = 2.0  # what is held for long need not be asked often; the watch tells when it is gone


def not_gone(pod: Mapping[str, Any] | None, *, retry_in: float = 0.3) -> NotYet:
    """Return what to raise while ``pod`` is there; after its time was over with the reason."""
    due = None if pod is None else observe.moment(pod["metadata"].get("deletionTimestamp"))
    if pod is None or due is None or time.time() < due + SLACK_S:
        return NotYet(ENDING, retry_in=retry_in)
    return Held(_keeper(pod), retry_in=AGAIN_S)


def _keeper(pod: Mapping[str, Any]) -> str:
    """A node that is away and a mark that somebody put on the pod are mended differently."""
    if held := waiting.kept_by(pod):
        return held
    node = (pod.get("spec") or {}).get("nodeName") or ""
    return f"The node {node} has not said that its pod is over." if node else ENDING


def hurry(client: KubeClient, pod: Object, grace_s: float) -> None:
    """Its own grace is in the description; a shorter one must be said with the deletion."""
    meta, own = pod["metadata"], pod["spec"].get("terminationGracePeriodSeconds", 30)
    asked = max(1, int(grace_s))
    left = meta.get("deletionGracePeriodSeconds", own)
    if asked < min(own, left):
        client.delete("v1", "pods", meta["name"], meta["namespace"], grace_s=asked, uid=meta["uid"])


def end_pods(client: KubeClient, pods: Sequence[Object], grace_s: float) -> None:
    """Let none take longer than ``grace_s``. NotYet while there is one, Held after its time."""
    for pod in pods:
        hurry(client, pod, grace_s)
    if pods:
        raise not_gone(pods[0])


def lone(
    pods: Iterable[Object], owners: Collection[Key], uids: Collection[str]
) -> Iterator[Observation]:
    """Say which uids have nothing but a pod. Pure."""
    told: set[str] = set()
    for pod in pods:
        uid = uid_of(pod)
        if not uid or uid in told or uid in uids or owner_key(pod) in owners:
            continue
        told.add(uid)
        labels = pod["metadata"].get("labels") or {}
        kind, whose = labels.get(names.KIND, ""), labels.get(names.INSTALLATION, "")
        seen = Seen.STOPPING if observe.is_going(pod) else Seen.STARTING
        yield Observation(uid=uid, seen=seen, kind=kind, installation=whose)


def remove_secrets(
    client: KubeClient, uid: str, name: str, namespace: str, installation: str
) -> None:
    """Remove those of this very workload: its name may be another's by now."""
    for secret in (name, names.files_secret(name), names.log_secret(name)):
        _remove(client, ("v1", "secrets", secret, namespace), uid, installation)


def remove_meeting(
    client: KubeClient, uid: str, name: str, namespace: str, installation: str
) -> None:
    """Remove what let the pods of a group meet, where the Job that leads to it is gone."""
    with contextlib.suppress(Denied):  # who may not read them can't have made them
        for kind in pod_fields.KINDS:
            _remove(client, (*kind, name, namespace), uid, installation)


def _remove(
    client: KubeClient, where: tuple[str, str, str, str], uid: str, installation: str
) -> None:
    found = client.get(*where)
    if found is None or names.is_foreign(found, installation):
        return
    if uid_of(found) == names.label_value(uid):
        client.delete(*where, uid=found["metadata"]["uid"])
