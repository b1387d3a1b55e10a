"""Which driver and router serve a cluster. A closed list of names; code, never data, runs."""

import os
import threading
from collections.abc import Callable
from pathlib import Path

from django.conf import settings

from clusters.models import Cluster
from runtime.protocol import Driver, Router, Unreachable

_lock = threading.RLock()
_drivers: dict[str, Driver] = {}
_routers: dict[str, Router] = {}


def _fake_path(name: str) -> Path | None:
    base = os.environ.get("BERTH_FAKE_WORLD", "")
    return Path(base).with_suffix(f".{name}.json") if base else None


def _fake(_cluster: Cluster) -> Driver:
    from runtime.drivers.fake import FakeDriver

    return FakeDriver(_fake_path("driver"))


def _local(_cluster: Cluster) -> Driver:
    from runtime.drivers.local.driver import LocalDriver

    made: Driver = LocalDriver()
    return made


DRIVERS: dict[str, Callable[[Cluster], Driver]] = {"fake": _fake, "local": _local}
# On these the portal's own queue decides what starts and which GPUs it gets.
QUEUED_HERE = frozenset({"fake", "local"})


def _fake_router() -> Router:
    from runtime.routers.fake import FakeRouter

    return FakeRouter(_fake_path("router"))


def _chp() -> Router:
    from runtime.routers.chp import ChpRouter

    return ChpRouter.from_settings()


ROUTERS: dict[str, Callable[[], Router]] = {"fake": _fake_router, "chp": _chp}


def driver_for(cluster_key: str) -> Driver:
    """Return the (cached) driver of a cluster; Unreachable when the key is unknown."""
    with _lock:
        if cluster_key in _drivers:
            return _drivers[cluster_key]
    cluster = Cluster.objects.filter(key=cluster_key).first()
    if cluster is None and cluster_key == "local" and settings.BERTH_LOCAL_CLUSTER:
        from clusters.services import ensure_local_cluster

        cluster = ensure_local_cluster()
    if cluster is None or cluster.driver not in DRIVERS:
        message = f"There is no cluster called {cluster_key!r}."
        raise Unreachable(message)
    with _lock:
        return _drivers.setdefault(cluster_key, DRIVERS[cluster.driver](cluster))


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
