"""The ways to one workload: rows that say what is wanted, then the proxy (``runtime.routes``).

A way belongs to the workload whose row of it was first, until that one drops it.
"""

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

import structlog
from django.db import IntegrityError, transaction
from django.db.models import Q

from runtime.killpoints import killpoint
from runtime.models import Route
from runtime.ports import cluster_provider
from runtime.protocol import Phase, Unreachable
from runtime.routers.base import RouteEntry
from runtime.workload_state import ReconcileContext

log = structlog.get_logger(__name__)


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
