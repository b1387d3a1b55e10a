"""Which driver and router serve a cluster. A closed list of names; code, never data, runs."""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from clusters import installed
from clusters.installed import ensure_local_cluster
from clusters.models import KUBERNETES, Cluster
from clusters.options import options_of
from common import sealing
from runtime import installation, reconcilers
from runtime.models import ONE_MACHINE, ObservedWorkload
from runtime.protocol import Driver, Unreachable
from runtime.reasons import Reason

if TYPE_CHECKING:
    from runtime.drivers.kubernetes.client import KubeClient
    from runtime.routers.base import Router
    from runtime.routers.gateway import Find
    from runtime.streams import Streams


REVISION_EVERY_S = 5.0  # how long a process may use a driver whose row was changed elsewhere


@dataclass
class _Kept:
    driver: Driver
    row: Cluster  # what it was made from
    made: float  # monotonic, like the next one
    asked: float


Lookup = Callable[[str], Mapping[str, str] | None]

_lookups: list[Lookup] = []
_lock = threading.RLock()
_drivers: dict[str, _Kept] = {}
_routers: dict[str, Router] = {}


def _fake_path(name: str) -> Path | None:
    base = os.environ.get("BERTH_FAKE_WORLD", "")
    return Path(base).with_suffix(f".{name}.json") if base else None


def _fake(_cluster: Cluster) -> Driver:
    from runtime.drivers.fake import FakeDriver

    return FakeDriver(_fake_path("driver"), installation.own_id())


def _local(_cluster: Cluster) -> Driver:
    from runtime.drivers.local.driver import LocalDriver

    made: Driver = LocalDriver(installation=installation.own_id())
    return made


def _kubernetes(cluster: Cluster) -> Driver:
    """The driver where a credential can be opened; elsewhere one that asks the gate."""
    access = access_of(cluster)
    if access is None:
        from runtime.gateway import RemoteDriver

        remote: Driver = RemoteDriver(cluster.key)
        return remote
    from runtime.drivers.kubernetes.driver import KubernetesDriver

    made: Driver = KubernetesDriver(access, driver_options(cluster), cluster.key, lookup)
    return made


def driver_options(cluster: Cluster) -> Any:
    """Return what the driver is to know of the operator's options."""
    from runtime.drivers.kubernetes.builders.queues import LOCAL as LOCAL_QUEUE
    from runtime.drivers.kubernetes.options import KubernetesOptions

    options = options_of(cluster.options)
    names = {f.name for f in fields(options)}
    values = {
        f.name: getattr(options, f.name) for f in fields(KubernetesOptions) if f.name in names
    }
    values["hub_url"] = options.hub_url or settings.BERTH_INTERNAL_URL
    values["installation"] = installation.own_id()
    values["operators"] = tuple(cluster.operators)
    if options.manages_queues:
        values["queue"] = LOCAL_QUEUE
    return KubernetesOptions(**values)


def access_of(cluster: Cluster) -> Any:
    """Return the opened ``KubeAccess``; None where this process may not have it."""
    if installed.is_own(cluster):
        from runtime.drivers.kubernetes.access import own_access

        return own_access()
    if not settings.BERTH_CLUSTER_PRIVATE_KEY:
        return None
    from runtime.drivers.kubernetes import kubeconfig

    try:
        text = sealing.unseal(cluster.sealed_kubeconfig, settings.BERTH_CLUSTER_PRIVATE_KEY)
    except sealing.SealError as error:
        message = f"The kubeconfig of {cluster.name} can't be opened: {error}"
        raise Unreachable(message) from error
    return kubeconfig.parse(text)


def streams_of(cluster: Cluster) -> Streams | None:
    """Return new streams into what runs there; None where this process may not have them."""
    from runtime.drivers.kubernetes.access import check_from_settings
    from runtime.drivers.kubernetes.streams import Endpoint, KubeStreams

    access = access_of(cluster)
    if access is None:
        return None
    return KubeStreams(Endpoint.of(access, check_from_settings()))


def register_lookup(of: Lookup) -> None:
    """``of(uid)`` → namespace and name of what an app's row stands for, or None."""
    if of not in _lookups:
        _lookups.append(of)


def lookup(uid: str) -> Mapping[str, str] | None:
    """Return where a workload was made (namespace, name), for a driver that has forgotten.

    ``observed``: no row says so, only the watch, which forgets it with the object.
    """
    for of in _lookups:
        if known := of(uid):
            return known
    for rows, _kind in reconcilers.tables():
        ref = rows.filter(uid=uid).values_list("external_ref", flat=True).first()
        if ref and ref.get("namespace") and ref.get("name"):
            return {"namespace": str(ref["namespace"]), "name": str(ref["name"])}
    for data in ObservedWorkload.objects.filter(uid=uid).values_list("data", flat=True):
        detail = data.get("detail") or {}
        if detail.get("namespace") and detail.get("name"):
            place = {"namespace": str(detail["namespace"]), "name": str(detail["name"])}
            return {**place, "observed": "yes"}
    return None


DRIVERS: dict[str, Callable[[Cluster], Driver]] = {
    "fake": _fake,
    "local": _local,
    KUBERNETES: _kubernetes,
}


def _fake_router() -> Router:
    from runtime.routers.fake import FakeRouter

    return FakeRouter(_fake_path("router"))


def _chp() -> Router:
    from runtime.routers.chp import ChpRouter

    return ChpRouter.from_settings()


def _gateway() -> Router:
    return gateway_router(lookup, access_of)


