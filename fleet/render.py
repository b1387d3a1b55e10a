"""The fleet as JSON: short for the page that draws it, with names for the API."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import groupby
from typing import TYPE_CHECKING, Any

from fleet.selectors import CLOSED, CORDONED, DOWN, UP

if TYPE_CHECKING:
    from uuid import UUID

    from fleet.counts import Counts
    from fleet.selectors import Cell, Fleet, Place

FREE, FOREIGN = -1, -2  # instead of the number of a holder
UNHEALTHY, SHARED, SIMULATED = 1, 2, 4  # bits of a cell
STATES = (UP, CORDONED, CLOSED, DOWN)
PERCENT = 100


def drawn(fleet: Fleet) -> dict[str, Any]:
    """Return groups of nodes with their cells as bare lists: 12,000 of them are some 400 KB.

    A cell is kind, holder, percent of utilisation and of memory (None: unknown), bits, since.
    """
    flavors: dict[str, int] = {}
    holders: dict[UUID, int] = {}

    def cell_of(cell: Cell) -> list[Any]:
        owner = FOREIGN if cell.foreign else FREE
        if cell.uid is not None:
            owner = holders.setdefault(cell.uid, len(holders))
        rate, used = cell.utilisation, memory_percent(cell)
        bits = UNHEALTHY * (not cell.healthy) + SHARED * cell.shared + SIMULATED * cell.simulated
        return [
            flavors.setdefault(cell.flavor, len(flavors)),
            owner,
            None if rate is None else round(rate),
            used,
            bits,
            cell.since if cell.since and fleet.named(cell) else 0,
        ]

    groups = []
    for (cluster, unit, rack), places in groupby(
        fleet.places, key=lambda one: (one.cluster, one.unit, one.rack)
    ):
        nodes = [
            [p.name, STATES.index(p.state), int(p.reserved), [cell_of(c) for c in p.cells]]
            for p in places
        ]
        groups.append([cluster.label, unit, rack, nodes])
    return {
        "seen_at": fleet.seen_at.isoformat() if fleet.seen_at else None,
        "kinds": [fleet.flavors.get(name, name) for name in flavors],
        "holders": [
            [one.name, one.owner, one.project, one.url] if one and one.name else None
            for one in map(fleet.holders.get, holders)
        ],
        "groups": groups,
    }


def memory_percent(cell: Cell) -> int | None:
    if cell.memory_used_mib is None or not cell.memory_mib:
        return None
    return min(PERCENT, round(cell.memory_used_mib * PERCENT / cell.memory_mib))


def told(fleet: Fleet, counts: Counts) -> dict[str, Any]:
    """Return the same as the API tells it."""
    return {
        "seen_at": fleet.seen_at.isoformat() if fleet.seen_at else None,
        "stale": fleet.is_stale,
        "silent_clusters": [cluster.key for cluster in fleet.silent],
        "supply": counts.supply,
        "requested": counts.requested,
        "attached": counts.attached,
        "held_by_others": counts.foreign,
        "free": counts.free,
        "out": counts.out,
        "unhealthy": counts.unhealthy,
        "unknown": counts.unknown,
        "utilisation": None if counts.utilised is None else round(counts.utilised, 1),
        "largest_free": dict(counts.largest),
        "waiting": [vars(cause) for cause in counts.causes],
        "nodes": [_node(fleet, place) for place in fleet.places],
    }


def _node(fleet: Fleet, place: Place) -> dict[str, Any]:
    return {
        "cluster": place.cluster.key,
        "node": place.name,
        "unit": place.unit,
        "rack": place.rack,
        "state": place.state,
        "reserved": place.reserved,
        "devices": list(_devices(fleet, place)),
    }


def _devices(fleet: Fleet, place: Place) -> Iterator[dict[str, Any]]:
    for cell in place.cells:
        named = fleet.named(cell)
        yield {
            "device": cell.device,
            "kind": cell.flavor,
            "healthy": cell.healthy,
            "held": not cell.is_free,
            "work": named.name if named else None,
            "work_kind": named.kind if named else None,
            "owner": named.owner if named else None,
            "project": named.project if named else None,
            "since": cell.held_since.isoformat() if cell.held_since and named else None,
            "utilisation": None if cell.utilisation is None else round(cell.utilisation, 1),
            "memory_used_mib": cell.memory_used_mib,
            "memory_mib": cell.memory_mib,
            "shared": cell.shared,
            "simulated": cell.simulated,
        }
