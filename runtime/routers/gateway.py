"""Gateway API: an HTTPRoute and a Service per workspace host, beside the workspace's pod.

The gateway itself (Traefik, Envoy …) is the operator's. Routes are objects of the cluster, so a
gateway that restarts has forgotten nothing, and hand-made changes are found every ``LIST_S``.
What it cannot do is end the open sockets of one visitor; configurable-http-proxy can. So WebSockets
are led through it where ``Gateway.proxy`` names its Service: a second HTTPRoute of the same host,
beside that Service, takes the requests that ask for one, and the first can't carry any.
"""

from __future__ import annotations

import hashlib
import re
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import structlog

from runtime.drivers.kubernetes import names
from runtime.drivers.kubernetes.client import KubeClient
from runtime.protocol import Unreachable
from runtime.reasons import Reason
from runtime.routers.base import RouteEntry

log = structlog.get_logger(__name__)

Object = dict[str, Any]
Find = Callable[[str], Mapping[str, str] | None]

API = "gateway.networking.k8s.io/v1"
KIND = "route"
TARGET, KEY = f"{names.DOMAIN}/target", f"{names.DOMAIN}/route"
SOCKETS = f"{names.DOMAIN}/sockets"
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


MAX_PORT = 65535
_SERVICE = re.compile(r"([a-z0-9-]{1,63})/([a-z0-9-]{1,63}):([0-9]{1,5})")


@dataclass(frozen=True)
class ProxyService:
    """The Service of the notebook proxy, on the cluster of the Gateway."""

    namespace: str
    name: str
    port: int

    @classmethod
    def parse(cls, text: str) -> ProxyService | None:
        found = _SERVICE.fullmatch(text)
        if text and (found is None or not 0 < int(found[3]) <= MAX_PORT):
            raise ValueError(f"BERTH_GATEWAY_PROXY must be namespace/service:port, not {text!r}.")
        return cls(found[1], found[2], int(found[3])) if found else None


@dataclass(frozen=True)
class Gateway:
    """Where routes are attached, how ours are told from others', and who carries WebSockets."""

    namespace: str
    name: str
    section: str = ""
    prefix: str = "berth-"
    proxy: ProxyService | None = None
    installation: str = ""

    @classmethod
    def parse(cls, text: str, prefix: str, proxy: str = "", installation: str = "") -> Gateway:
        parts = text.split("/")
        if len(parts) not in (2, 3) or not all(parts):
            message = (
                f"BERTH_GATEWAY must be namespace/name or namespace/name/listener, not {text!r}."
            )
            raise ValueError(message)
        section = parts[2] if parts[2:] else ""
        carrier = ProxyService.parse(proxy)
        return cls(parts[0], parts[1], section, prefix, carrier, installation)

    @property
    def parent(self) -> Object:
        parent = {"name": self.name, "namespace": self.namespace}
        return {**parent, "sectionName": self.section} if self.section else parent


def name_of(key: str) -> str:
    return f"route-{hashlib.sha256(key.encode()).hexdigest()[:16]}"


def objects(entry: RouteEntry, namespace: str, gateway: Gateway) -> list[Object]:
    """Return Service and HTTPRoute of one host, and the HTTPRoute of its WebSockets. Pure."""
    name = name_of(entry.key)
    labels = names.labels(gateway.prefix, gateway.installation, uid=entry.uid, kind=KIND)
    meta = {"name": name, "namespace": namespace, "labels": labels}
    service: Object = {
        "apiVersion": "v1",
        "kind": "Service",
        "metadata": {**meta, "annotations": {KEY: entry.key}},
        "spec": {
            "selector": {names.UID: names.label_value(entry.uid)},
            # A route is made once it answered; the node looks once a second and may say so later.
            "publishNotReadyAddresses": True,
            "ports": [{"name": "http", "port": 80, "targetPort": urlsplit(entry.target).port}],
        },
    }
    # without the header nothing becomes a WebSocket, however oddly it is asked for
    foreign = [*FOREIGN, "Upgrade"] if gateway.proxy else list(FOREIGN)
    rule = {
        "matches": [{"path": {"type": "PathPrefix", "value": "/"}}],
        "filters": [
            {"type": "RequestHeaderModifier", "requestHeaderModifier": {"remove": foreign}}
        ],
        "backendRefs": [{"name": name, "port": 80}],
    }
    notes = {KEY: entry.key, TARGET: entry.target}
    route = _route({**meta, "annotations": notes}, entry.key, rule, gateway)
    return [service, route, *([_sockets(entry, gateway, gateway.proxy)] if gateway.proxy else [])]