ROUTERS: dict[str, Callable[[], Router]] = {"chp": _chp, "fake": _fake_router, "gateway": _gateway}


def driver_for(cluster_key: str) -> Driver:
    """Return the (cached) driver of a cluster; Unreachable when the key is unknown.

    A driver is made anew when an operator changed the row, in whatever process he did it.
    """
    with _lock:
        kept = _drivers.get(cluster_key)
    if kept is not None and _is_fresh(cluster_key, kept):
        return kept.driver
    cluster = Cluster.objects.filter(key=cluster_key, enabled=True).first()
    if cluster is None and cluster_key == ONE_MACHINE and settings.BERTH_LOCAL_CLUSTER:
        cluster = ensure_local_cluster()
    if cluster is None or cluster.driver not in DRIVERS:
        forget(cluster_key)
        message = f"There is no cluster called {cluster_key!r}."
        raise Unreachable(message)
    with _lock:
        again = _drivers.get(cluster_key)
        if again is None or _which(again.row) != _which(cluster):
            forget(cluster_key)
            made, at = DRIVERS[cluster.driver](cluster), time.monotonic()
            again = _drivers[cluster_key] = _Kept(made, cluster, at, at)
        again.asked = time.monotonic()
        return again.driver


def was_old(cluster_key: str, since: float) -> bool:
    """Whether what its driver said since then (monotonic) may rest on an older row; asks it now."""
    with _lock:
        kept = _drivers.get(cluster_key)
    if kept is None or kept.made >= since:
        return kept is not None
    kept.asked = -math.inf
    try:
        return driver_for(cluster_key) is not kept.driver
    except Unreachable:
        return True  # which the next step says


def _is_fresh(cluster_key: str, kept: _Kept) -> bool:
    """Ask the row at most every few seconds; one machine's never changes."""
    if cluster_key == ONE_MACHINE or time.monotonic() - kept.asked < REVISION_EVERY_S:
        return True
    found = (
        Cluster.objects.filter(key=cluster_key, enabled=True).values_list("pk", "revision").first()
    )
    kept.asked = time.monotonic()
    return found == _which(kept.row)


def _which(row: Cluster) -> tuple[int, int]:
    """What a driver was made from: another cluster may have been attached by the same key."""
    return row.pk, row.revision


def row_for(cluster_key: str) -> Cluster:
    """Return what operators set for a cluster, as old as its driver may be; Unreachable like it.

    For what each step of the engine asks. How the cluster is now stands in the table.
    """
    driver_for(cluster_key)
    with _lock:
        kept = _drivers.get(cluster_key)
    return kept.row if kept is not None else Cluster.objects.get(key=cluster_key)


def forget(cluster_key: str) -> None:
    """Let go of a driver; what it had open ends."""
    with _lock:
        kept = _drivers.pop(cluster_key, None)
    close = getattr(kept.driver, "close", None) if kept else None
    if close is not None:
        close()


def router() -> Router:
    """Return the (cached) router chosen by settings."""
    name = settings.BERTH_ROUTER
    with _lock:
        if name not in _routers:
            _routers[name] = ROUTERS[name]()
        return _routers[name]


def reset() -> None:
    """Forget everything cached (tests; after a change of settings)."""
    with _lock:
        _drivers.clear()
        _routers.clear()


# The router of an installation whose workspaces are reached through a Gateway of the cluster.


def gateway_router(lookup: Find, access_of: Callable[[Cluster], Any]) -> Router:
    """Return the router that settings describe.

    ``lookup`` finds the workload of a route, ``access_of`` opens a cluster's credential.
    """
    from runtime.routers.chp import ChpRouter
    from runtime.routers.gateway import Gateway, GatewayRouter

    if settings.BERTH_NOTEBOOK_ROUTING != "host":
        message = "BERTH_ROUTER=gateway needs BERTH_NOTEBOOK_ROUTING=host."
        raise ImproperlyConfigured(message)
    try:
        prefix = options_of(gateway_cluster().options).namespace_prefix
        gateway = Gateway.parse(
            settings.BERTH_GATEWAY, prefix, settings.BERTH_GATEWAY_PROXY, installation.own_id()
        )
    except ValueError as error:
        raise ImproperlyConfigured(str(error)) from error
    router = GatewayRouter(gateway, partial(gateway_client, access_of), lookup)
    if gateway.proxy is None:
        return router
    return ChpRouter([*ChpRouter.from_settings().members, router])  # it carries the WebSockets


def gateway_cluster() -> Cluster:
    key = settings.BERTH_GATEWAY_CLUSTER or settings.BERTH_IN_CLUSTER
    found = Cluster.objects.filter(key=key).first()
    if found is None:
        message = f"There is no cluster {key!r}; BERTH_GATEWAY_CLUSTER names it."
        raise Unreachable(message, reason=Reason.PROXY_UNREACHABLE)
    return found


def gateway_client(access_of: Callable[[Cluster], Any]) -> KubeClient | None:
    """Return one for this process, as long as the cluster's row is the same."""
    row = gateway_cluster()
    return _gateway_client(access_of, row.pk, row.revision)


@lru_cache(maxsize=1)
def _gateway_client(
    access_of: Callable[[Cluster], Any], pk: int, _revision: int
) -> KubeClient | None:
    from runtime.drivers.kubernetes.access import check_from_settings
    from runtime.drivers.kubernetes.client import KubeClient

    access = access_of(Cluster.objects.get(pk=pk))
    return None if access is None else KubeClient(access, check=check_from_settings())
