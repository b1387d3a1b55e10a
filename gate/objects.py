"""What the cluster itself holds of a workspace: its objects as YAML, and the latest events.

Asked by ``web`` through ``runtime.gateway`` after it has checked access; answered where the
credential is. No secret is in it: Secrets are never read, and the values of the environment are
left out for everybody but the owner.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import yaml
from django.utils.translation import gettext as _

from clusters.registry import driver_for
from common.errors import BerthError, Unavailable
from runtime import gateway
from runtime.drivers.kubernetes.driver import KubernetesDriver
from runtime.drivers.kubernetes.names import ENDED
from runtime.drivers.kubernetes.recent import recent_events
from runtime.drivers.kubernetes.waiting import event_time

NAME = "workspace/objects"
MOST_EVENTS = 100
TIMEOUT_S = 5.0  # so long a page waits for all of it
EVENTS_S = 2.5  # of which reading events may take so much
_HIDDEN = "kubectl.kubernetes.io/last-applied-configuration"


@dataclass(frozen=True)
class Seen:
    """``problem`` says why the rest is empty."""

    objects: tuple[Mapping[str, str], ...] = ()  # title and yaml of each
    events: tuple[Mapping[str, Any], ...] = ()
    more: bool = False  # there are other events, older ones
    unread: bool = False  # not all could be read in time: newer ones may be missing
    problem: str = ""


def register() -> None:
    gateway.register(NAME, answer)


def ask(cluster: str, objects: Mapping[str, str], *, with_env: bool) -> Seen:
    payload = {"cluster": cluster, "with_env": with_env, **objects}
    try:
        said = gateway.ask(NAME, payload, timeout_s=TIMEOUT_S)
    except BerthError as error:
        return Seen(problem=error.message)
    return Seen(
        objects=tuple(said["objects"]),
        events=tuple(said["events"]),
        more=bool(said.get("more")),  # a gate of the release before says neither
        unread=bool(said.get("unread")),
    )


def answer(payload: Mapping[str, Any]) -> Mapping[str, Any]:
    driver = driver_for(str(payload["cluster"]))
    if not isinstance(driver, KubernetesDriver):
        raise Unavailable(_("This process holds no key to clusters."))
    client, namespace = driver.client, str(payload["namespace"])
    name, pod = str(payload["name"]), str(payload["pod"])
    found = [
        client.get("apps/v1", "statefulsets", name, namespace),
        client.get("v1", "pods", pod, namespace),
    ]
    with_env = bool(payload.get("with_env"))
    shown = [_titled(clean(one, with_env=with_env)) for one in found if one]
    seen = recent_events(client, namespace, sorted({name, pod}), most=MOST_EVENTS, seconds=EVENTS_S)
    return {
        "objects": shown,
        "events": [_event(one) for one in seen.rows],
        "more": seen.more,
        "unread": seen.unread,
    }


def _titled(obj: Mapping[str, Any]) -> dict[str, str]:
    text = yaml.safe_dump(dict(obj), sort_keys=False, allow_unicode=True)
    return {"title": f"{obj.get('kind', '')} {obj['metadata']['name']}", "yaml": text}


def clean(obj: Mapping[str, Any], *, with_env: bool) -> dict[str, Any]:
    """Return it as a person wants to read it: no bookkeeping, no values of others."""
    shown: dict[str, Any] = copy.deepcopy(dict(obj))
    meta = shown.get("metadata", {})
    meta.pop("managedFields", None)
    (meta.get("annotations") or {}).pop(_HIDDEN, None)
    if not with_env:
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
