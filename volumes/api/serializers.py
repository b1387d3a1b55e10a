"""What goes in and out of the API of volumes. Lists ask a constant number of questions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.conf import settings
from rest_framework import serializers

from common.drf.serializers import CurrencyField, StrictSerializer
from volumes import references, selectors, topology
from volumes.choices import WritePolicy
from volumes.services.create import MAX_DESCRIPTION, MAX_SIZE_MIB

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from accounts.principal import Principal
    from projects.access import Permission
    from volumes.models import Volume, VolumeClass, VolumeSnapshot, VolumeTransfer
    from volumes.services.manifest import Plan


_SIZE: dict[str, Any] = {"min_value": 1, "max_value": MAX_SIZE_MIB}


class VolumeHolderOut(serializers.Serializer[Any]):
    kind = serializers.CharField()
    id = serializers.CharField()
    name = serializers.CharField()
    who = serializers.CharField()


class VolumeOut(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    kind = serializers.CharField(help_text="home, project (the shared one) or data")
    name = serializers.CharField()
    project = serializers.CharField()
    owner = serializers.CharField(allow_null=True, help_text="of a home")
    created_by = serializers.CharField(allow_null=True)
    cluster = serializers.CharField()
    volume_class = serializers.CharField(allow_null=True)
    description = serializers.CharField()
    write_policy = serializers.ChoiceField(choices=WritePolicy.choices)
    cache_of = serializers.CharField(
        help_text="of a cache: the source that it can be loaded from again"
    )
    may_write = serializers.BooleanField(help_text="whether you may change its files")
    size_limit_mib = serializers.IntegerField(allow_null=True)
    used_bytes = serializers.IntegerField(allow_null=True, help_text="null: not measured yet")
    used_at_least = serializers.BooleanField(
        help_text="true: there was more than could be counted in time"
    )
    used_at = serializers.DateTimeField(allow_null=True)
    mounted = serializers.IntegerField(help_text="how many have it mounted now")
    last_used_at = serializers.DateTimeField(allow_null=True)
    last_used_by = serializers.CharField(allow_null=True)
    growing = serializers.BooleanField(
        help_text="true: its storage has not given it the size yet; it can be used meanwhile"
    )
    growth_refused = serializers.CharField(
        help_text="why it was not made larger when that was last asked, and what to do"
    )
    can_grow = serializers.BooleanField(help_text="false: its storage can't make it larger")
    can_snapshot = serializers.BooleanField()
    can_transfer = serializers.BooleanField()
    restoring = serializers.BooleanField()
    moving = serializers.BooleanField()
    delete_after = serializers.DateTimeField(
        allow_null=True, help_text="being deleted; until then it can be brought back"
    )
    generation = serializers.IntegerField()
    observed_generation = serializers.IntegerField()
    desired = serializers.CharField()
    phase = serializers.CharField()
    reason = serializers.CharField()
    message = serializers.CharField()
    created_at = serializers.DateTimeField()


class VolumeDetailOut(VolumeOut):
    mounted_by = VolumeHolderOut(many=True)
    room_left = serializers.IntegerField(allow_null=True, help_text="bytes; null: unknown")
    near = serializers.ListField(
        child=serializers.CharField(), help_text="the pools that it stands near"
    )
    price_per_month = serializers.CharField()
    currency = CurrencyField()


class VolumeIn(StrictSerializer):
    name = serializers.CharField(max_length=63)
    size_mib = serializers.IntegerField(**_SIZE)
    cluster = serializers.CharField(max_length=63, required=False, allow_blank=True)
    volume_class = serializers.CharField(max_length=63, required=False, allow_blank=True)
    description = serializers.CharField(
        max_length=MAX_DESCRIPTION, required=False, allow_blank=True
    )
    write_policy = serializers.ChoiceField(choices=WritePolicy.choices, required=False)


class VolumeEdit(StrictSerializer):
    name = serializers.CharField(max_length=63, required=False)
    description = serializers.CharField(
        max_length=MAX_DESCRIPTION, required=False, allow_blank=True
    )
    write_policy = serializers.ChoiceField(choices=WritePolicy.choices, required=False)
    size_limit_mib = serializers.IntegerField(
        **_SIZE, required=False, allow_null=True, help_text="null: no limit (homes, shared ones)"
    )


class RestoreIn(StrictSerializer):
    name = serializers.CharField(
        max_length=63, required=False, help_text="another name, when its own was taken"
    )


class VolumeChangeOut(serializers.Serializer[Any]):
    field = serializers.CharField()
    to = serializers.JSONField(allow_null=True)

    def get_fields(self) -> dict[str, serializers.Field[Any, Any, Any, Any]]:
        return {**super().get_fields(), "from": serializers.JSONField(allow_null=True)}


class VolumePlanOut(serializers.Serializer[Any]):
    action = serializers.CharField(help_text="create, update or none")
    name = serializers.CharField()
    allowed = serializers.BooleanField()
    refusal = serializers.CharField(allow_blank=True)
    changes = VolumeChangeOut(many=True)
    sentences = serializers.ListField(child=serializers.CharField())


class SnapshotOut(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    name = serializers.CharField()
    description = serializers.CharField()
    created_by = serializers.CharField(allow_null=True)
    size_bytes = serializers.IntegerField(allow_null=True, help_text="null: unknown")
    desired = serializers.CharField()
    phase = serializers.CharField()
    message = serializers.CharField()
    created_at = serializers.DateTimeField()


class SnapshotIn(StrictSerializer):
    name = serializers.CharField(
        max_length=63, required=False, allow_blank=True, help_text="made from the time if not given"
    )
    description = serializers.CharField(max_length=300, required=False, allow_blank=True)


class TransferOut(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    volume = serializers.UUIDField()
    volume_name = serializers.CharField()
    size_limit_mib = serializers.IntegerField(allow_null=True)
    from_project = serializers.CharField()
    to = serializers.CharField()
    message = serializers.CharField()
    asked_by = serializers.CharField(allow_null=True)
    asked_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField()
    state = serializers.CharField()


class TransferIn(StrictSerializer):
    to = serializers.CharField(max_length=40, help_text="address (slug) of the other project")
    message = serializers.CharField(max_length=300, required=False, allow_blank=True)


class AcceptIn(StrictSerializer):
    name = serializers.CharField(
        max_length=63, required=False, help_text="another name, when its own is taken here"
    )


class OfferOut(serializers.Serializer[Any]):
    """A class as people who choose one see it."""

    key = serializers.CharField()
    name = serializers.CharField()
    description = serializers.CharField()
    cluster = serializers.CharField()
    is_default = serializers.BooleanField()
    medium = serializers.CharField()
    speed = serializers.CharField()
    price = serializers.CharField(help_text="of one GiB for a month")
    currency = CurrencyField()
    min_size_mib = serializers.IntegerField()
    max_size_mib = serializers.IntegerField(allow_null=True)
    can_snapshot = serializers.BooleanField()
    near = serializers.ListField(
        child=serializers.CharField(), help_text="the pools that its volumes stand near"
    )


class VolumeClassOut(serializers.Serializer[Any]):
    """A class as operators see it."""

    key = serializers.CharField()
    name = serializers.CharField()
    description = serializers.CharField()
    medium = serializers.CharField()
    speed = serializers.CharField()
    price = serializers.CharField()
    currency = CurrencyField()
    backing_kind = serializers.CharField()
    options = serializers.DictField(child=serializers.CharField())
    can_snapshot = serializers.BooleanField()
    min_size_mib = serializers.IntegerField()
    max_size_mib = serializers.IntegerField(allow_null=True)
    default_size_mib = serializers.IntegerField(allow_null=True)
    enabled = serializers.BooleanField()
    derived = serializers.BooleanField(help_text="kept in line with its cluster's settings")
    position = serializers.IntegerField()
    clusters = serializers.ListField(child=serializers.CharField())
    default_on = serializers.ListField(child=serializers.CharField())
    near = serializers.ListField(
        child=serializers.CharField(), help_text="cluster/pool: where its storage stands"
    )
    generation = serializers.IntegerField()


class VolumeClassEdit(StrictSerializer):
    """Checked by the service, which knows what belongs together."""

    name = serializers.CharField(max_length=80, required=False)
    description = serializers.CharField(max_length=300, required=False, allow_blank=True)
    medium = serializers.CharField(max_length=16, required=False, allow_blank=True)
    speed = serializers.CharField(max_length=120, required=False, allow_blank=True)
    price = serializers.CharField(max_length=20, required=False)
    backing_kind = serializers.CharField(max_length=16, required=False)
    options = serializers.DictField(child=serializers.CharField(max_length=300), required=False)
    can_snapshot = serializers.BooleanField(required=False)
    min_size_mib = serializers.IntegerField(**_SIZE, required=False)
    max_size_mib = serializers.IntegerField(**_SIZE, required=False, allow_null=True)
    default_size_mib = serializers.IntegerField(**_SIZE, required=False, allow_null=True)
    enabled = serializers.BooleanField(required=False)
    position = serializers.IntegerField(min_value=0, max_value=10_000, required=False)
    clusters = serializers.ListField(
        child=serializers.CharField(max_length=63), required=False, max_length=1000
    )
    default_on = serializers.ListField(
        child=serializers.CharField(max_length=63), required=False, max_length=1000
    )
    near = serializers.ListField(
        child=serializers.CharField(max_length=104),
        required=False,
        max_length=1000,
        help_text="the pools that its storage stands near, each as cluster/pool; empty: none",
    )


class VolumeClassIn(VolumeClassEdit):
    key = serializers.CharField(max_length=63)
    name = serializers.CharField(max_length=80)
    backing_kind = serializers.CharField(max_length=16)


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
    told = ("kind", "name", "description", "write_policy", "cache_of", "size_limit_mib")
    used = ("used_bytes", "used_at_least", "used_at", "last_used_at")
    state = ("generation", "observed_generation", "desired", "phase", "reason", "message")
    return {
        "id": row.uid,
        **{name: getattr(row, name) for name in (*told, *used, *state)},
        "project": row.project.slug,
        "owner": row.owner.username if row.owner else None,
        "created_by": row.created_by.username if row.created_by else None,
        "cluster": row.cluster_key,
        "volume_class": row.volume_class.key if row.volume_class else None,
        "may_write": selectors.writes(who, row, granted),
        "mounted": mounted,
        "last_used_by": row.last_used_by.username if row.last_used_by else None,
        "growing": row.is_growing,
        "growth_refused": selectors.growth_refusal(row),
        "can_grow": selectors.can_grow(row),
        "can_snapshot": selectors.can_snapshot(row),
        "can_transfer": selectors.can_transfer(row),
        "restoring": row.is_restoring,
        "moving": row.is_moving,
        "delete_after": row.delete_after,
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
    told = ("name", "description", "size_bytes", "desired", "phase", "message", "created_at")
    return {
        "id": row.uid,
        "created_by": row.created_by.username if row.created_by else None,
        **{name: getattr(row, name) for name in told},
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


_CLASS = ("key", "name", "description", "medium", "speed")
_SIZES = ("min_size_mib", "max_size_mib", "can_snapshot")


def class_out(row: VolumeClass) -> dict[str, Any]:
    places = list(row.places.all())
    own = ("backing_kind", "default_size_mib", "enabled", "derived", "position", "generation")
    return {
        **{name: getattr(row, name) for name in (*_CLASS, *_SIZES, *own)},
        "price": f"{row.price:f}",
        "currency": settings.BERTH_CURRENCY,
        "options": dict(row.options),
        "clusters": sorted(place.cluster.key for place in places),
        "default_on": sorted(place.cluster.key for place in places if place.is_default),
        "near": topology.said_of(places),
    }


def offer_out(
    row: VolumeClass, cluster: str, near: Sequence[str], *, is_default: bool
) -> dict[str, Any]:
    return {
        **{name: getattr(row, name) for name in (*_CLASS, *_SIZES)},
        "cluster": cluster,
        "is_default": is_default,
        "price": f"{row.price:f}",
        "currency": settings.BERTH_CURRENCY,
        "near": list(near),
    }