def _sockets(entry: RouteEntry, gateway: Gateway, proxy: ProxyService) -> Object:
    asks = {"type": "Exact", "name": "Upgrade", "value": "websocket"}
    rule = {
        "matches": [{"path": {"type": "PathPrefix", "value": "/"}, "headers": [asks]}],
        "backendRefs": [{"name": proxy.name, "port": proxy.port}],
    }
    meta = {
        "name": name_of(entry.key),
        "namespace": proxy.namespace,
        "labels": names.labels(gateway.prefix, gateway.installation, uid=entry.uid, kind=KIND),
        "annotations": {KEY: entry.key, SOCKETS: f"{proxy.name}:{proxy.port}"},
    }
    return _route(meta, entry.key, rule, gateway)


def _route(meta: Object, key: str, rule: Object, gateway: Gateway) -> Object:
    spec = {"parentRefs": [gateway.parent], "hostnames": [key.strip("/")], "rules": [rule]}
    return {"apiVersion": API, "kind": "HTTPRoute", "metadata": meta, "spec": spec}


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
        client = self._kube()
        if before is not None and before[1] != namespace:
            # two routes for one host would be two answers: the earlier workload's goes first
            self._delete(client, entry.key, before[1])
        service, route, *sockets = objects(entry, namespace, self.gateway)
        # All of them each time: what a drop took away before it failed, here or in another
        # process, nobody knows; and the route comes when there is something behind it.
        for one in (service, *sockets, route):
            client.apply(one)
        with self._lock:
            self._known[entry.key] = (entry, namespace)

    def drop(self, key: str) -> None:
        key = _plain(key)
        if key not in self._known:
            self._read()  # another process may have made it
        if known := self._known.get(key):
            self._delete(self._kube(), key, known[1])
        with self._lock:
            self._known.pop(key, None)

    def cut(self, key: str, *, visitor: str | None = None) -> int:
        """No gateway can; what is asked anew is judged anew by the workload."""
        if self.gateway.proxy is None:
            log.info("routes.cannot_cut", key=key, one=visitor is not None)
        return 0

    def list(self) -> Mapping[str, RouteEntry]:
        if time.monotonic() - self._listed > LIST_S or not self._listed:
            self._read()
        with self._lock:
            return {key: entry for key, (entry, _) in self._known.items()}

    def reach(self, target: str) -> str | None:
        """A Gateway is the operator's own: nothing here may ask from where it is."""
        del target
        return None

    def epoch(self) -> str:
        """Routes outlive every gateway: nothing is forgotten by a restart."""
        return f"{self.gateway.namespace}/{self.gateway.name}"

    # ---------------------------------------------------------------------------------------------

    def _delete(self, client: KubeClient, key: str, namespace: str) -> None:
        """HTTPRoutes last: by them a route is found again by whoever goes on after a crash."""
        name = name_of(key)
        if namespace:
            client.delete("v1", "services", name, namespace)
        if self.gateway.proxy:
            client.delete(API, "httproutes", name, self.gateway.proxy.namespace)
        if namespace:
            client.delete(API, "httproutes", name, namespace)

    def _kube(self) -> KubeClient:
        client = self._client()
        if client is None:
            message = "This process has no credential of the cluster of the gateway."
            raise Unreachable(message, reason=Reason.PROXY_UNREACHABLE)
        return client

    def _read(self) -> None:
        selector = names.selector(self.gateway.prefix, {names.KIND: KIND})
        found: dict[str, tuple[RouteEntry, str]] = {}
        carried: dict[str, tuple[str, str]] = {}
        for row in self._kube().list(API, "httproutes", selector=selector):
            if names.is_foreign(row, self.gateway.installation):
                continue  # what nobody here wants would be dropped
            meta = row["metadata"]
            notes, labels = meta.get("annotations") or {}, meta.get("labels") or {}
            key = notes.get(KEY)
            if key and SOCKETS in notes:
                carried[key] = (meta["namespace"], notes[SOCKETS])
            elif key:
                entry = RouteEntry(key, notes.get(TARGET, ""), labels.get(names.UID, ""))
                found[key] = (entry, meta["namespace"])
        self._doubt_unlike(found, carried)
        with self._lock:
            self._known, self._listed = found, time.monotonic()

    def _doubt_unlike(
        self, found: dict[str, tuple[RouteEntry, str]], carried: Mapping[str, tuple[str, str]]
    ) -> None:
        """A host that lacks its way for WebSockets, or has but that, is there with no target: who
        wants it puts it again, and else it is dropped.
        """
        proxy = self.gateway.proxy
        if proxy is None:
            return
        ours = (proxy.namespace, f"{proxy.name}:{proxy.port}")
        for key in {*found, *carried}:
            entry, namespace = found.get(key) or (RouteEntry(key, "", ""), "")
            if not namespace or carried.get(key) != ours:
                found[key] = (RouteEntry(key, "", entry.uid), namespace)


def _plain(key: str) -> str:
    inner = key.strip("/")
    if not inner or "/" in inner:
        raise ValueError(f"{key!r} is not a host: a gateway routes by host only.")
    return f"/{inner}"
