"""Where the API server of a cluster listens, and rights that it was just given to know.

There no pod of a project has any business. It has more than one address: those that the cluster
itself names, and the one by which it was attached or people's kubectl reaches it (a balancer in
front of it, a managed cluster's public one). It knows a binding a moment after it took it: most
often milliseconds, on a busy cluster seconds, and each of several servers learns it by itself. How
long ago is asked of the cluster, by its own clock: another of our processes may have written the
binding, and ours may have just begun.
"""

import ipaddress
import socket
import time
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any
from urllib.parse import urlsplit

import structlog

from dataplane.addresses import unwrapped
from runtime.drivers.kubernetes import names
from runtime.drivers.kubernetes.builders.tenant_policies import Front, Network, port_of
from runtime.drivers.kubernetes.client import KubeClient, path_of
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


SETTLES_S = 20.0  # a refusal that lasts longer is one
_GOOD = 200
_UNKNOWN = 401
_RBAC = "rbac.authorization.k8s.io/v1"
_REVIEW = {"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview"}
_REVIEWS = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"


def is_settling(client: KubeClient, binding: str, namespace: str) -> bool:
    """Whether we wrote this RoleBinding a moment ago; False where there is none."""
    answer = client.read(path_of(_RBAC, "rolebindings", binding, namespace))
    found = answer.json()
    if answer.status != _GOOD or not isinstance(found, dict):
        return False
    written = max(_times(found), default=None)
    if written is None:
        return False
    # Servers whose clocks differ a little may put it into the future.
    return abs((_now(answer.header("date")) - written).total_seconds()) < SETTLES_S


def may_look(client: KubeClient, token: str, namespace: str) -> bool:
    """Whether who holds the token may list pods there, as every kubeconfig of ours lets him.

    He asks about himself, which takes no right of ours; True where the server won't say.
    """
    asked = {"namespace": namespace, "verb": "list", "resource": "pods"}
    with client.as_holder_of(token) as his:
        answer = his.request(
            "POST", _REVIEWS, None, {**_REVIEW, "spec": {"resourceAttributes": asked}}
        )
    if answer.status == _UNKNOWN:  # this server has not heard of the account or the grant either
        return False
    found = answer.json()
    status = found.get("status") if isinstance(found, dict) else None
    return not isinstance(status, dict) or status.get("allowed") is not False


def may_list(client: KubeClient, group: str, resource: str) -> bool:
    """Whether our own identity may look for such objects; True where the server won't say.

    Looking and making are of one set of roles, but what may be made is bound in each project alone.
    """
    asked = {"verb": "list", "group": group, "resource": resource}
    body = {**_REVIEW, "spec": {"resourceAttributes": asked}}
    found = client.request("POST", _REVIEWS, None, body).json()
    status = found.get("status") if isinstance(found, dict) else None
    return not isinstance(status, dict) or status.get("allowed") is not False


def _times(binding: Mapping[str, Any]) -> Iterator[datetime]:
    """When it was made, and when we last changed it; what others did to it is no reason to wait."""
    meta = binding.get("metadata") or {}
    ours = [f for f in meta.get("managedFields") or () if f.get("manager") == names.MANAGER]
    for stamp in (meta.get("creationTimestamp"), *(f.get("time") for f in ours)):
        if stamp:
            yield datetime.fromisoformat(str(stamp))


def _now(date: str) -> datetime:
    try:
        return parsedate_to_datetime(date).astimezone(UTC)
    except ValueError:  # something between us and the server left it out
        return datetime.now(UTC)
