"""Rows as the API says them. Lists ask a constant number of questions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.conf import settings

from volumes import references, selectors, topology

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from accounts.principal import Principal
    from projects.access import Permission
    from volumes.models import Volume, VolumeClass, VolumeSnapshot, VolumeTransfer
    from volumes.services import Plan


def volumes_out(
    rows: Sequence[Volume], who: Principal, granted: Collection[Permission]
) -> list[dict[str, Any]]:
    counts = references.counts_of([row.uid for row in rows])
    return [volume_out(row, who, granted, counts.get(row.uid, 0)) for row in rows]


def volume_one(row: Volume, who: Principal, granted: Collection[Permission]) -> dict[str, Any]:
    found = references.holders_of(row)
    return {
        **volume_out(row, who, granted, len(found)),
        "mounted_by": [{"kind": h.kind, "id": h.uid, "name": h.name, "who": h.who} for h in found],
        "room_left": selectors.room_left(row),
        "near": topology.names_near(row),
        "price_per_month": f"{selectors.price_of(row):.2f}",
        "currency": settings.BERTH_CURRENCY,
    }


def volume_out(
    row: Volume, who: Principal, granted: Collection[Permission], mounted: int
) -> dict[str, Any]:
    return {
        "id": row.uid,
        "kind": row.kind,
        "name": row.name,
        "project": row.project.slug,
        "owner": row.owner.username if row.owner else None,
        "created_by": row.created_by.username if row.created_by else None,
        "cluster": row.cluster_key,
        "volume_class": row.volume_class.key if row.volume_class else None,
        "description": row.description,
        "write_policy": row.write_policy,
        "cache_of": row.cache_of,
        "may_write": selectors.writes(who, row, granted),
        "size_limit_mib": row.size_limit_mib,
        "used_bytes": row.used_bytes,
        "used_at_least": row.used_at_least,
        "used_at": row.used_at,
        "mounted": mounted,
        "last_used_at": row.last_used_at,
        "last_used_by": row.last_used_by.username if row.last_used_by else None,
        "growing": row.is_growing,
        "growth_refused": selectors.growth_refusal(row),
        "can_grow": selectors.can_grow(row),
        "can_snapshot": selectors.can_snapshot(row),
        "can_transfer": selectors.can_transfer(row),
        "restoring": row.is_restoring,
        "moving": row.is_moving,
        "delete_after": row.delete_after,
        "generation": row.generation,
        "observed_generation": row.observed_generation,
        "desired": row.desired,
        "phase": row.phase,
        "reason": row.reason,
        "message": row.message,
        "created_at": row.created_at,
    }


def plan_out(plan: Plan) -> dict[str, Any]:
    return {
        "action": plan.action,
        "name": plan.name,
        "allowed": plan.allowed,
        "refusal": plan.refusal,
        "changes": [{"field": c.field, "from": c.before, "to": c.after} for c in plan.changes],
        "sentences": list(plan.sentences),
    }


def snapshot_out(row: VolumeSnapshot) -> dict[str, Any]:
    return {
        "id": row.uid,
        "name": row.name,
        "description": row.description,
        "created_by": row.created_by.username if row.created_by else None,
        "size_bytes": row.size_bytes,
        "desired": row.desired,
        "phase": row.phase,
        "message": row.message,
        "created_at": row.created_at,
    }


def transfer_out(row: VolumeTransfer) -> dict[str, Any]:
    return {
        "id": row.uid,
        "volume": row.volume.uid,
        "volume_name": row.volume.name,
        "size_limit_mib": row.volume.size_limit_mib,
        "from_project": row.from_project.slug,
        "to": row.to_slug,
        "message": row.message,
        "asked_by": row.asked_by.username if row.asked_by else None,
        "asked_at": row.asked_at,
        "expires_at": row.expires_at,
        "state": row.state,
    }


def class_out(row: VolumeClass) -> dict[str, Any]:
    places = list(row.places.all())
    return {
        "key": row.key,
        "name": row.name,
        "description": row.description,
        "medium": row.medium,
        "speed": row.speed,
        "price": f"{row.price:f}",
        "currency": settings.BERTH_CURRENCY,
        "backing_kind": row.backing_kind,
        "options": dict(row.options),
        "can_snapshot": row.can_snapshot,
        "min_size_mib": row.min_size_mib,
        "max_size_mib": row.max_size_mib,
        "default_size_mib": row.default_size_mib,
        "enabled": row.enabled,
        "derived": row.derived,
        "position": row.position,
        "clusters": sorted(place.cluster.key for place in places),
        "default_on": sorted(place.cluster.key for place in places if place.is_default),
        "near": topology.said_of(places),
        "generation": row.generation,
    }


def offer_out(
    row: VolumeClass, cluster: str, near: Sequence[str], *, is_default: bool
) -> dict[str, Any]:
    return {
        "key": row.key,
        "name": row.name,
        "description": row.description,
        "cluster": cluster,
        "is_default": is_default,
        "medium": row.medium,
        "speed": row.speed,
        "price": f"{row.price:f}",
        "currency": settings.BERTH_CURRENCY,
        "min_size_mib": row.min_size_mib,
        "max_size_mib": row.max_size_mib,
        "can_snapshot": row.can_snapshot,
        "near": list(near),
    }
