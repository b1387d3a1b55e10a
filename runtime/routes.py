"""The ways to workloads: rows that say what is wanted, then the proxies.

A way belongs to the workload whose row of it was first, until that one drops it. The workload's own
step puts and drops routes at once; the ``Keeper`` repairs what was lost: a proxy that restarted
(its epoch changed), a put that was cut off, a route that nobody wants any more.
"""

import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any
from uuid import UUID

import structlog
from django.db import IntegrityError, transaction
from django.db.models import Q

from runtime.killpoints import killpoint
from runtime.models import Route
from runtime.ports import cluster_provider
from runtime.protocol import Phase, Unreachable
from runtime.routers.base import RouteEntry, Router
from runtime.workload_state import ReconcileContext

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


class TakenError(Exception):
    """Another workload has this way; the sentence is for the person who wants it too."""

    def __init__(self, key: str) -> None:
        address = key.strip("/")
        super().__init__(f"The address {address} belongs to another workload, which keeps it.")


def want(state: ReconcileContext, entries: Sequence[RouteEntry]) -> None:
    """Write what is wanted, then put it; a way that is not wanted any more goes."""
    row = state.row
    keys = {entry.key for entry in entries}
    known = {r.key: r for r in Route.objects.filter(Q(uid=row.uid) | Q(key__in=keys))}
    for other in (r.key for r in known.values() if r.uid != row.uid):
        raise _taken(row.uid, other)
    state.ref["routes"] = sorted(keys)
    _drop(key for key, route in known.items() if route.uid == row.uid and key not in keys)
    for entry in entries:
        route = known.get(entry.key)
        same = route is not None and (route.target, str(route.uid)) == (entry.target, entry.uid)
        if not (same and row.phase == Phase.RUNNING):  # else the router loop keeps it
            _put(row.uid, entry, is_new=route is None)


def _put(uid: UUID, entry: RouteEntry, *, is_new: bool) -> None:
    wanted: dict[str, Any] = {"target": entry.target, "uid": uid}
    # "of ours" in the update too: whoever was first may have come after we looked
    if not (is_new and _made(entry.key, wanted)) and not Route.objects.filter(
        key=entry.key, uid=uid
    ).update(target=entry.target):
        raise _taken(uid, entry.key)
    killpoint("route-wanted")
    cluster_provider().router().put(entry)
    killpoint("routed")


def _made(key: str, wanted: dict[str, Any]) -> bool:
    try:
        with transaction.atomic():
            Route.objects.create(key=key, **wanted)
    except IntegrityError:
        return False
    return True


def _taken(uid: UUID, key: str) -> TakenError:
    log.warning("route.taken", uid=str(uid), key=key)
    return TakenError(key)


def drop_all(row: Any, ref: dict[str, Any]) -> None:
    """Rows first, then the proxy: a proxy that is down forgets, or is compared later."""
    keys = set(ref.pop("routes", ()))
    if known := ref.pop("route", ""):  # a row of the version before
        keys.add(known)
    rows = Route.objects.filter(Q(uid=row.uid) | Q(key__in=keys)).values_list("key", "uid")
    for key, uid in rows:
        (keys.add if uid == row.uid else keys.discard)(key)  # others keep theirs
    _drop(keys)


def _drop(keys: Iterable[str]) -> None:
    gone = list(keys)
    if not gone:
        return
    Route.objects.filter(key__in=gone).delete()
    for key in gone:
        try:
            cluster_provider().router().drop(key)
        except Unreachable as error:
            log.warning("route.drop_later", key=key, error=str(error))
