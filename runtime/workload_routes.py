"""The ways to one workload: rows that say what is wanted, then the proxy (``runtime.routes``)."""

from collections.abc import Iterable, Sequence
from typing import Any
from uuid import UUID

import structlog
from django.db.models import Q

from runtime.killpoints import killpoint
from runtime.models import Route
from runtime.ports import places
from runtime.protocol import Phase, RouteEntry, Unreachable
from runtime.workload_state import Pass

log = structlog.get_logger(__name__)


def want(state: Pass, entries: Sequence[RouteEntry]) -> None:
    """Write what is wanted, then put it; a way that is not wanted any more goes."""
    row = state.row
    keys = {entry.key for entry in entries}
    known = {r.key: r for r in Route.objects.filter(Q(uid=row.uid) | Q(key__in=keys))}
    state.ref["routes"] = sorted(keys)
    _drop(key for key, route in known.items() if route.uid == row.uid and key not in keys)
    for entry in entries:
        route = known.get(entry.key)
        same = route is not None and (route.target, str(route.uid)) == (entry.target, entry.uid)
        if not (same and row.phase == Phase.RUNNING):  # else the router loop keeps it
            _put(row.uid, entry)


def _put(uid: UUID, entry: RouteEntry) -> None:
    Route.objects.update_or_create(key=entry.key, defaults={"target": entry.target, "uid": uid})
    killpoint("route-wanted")
    places().router().put(entry)
    killpoint("routed")


def drop_all(row: Any, ref: dict[str, Any]) -> None:
    """Rows first, then the proxy: a proxy that is down forgets, or is compared later."""
    keys = set(Route.objects.filter(uid=row.uid).values_list("key", flat=True))
    keys.update(ref.pop("routes", ()))
    if known := ref.pop("route", ""):  # a row of the version before
        keys.add(known)
    _drop(keys)


def _drop(keys: Iterable[str]) -> None:
    gone = list(keys)
    if not gone:
        return
    Route.objects.filter(key__in=gone).delete()
    for key in gone:
        try:
            places().router().drop(key)
        except Unreachable as error:
            log.warning("route.drop_later", key=key, error=str(error))
