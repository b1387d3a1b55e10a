"""What the API says of projects, and what it takes. Input is closed: no field is guessed."""

from typing import Any

from drf_spectacular.utils import extend_schema_field
from rest_framework import serializers

from common.drf.serializers import StrictSerializer
from projects.access import Entry
from projects.choices import Role
from projects.models import Project


class StatusSerializer(serializers.Serializer[Any]):
    phase = serializers.CharField()
    reason = serializers.CharField()
    message = serializers.CharField()
    observed_generation = serializers.IntegerField()


class ProjectSerializer(serializers.Serializer[Any]):
    uid = serializers.UUIDField()
    slug = serializers.SlugField()
    name = serializers.CharField()
    description = serializers.CharField()
    role = serializers.SerializerMethodField(help_text="Your role; null for operators outside.")
    members = serializers.SerializerMethodField()
    archived_at = serializers.DateTimeField(allow_null=True)
    created_at = serializers.DateTimeField()
    generation = serializers.IntegerField()
    desired = serializers.CharField()
    status = StatusSerializer(source="*")

    @extend_schema_field(serializers.CharField(allow_null=True))
    def get_role(self, project: Project) -> str | None:
        return getattr(project, "my_role", None) or getattr(project, "entered_role", None)

    def get_members(self, project: Project) -> int | None:
        return getattr(project, "member_count", None)


class ProjectDetailSerializer(ProjectSerializer):
    permissions = serializers.SerializerMethodField(help_text="All you may do here.")

    def get_permissions(self, project: Project) -> list[str]:  # noqa: ARG002 - of the entry
        entry: Entry = self.context["entry"]
        return sorted(entry.granted)


class ProjectCreateSerializer(StrictSerializer):
    name = serializers.CharField(max_length=120)
    slug = serializers.CharField(max_length=40, required=False, allow_blank=True)
    description = serializers.CharField(max_length=2000, required=False, allow_blank=True)


class ProjectUpdateSerializer(StrictSerializer):
    name = serializers.CharField(max_length=120, required=False)
    description = serializers.CharField(max_length=2000, required=False, allow_blank=True)


class ArchiveSerializer(StrictSerializer):
    confirm_stop = serializers.BooleanField(required=False, default=False)


class PersonSerializer(serializers.Serializer[Any]):
    username = serializers.CharField()
    name = serializers.CharField(source="label")


class MemberSerializer(serializers.Serializer[Any]):
    user = PersonSerializer()
    role = serializers.ChoiceField(choices=Role.choices)
    from_group = serializers.CharField()
    since = serializers.DateTimeField(source="created_at")


class MemberAddSerializer(StrictSerializer):
    username = serializers.CharField(max_length=254)
    role = serializers.ChoiceField(choices=Role.choices, required=False, default=Role.MEMBER)


class MemberRoleSerializer(StrictSerializer):
    role = serializers.ChoiceField(choices=Role.choices)


class InvitationSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField(source="uid")
    email = serializers.EmailField()
    role = serializers.ChoiceField(choices=Role.choices)
    invited_by = PersonSerializer(allow_null=True)
    created_at = serializers.DateTimeField()
    expires_at = serializers.DateTimeField()


class InvitationCreateSerializer(StrictSerializer):
    email = serializers.EmailField()
    role = serializers.ChoiceField(choices=Role.choices, required=False, default=Role.MEMBER)


class EventSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField(source="uid")
    at = serializers.DateTimeField()
    actor = serializers.CharField(source="actor_name")
    via = serializers.CharField()
    verb = serializers.CharField()
    outcome = serializers.CharField()
    target_kind = serializers.CharField()
    target_uid = serializers.CharField()
    target_name = serializers.CharField()
    message = serializers.CharField()
