"""What the cluster holds of a workload, as people may read it: its objects and latest events.

Secrets are never read; how a program is called and ended, and what its environment holds, is left
out for everybody but the owner.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from runtime.capabilities import Inspection
from runtime.drivers.kubernetes.client import KubeClient
from runtime.drivers.kubernetes.names import ENDED
from runtime.drivers.kubernetes.recent import recent_events
from runtime.drivers.kubernetes.waiting import event_time

_HIDDEN = "kubectl.kubernetes.io/last-applied-configuration"


def inspect(
    client: KubeClient, where: Mapping[str, str], *, for_owner: bool, most: int, seconds: float
) -> Inspection:
    namespace, name, pod = where["namespace"], where["name"], where["pod"]
    found = [
        client.get("apps/v1", "statefulsets", name, namespace),
        client.get("v1", "pods", pod, namespace),
    ]
    seen = recent_events(client, namespace, sorted({name, pod}), most=most, seconds=seconds)
    return Inspection(
        objects={
            f"{one.get('kind', '')} {one['metadata']['name']}": clean(one, for_owner=for_owner)
            for one in found
            if one
        },
        events=tuple(_event(one) for one in seen.rows),
        more=seen.more,
        unread=seen.unread,
    )


def clean(obj: Mapping[str, Any], *, for_owner: bool) -> dict[str, Any]:
    """Return it as a person wants to read it: no bookkeeping, no values of others."""
    shown: dict[str, Any] = copy.deepcopy(dict(obj))
    meta = shown.get("metadata", {})
    meta.pop("managedFields", None)
    (meta.get("annotations") or {}).pop(_HIDDEN, None)
    if not for_owner:
        shown.pop("status", None)  # how a program ended is its owner's
        (meta.get("annotations") or {}).pop(ENDED, None)
        for containers in _container_lists(shown):
            for container in containers:
                for name in ("command", "args"):
                    if name in container:
                        container[name] = ["…"]
                for one in container.get("env") or []:
                    if "value" in one:
                        one["value"] = "…"
    return shown


def _container_lists(obj: Mapping[str, Any]) -> list[list[dict[str, Any]]]:
    spec = obj.get("spec") or {}
    if "template" in spec:
        spec = (spec["template"] or {}).get("spec") or {}
    return [spec.get(kind) or [] for kind in ("containers", "initContainers")]


def _event(one: Mapping[str, Any]) -> dict[str, Any]:
    series = one.get("series") or {}
    source = one.get("reportingComponent") or (one.get("source") or {}).get("component") or ""
    return {
        "at": event_time(one),
        "kind": str(one.get("type", "")),
        "reason": str(one.get("reason", ""))[:80],
        "message": str(one.get("message", ""))[:600],
        "count": int(series.get("count") or one.get("count") or 1),
        "object": str((one.get("involvedObject") or {}).get("name", ""))[:120],
        "source": str(source)[:80],
    }
