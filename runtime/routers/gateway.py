"""Gateway API: an HTTPRoute and a Service per workspace host, beside the workspace's pod.

The gateway itself (Traefik, Envoy …) is the operator's. Routes are objects of the cluster, so a
gateway that restarts has forgotten nothing, and hand-made changes are found every ``LIST_S``.
What it cannot do is end the open sockets of one visitor; configurable-http-proxy can.
"""

from __future__ import annotations

import hashlib
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import structlog

from runtime.drivers.kubernetes import names
from runtime.drivers.kubernetes.client import KubeClient
from runtime.protocol import RouteEntry, Unreachable
from runtime.reasons import Reason

log = structlog.get_logger(__name__)

Object = dict[str, Any]
Find = Callable[[str], Mapping[str, str] | None]

API = "gateway.networking.k8s.io/v1"
KIND = "route"
TARGET, KEY = f"{names.DOMAIN}/target", f"{names.DOMAIN}/route"
LIST_S = 600.0
# By these some proxy tells an application who the user is; a browser may send any of them.
FOREIGN = (
    "Forwarded",
    "Kubeflow-Userid",
    "Remote-User",
    "X-Auth-Request-Email",
    "X-Auth-Request-User",
    "X-Email",
    "X-Forwarded-Email",
    "X-Forwarded-Groups",
    "X-Forwarded-User",
    "X-Goog-Authenticated-User-Email",
    "X-Ms-Client-Principal",
    "X-Remote-User",
    "X-User",
    "X-Webauth-User",
)


@dataclass(frozen=True)
class Gateway:
    """Where routes are attached, and how ours are told from others'."""

    namespace: str
    name: str
    section: str = ""
    prefix: str = "berth-"

    @classmethod
    def parse(cls, text: str, prefix: str) -> Gateway:
        parts = text.split("/")
        if len(parts) not in (2, 3) or not all(parts):
            message = (
                f"BERTH_GATEWAY must be namespace/name or namespace/name/listener, not {text!r}."
            )
            raise ValueError(message)
        return cls(parts[0], parts[1], parts[2] if parts[2:] else "", prefix)


def name_of(key: str) -> str:
    return f"route-{hashlib.sha256(key.encode()).hexdigest()[:16]}"


def objects(entry: RouteEntry, namespace: str, gateway: Gateway) -> list[Object]:
    """Return Service and HTTPRoute of one host. Pure."""
    target = urlsplit(entry.target)
    meta = {
        "name": name_of(entry.key),
        "namespace": namespace,
        "labels": names.labels(gateway.prefix, uid=entry.uid, kind=KIND),
        "annotations": {KEY: entry.key, TARGET: entry.target},
    }
    parent: Object = {"name": gateway.name, "namespace": gateway.namespace}
    if gateway.section:
        parent["sectionName"] = gateway.section
    service: Object = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {**meta, "annotations": {KEY: entry.key}},
        "spec": {
            "selector": {names.UID: names.label_value(entry.uid)},
            "ports": [{"name": "http", "port": 80, "targetPort": target.port}],
        },
    }
    route: Object = {
        "apiVersion": API,
        "kind": "HTTPRoute",
        "metadata": meta,
        "spec": {
            "parentRefs": [parent],
            "hostnames": [entry.key.strip("/")],
            "rules": [
                {
                    "matches": [{"path": {"type": "PathPrefix", "value": "/"}}],
                    "filters": [
                        {
                            "type": "RequestHeaderModifier",
                            "requestHeaderModifier": {"remove": list(FOREIGN)},
                        }
                    ],
                    "backendRefs": [{"name": meta["name"], "port": 80}],
                }
            ],
        },
    }
    return [service, route]


class GatewayRouter:
    """``client`` answers None in a process without the cluster's credential (``web``)."""

    def __init__(
        self, gateway: Gateway, client: Callable[[], KubeClient | None], find: Find
    ) -> None:
        self.gateway = gateway
        self._client, self._find = client, find
        self._lock = threading.Lock()
        self._known: dict[str, tuple[RouteEntry, str]] = {}  # with its namespace
        self._listed = 0.0

    def put(self, entry: RouteEntry) -> None:
        entry = RouteEntry(_plain(entry.key), entry.target, entry.uid)
        place = self._find(entry.uid)
        if place is None:
            message = "The workspace is not on the cluster whose gateway carries people."
            raise Unreachable(message, reason=Reason.PROXY_UNREACHABLE)
        namespace = str(place["namespace"])
        before = self._known.get(entry.key)
        service, route = objects(entry, namespace, self.gateway)
        client = self._kube()
        if before is not None and before[1] != namespace:
            # two routes for one host would be two answers: the earlier workload's goes first
            self._delete(client, entry.key, before[1])
        if before is None or _port(before[0]) != _port(entry) or before[1] != namespace:
            client.apply(service)
        client.apply(route)
        with self._lock:
            self._known[entry.key] = (entry, namespace)

    def drop(self, key: str) -> None:
        key = _plain(key)
        namespace = self._known[key][1] if key in self._known else self._look(key)
        if namespace:
            self._delete(self._kube(), key, namespace)
        with self._lock:
            self._known.pop(key, None)

    def cut(self, key: str, *, visitor: str | None = None) -> int:
        """No gateway can; what is asked anew is judged anew by the workload."""
        log.info("routes.cannot_cut", key=key, one=visitor is not None)
        return 0

    def list(self) -> Mapping[str, RouteEntry]:
        if time.monotonic() - self._listed > LIST_S or not self._listed:
            self._read()
        with self._lock:
            return {key: entry for key, (entry, _) in self._known.items()}

    def epoch(self) -> str:
        """Routes outlive every gateway: nothing is forgotten by a restart."""
        return f"{self.gateway.namespace}/{self.gateway.name}"

    # ---------------------------------------------------------------------------------------------

    @staticmethod
    def _delete(client: KubeClient, key: str, namespace: str) -> None:
        client.delete(API, "httproutes", name_of(key), namespace)
        client.delete("v1", "services", name_of(key), namespace)

    def _kube(self) -> KubeClient:
        client = self._client()
        if client is None:
            message = "This process has no credential of the cluster of the gateway."
            raise Unreachable(message, reason=Reason.PROXY_UNREACHABLE)
        return client

    def _look(self, key: str) -> str:
        """Return the namespace of a route that another process made."""
        self._read()
        return self._known[key][1] if key in self._known else ""

    def _read(self) -> None:
        selector = names.selector(self.gateway.prefix, {names.KIND: KIND})
        found = {}
        for row in self._kube().list(API, "httproutes", selector=selector):
            meta = row["metadata"]
            notes, labels = meta.get("annotations") or {}, meta.get("labels") or {}
            if key := notes.get(KEY):
                entry = RouteEntry(key, notes.get(TARGET, ""), labels.get(names.UID, ""))
                found[key] = (entry, meta["namespace"])
        with self._lock:
            self._known, self._listed = found, time.monotonic()


def _plain(key: str) -> str:
    inner = key.strip("/")
    if not inner or "/" in inner:
        message = f"{key!r} is not a host: a gateway routes by host only."
        raise ValueError(message)
    return f"/{inner}"


def _port(entry: RouteEntry) -> int | None:
    return urlsplit(entry.target).port
