"""Shapes of the API. Input and output are apart: what is not in an input is refused."""

from typing import Any

from django.utils.translation import gettext_lazy as _
from rest_framework import serializers

from accounts.models import ApiToken, PlatformRole, SshKey, Theme, User
from common.drf.serializers import StrictSerializer


def line(**kwargs: Any) -> serializers.CharField:
    """One printable line: PostgreSQL refuses NUL, and logs must not be forged."""
    return serializers.CharField(validators=[_printable], **kwargs)


def _printable(value: str) -> None:
    if not value.isprintable():
        raise serializers.ValidationError(_("One line of printable characters."))


class MeOut(serializers.ModelSerializer[User]):
    id = serializers.UUIDField(source="uid", read_only=True)
    email = serializers.CharField(read_only=True, help_text=_("Empty where there is none."))

    class Meta:
        model = User
        fields = [
            "id",
            "username",
            "email",
            "display_name",
            "platform_role",
            "language",
            "timezone",
            "theme",
        ]
        read_only_fields = fields


class MeIn(StrictSerializer):
    display_name = line(max_length=120, allow_blank=True, required=False)
    language = line(max_length=8, allow_blank=True, required=False)
    timezone = line(max_length=64, allow_blank=True, required=False)
    theme = serializers.ChoiceField(choices=Theme.choices, required=False)


class TokenOut(serializers.ModelSerializer[ApiToken]):
    id = serializers.UUIDField(source="uid", read_only=True)

    class Meta:
        model = ApiToken
        fields = [
            "id",
            "name",
            "prefix",
            "scopes",
            "read_only",
            "project_uids",
            "created_at",
            "expires_at",
            "last_used_at",
            "last_used_ip",
            "revoked_at",
        ]
        read_only_fields = fields


class TokenMadeOut(TokenOut):
    token = serializers.CharField(read_only=True, help_text=_("Shown this once."))

    class Meta(TokenOut.Meta):
        fields = [*TokenOut.Meta.fields, "token"]
        read_only_fields = fields


class TokenIn(StrictSerializer):
    name = line(max_length=80)
    scopes = serializers.ListField(child=line(max_length=60), required=False, max_length=60)
    read_only = serializers.BooleanField(required=False, default=False)  # type: ignore[assignment]
    project_uids = serializers.ListField(
        child=serializers.UUIDField(), required=False, max_length=200
    )
    expires_at = serializers.DateTimeField(required=False, allow_null=True)


class SessionOut(serializers.Serializer[Any]):
    id = serializers.IntegerField()
    device = serializers.CharField()
    ip = serializers.CharField()
    created_at = serializers.DateTimeField()
    last_seen_at = serializers.DateTimeField()
    is_current = serializers.BooleanField()


class SshKeyOut(serializers.ModelSerializer[SshKey]):
    id = serializers.UUIDField(source="uid", read_only=True)

    class Meta:
        model = SshKey
        fields = ["id", "name", "public_key", "fingerprint", "created_at"]
        read_only_fields = fields


class SshKeyIn(StrictSerializer):
    public_key = serializers.CharField(max_length=8192)
    name = line(max_length=80, required=False, allow_blank=True, default="")


class UserOut(serializers.ModelSerializer[User]):
    id = serializers.UUIDField(source="uid", read_only=True)
    email = serializers.CharField(read_only=True, help_text=_("Empty where there is none."))

    class Meta:
        model = User
        fields = [
            "id",
            "username",
            "email",
            "display_name",
            "platform_role",
            "is_active",
            "date_joined",
            "last_login",
            "disabled_at",
            "disabled_by_provider",
        ]
        read_only_fields = fields


class UserIn(StrictSerializer):
    username = line(max_length=64)
    email = line(max_length=254, required=False, allow_blank=True, default="")
    password = serializers.CharField(max_length=256, required=False, write_only=True)
    display_name = line(max_length=120, required=False, allow_blank=True, default="")
    platform_role = serializers.ChoiceField(
        choices=PlatformRole.choices, required=False, allow_blank=True, default=""
    )


class UserPatch(StrictSerializer):
    is_active = serializers.BooleanField(required=False)
    display_name = line(max_length=120, required=False, allow_blank=True)
    platform_role = serializers.ChoiceField(
        choices=PlatformRole.choices, required=False, allow_blank=True
    )


class DeviceIn(StrictSerializer):
    client = line(
        max_length=120, required=False, allow_blank=True, default="", help_text=_("Shown to you.")
    )


class DeviceOut(serializers.Serializer[Any]):
    device_code = serializers.CharField()
    user_code = serializers.CharField()
    verification_uri = serializers.CharField()
    verification_uri_complete = serializers.CharField()
    interval = serializers.IntegerField()
    expires_in = serializers.IntegerField()


class DeviceTokenIn(StrictSerializer):
    device_code = line(max_length=64)


class DeviceTokenOut(serializers.Serializer[Any]):
    token = serializers.CharField()
    expires_at = serializers.DateTimeField()
