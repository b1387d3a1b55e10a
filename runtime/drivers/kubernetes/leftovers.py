"""What is left of a workload whose StatefulSet or Job is gone, and of which no row tells (E11).

A pod is seen by the watch, so it costs nothing to find. Secrets can't be listed, on purpose
(docs/dev/rbac.md): they are removed before the object that leads to them, so that a worker which
dies in between leaves something by which the next one goes on.
"""

from __future__ import annotations

import contextlib
from collections.abc import Collection, Iterable, Iterator

from runtime.drivers.kubernetes import names, observe
from runtime.drivers.kubernetes.builders import group
from runtime.drivers.kubernetes.client import KubeClient, Object
from runtime.drivers.kubernetes.keys import Key, owner_key, uid_of
from runtime.protocol import Denied, Observation, Seen


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
        for kind in group.KINDS:
            _remove(client, (*kind, name, namespace), uid, installation)


def _remove(
    client: KubeClient, where: tuple[str, str, str, str], uid: str, installation: str
) -> None:
    found = client.get(*where)
    if found is None or names.is_foreign(found, installation):
        return
    if uid_of(found) == names.label_value(uid):
        client.delete(*where, uid=found["metadata"]["uid"])
