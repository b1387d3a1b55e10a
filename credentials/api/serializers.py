"""The shapes of the API, made from what each kind says of its fields."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import PolymorphicProxySerializer
from rest_framework import serializers

from common.drf.serializers import StrictSerializer
from credentials import services
from credentials.choices import UsableBy
from credentials.kinds import KINDS, Field, Kind, Part, Shape
from credentials.kinds.generic import VALUE_MAX


class HolderOut(serializers.Serializer[Any]):
    kind = serializers.CharField()
    id = serializers.UUIDField(source="uid")
    name = serializers.CharField()
    url = serializers.CharField()
    who = serializers.CharField()


class CredentialOut(serializers.Serializer[Any]):
    """What may be shown. There is no field for a secret, in no kind."""

    id = serializers.UUIDField()
    kind = serializers.CharField()
    name = serializers.CharField()
    description = serializers.CharField()
    personal = serializers.BooleanField()
    target = serializers.CharField()
    host = serializers.CharField()
    username = serializers.CharField()
    settings = serializers.DictField()
    usable_by = serializers.CharField()
    stored_by = serializers.CharField(allow_null=True)
    version = serializers.IntegerField()
    expires_at = serializers.DateTimeField(allow_null=True)
    rotated_at = serializers.DateTimeField(allow_null=True)
    last_used_at = serializers.DateTimeField(allow_null=True)
    last_used_for = serializers.CharField()
    tested_at = serializers.DateTimeField(allow_null=True)
    test_ok = serializers.BooleanField(allow_null=True)
    test_message = serializers.CharField()
    created_at = serializers.DateTimeField()


class CredentialDetailOut(CredentialOut):
    used_by = HolderOut(many=True)


class VerdictOut(serializers.Serializer[Any]):
    ok = serializers.BooleanField(allow_null=True, help_text="null: it can't be told")
    message = serializers.CharField()


class _LabelIn(StrictSerializer):
    name = serializers.CharField(max_length=services.NAME_MAX)
    description = serializers.CharField(
        max_length=services.TEXT_MAX, required=False, allow_blank=True
    )
    usable_by = serializers.ChoiceField(choices=UsableBy.values, required=False)
    expires_at = serializers.DateTimeField(required=False, allow_null=True)


class _RotateIn(StrictSerializer):
    expires_at = serializers.DateTimeField(required=False, allow_null=True)


def add_in(kind: Kind) -> type[StrictSerializer]:
    made: dict[str, Any] = {f.name: _field(f) for f in kind.fields}
    # before there were others, a credential without a kind was a registry's
    named = [kind.kind.value]
    made["kind"] = serializers.ChoiceField(choices=named, required=kind.kind.value != "registry")
    return type(_camel(kind, "CredentialIn"), (_LabelIn,), made)


def rotate_in(kind: Kind) -> type[StrictSerializer]:
    """What is shown may stay away: then it is kept."""
    fields = [f for f in kind.fields if f.part is Part.SECRET]
    made = {f.name: _field(f, required=f.required and f.hidden) for f in fields}
    return type(_camel(kind, "RotateIn"), (_RotateIn,), made)


def edit_in(kind: Kind) -> type[StrictSerializer]:
    fields = [f for f in kind.fields if f.part is Part.SETTING]
    made: dict[str, Any] = {f.name: _field(f, required=False) for f in fields}
    made["name"] = serializers.CharField(max_length=services.NAME_MAX, required=False)
    return type(_camel(kind, "EditIn"), (_LabelIn,), made)


def _camel(kind: Kind, end: str) -> str:
    return "".join(part.title() for part in kind.kind.value.split("-")) + end


def _field(given: Field, *, required: bool | None = None) -> serializers.Field[Any, Any, Any, Any]:
    needed = given.required if required is None else required
    more: dict[str, Any] = {"required": needed, "write_only": given.hidden}
    if given.shape is Shape.FLAG:
        return serializers.BooleanField(**more)
    if given.shape is Shape.CHOICE:
        return serializers.ChoiceField(choices=[value for value, _label in given.choices], **more)
    if given.shape is Shape.PAIRS:
        value = serializers.CharField(max_length=VALUE_MAX, trim_whitespace=False)
        return serializers.DictField(child=value, allow_empty=False, **more)
    style = {"input_type": "password"} if given.hidden else {}
    return serializers.CharField(
        max_length=given.limit, allow_blank=not given.required, style=style, **more
    )


ADD_IN = {name: add_in(kind) for name, kind in KINDS.items()}
ROTATE_IN = {name: rotate_in(kind) for name, kind in KINDS.items()}
EDIT_IN = {name: edit_in(kind) for name, kind in KINDS.items()}


def described(name: str, by_kind: dict[str, type[StrictSerializer]]) -> PolymorphicProxySerializer:
    """What the API's document says: one of these."""
    return PolymorphicProxySerializer(
        component_name=name, serializers=list(by_kind.values()), resource_type_field_name=None
    )
