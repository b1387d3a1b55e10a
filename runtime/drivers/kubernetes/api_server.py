"""Where the API server of a cluster listens: there no pod of a project has any business.

It has more than one address: those that the cluster itself names, and the one by which it was
attached or people's kubectl reaches it (a balancer in front of it, a managed cluster's public one).
"""

from __future__ import annotations

import ipaddress
import socket
import time
from collections.abc import Iterable, Mapping
from typing import Any
from urllib.parse import urlsplit

import structlog

from dataplane.addresses import unwrapped
from runtime.drivers.kubernetes.builders.tenant.policies import Front, Network, port_of
from runtime.drivers.kubernetes.client import KubeClient
from runtime.drivers.kubernetes.options import KubernetesOptions
from runtime.protocol import Denied

log = structlog.get_logger(__name__)

SLICE = ("discovery.k8s.io/v1", "endpointslices", "kubernetes", "default")
_KEPT_S = 600.0


class ApiServer:
    """Asks and remembers for a while. A name that has no answer now keeps the last one."""

    def __init__(self, client: KubeClient, options: KubernetesOptions) -> None:
        self._client = client
        self._options = options
        self._known: tuple[float, Network] | None = None
        self._fronts: dict[str, tuple[Front, ...]] = {}

    def network(self) -> Network:
        if self._known is not None and time.monotonic() - self._known[0] < _KEPT_S:
            return self._known[1]
        try:
            row = self._client.get(*SLICE)
        except Denied:
            row = None
        made = network_of(row or {}, self._resolved())
        if made.api:  # else it is asked again: a new cluster says it a moment later
            self._known = (time.monotonic(), made)
        return made

    def _resolved(self) -> list[Front]:
        for url in {self._client.access.server, self._options.kube_api_url} - {""}:
            if found := fronts_of(url):
                self._fronts[url] = found
            elif found is None:
                log.warning("kubernetes.api_server_unresolved", url=url)
        return [front for fronts in self._fronts.values() for front in fronts]


def network_of(endpoints: Mapping[str, Any], fronts: Iterable[Front]) -> Network:
    """Return what is known by the EndpointSlice of ``default/kubernetes`` and by names."""
    found = {a for e in endpoints.get("endpoints") or () for a in e.get("addresses") or ()}
    ports = {int(p["port"]) for p in endpoints.get("ports") or () if p.get("port")}
    return Network(
        family=6 if endpoints.get("addressType") == "IPv6" else 4,
        api=tuple(sorted(found)),
        api_ports=tuple(sorted(ports)),
        fronts=tuple(sorted(set(fronts))),
    )


def fronts_of(url: str) -> tuple[Front, ...] | None:
    """Return every address, of both families, that the name has now; None where it has none.

    Without loopback: in a pod that is the pod itself.
    """
    host, port = urlsplit(url).hostname or "", port_of(url)
    try:
        rows = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return None
    told = (ipaddress.ip_address(str(row[4][0]).partition("%")[0]) for row in rows)
    return tuple(sorted({(str(a), port) for a in map(unwrapped, told) if not a.is_loopback}))
