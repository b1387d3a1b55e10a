"""The router of an installation whose workspaces are reached through a Gateway of the cluster."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from clusters.models import Cluster
from clusters.options import options_of
from runtime import orphans
from runtime.protocol import Unreachable
from runtime.reasons import Reason
from runtime.routers.base import Router

if TYPE_CHECKING:
    from runtime.drivers.kubernetes.client import KubeClient
    from runtime.routers.gateway import Find


def from_settings(lookup: Find, access_of: Callable[[Cluster], Any]) -> Router:
    """Return the router that settings describe.

    ``lookup`` finds the workload of a route, ``access_of`` opens a cluster's credential.
    """
    from runtime.routers.chp import ChpRouter
    from runtime.routers.gateway import Gateway, GatewayRouter

    if settings.BERTH_NOTEBOOK_ROUTING != "host":
        message = "BERTH_ROUTER=gateway needs BERTH_NOTEBOOK_ROUTING=host."
        raise ImproperlyConfigured(message)
    try:
        prefix = options_of(cluster().options).namespace_prefix
        gateway = Gateway.parse(
            settings.BERTH_GATEWAY, prefix, settings.BERTH_GATEWAY_PROXY, orphans.own_id()
        )
    except ValueError as error:
        raise ImproperlyConfigured(str(error)) from error
    router = GatewayRouter(gateway, partial(client, access_of), lookup)
    if gateway.proxy is None:
        return router
    return ChpRouter([*ChpRouter.from_settings().members, router])  # it carries the WebSockets


def cluster() -> Cluster:
    key = settings.BERTH_GATEWAY_CLUSTER or settings.BERTH_IN_CLUSTER
    found = Cluster.objects.filter(key=key).first()
    if found is None:
        message = f"There is no cluster {key!r}; BERTH_GATEWAY_CLUSTER names it."
        raise Unreachable(message, reason=Reason.PROXY_UNREACHABLE)
    return found


def client(access_of: Callable[[Cluster], Any]) -> KubeClient | None:
    """Return one for this process, as long as the cluster's row is the same."""
    row = cluster()
    return _client(access_of, row.pk, row.revision)


@lru_cache(maxsize=1)
def _client(access_of: Callable[[Cluster], Any], pk: int, _revision: int) -> KubeClient | None:
    from runtime.drivers.kubernetes.access import check_from_settings
    from runtime.drivers.kubernetes.client import KubeClient

    access = access_of(Cluster.objects.get(pk=pk))
    return None if access is None else KubeClient(access, check=check_from_settings())
