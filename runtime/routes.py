"""Keeps the proxies' routes as the database wants them.

The workload's own step puts and drops routes at once; this loop repairs what was lost: a proxy
that restarted (its epoch changed), a put that was cut off, a route that nobody wants any more.
"""

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import structlog

from runtime.models import Route
from runtime.ports import cluster_provider
from runtime.protocol import Unreachable
from runtime.routers.base import RouteEntry, Router

log = structlog.get_logger(__name__)

EPOCH_S = 1.0
RESYNC_S = 30.0
_AT_ONCE = 8
_FEW = 16


@dataclass(frozen=True)
class Repair:
    put: int = 0
    dropped: int = 0


def proxies() -> Sequence[Router]:
    """Return each proxy by itself: one may have restarted, the other not."""
    router = cluster_provider().router()
    members: Sequence[Router] = getattr(router, "members", [router])
    return members


def resync(proxy: Router) -> Repair:
    """Compare and repair one proxy.

    What it has is read before what is wanted: a route's row is committed before it is put, so
    one that is there without a row was really dropped.
    """
    have = proxy.list()
    want = _wanted()
    lacking = [e for k, e in want.items() if _target(have.get(k)) != e.target]
    extra = [key for key in have if key not in want]
    _put_all(proxy, lacking)
    if lacking:
        still = _wanted()
        extra += [e.key for e in lacking if e.key not in still]
    for key in extra:
        proxy.drop(key)
    if lacking or extra:
        log.info("routes.repaired", put=len(lacking), dropped=len(extra))
    return Repair(len(lacking), len(extra))


def _wanted() -> dict[str, RouteEntry]:
    rows = Route.objects.values_list("key", "target", "uid")
    return {_plain(k): RouteEntry(_plain(k), target, str(uid)) for k, target, uid in rows}


def _plain(key: str) -> str:
    return "/" + key.strip("/")


def _target(entry: RouteEntry | None) -> str:
    return entry.target if entry else ""


def _put_all(proxy: Router, entries: list[RouteEntry]) -> None:
    if len(entries) <= _FEW:
        for entry in entries:
            proxy.put(entry)
        return
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        list(pool.map(proxy.put, entries))


class Keeper:
    """Called every second; cheap when nothing changed (one small GET per proxy)."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[str, float]] = {}

    def tick(self) -> int:
        """Return how many proxies could not be asked."""
        return sum(not self._tick_one(i, proxy) for i, proxy in enumerate(proxies()))

    def _tick_one(self, index: int, proxy: Router) -> bool:
        epoch, synced = self._known.get(index, ("", 0.0))
        try:
            current = proxy.epoch()
            if current != epoch or time.monotonic() - synced > RESYNC_S:
                resync(proxy)
                self._known[index] = (current, time.monotonic())
        except Unreachable as error:
            if index in self._known:
                log.warning("routes.proxy_unreachable", error=str(error))
            self._known.pop(index, None)
            return False
        return True
