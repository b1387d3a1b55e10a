"""Presets through the API: everybody reads them, operators make them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from django.urls import reverse
from django.utils.translation import gettext as _
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from common.drf.views import ANY_TOKEN
from common.errors import Invalid, NotFound
from notebooks import selectors, services
from notebooks.kind import PRESET_TABLE
from notebooks.models import Preset
from projects.access import Permission
from projects.api.base import PlatformAPIView, ProjectAPIView
from projects.models import Project
from work.api.serializers import field_in, serializer_in, serializer_out
from work.standard_fields import TIME_LIMIT

_PRESET = PRESET_TABLE.but("name", "env", "time_limit_minutes", "volumes", "credentials", "needs")
_MINUTES: dict[str, Any] = {"allow_null": True, "min_value": 1, "max_value": TIME_LIMIT.high}


class PresetOut(
    serializer_out(  # type: ignore[misc]
        "PresetSaid",
        _PRESET,
    )
):
    slug = serializers.CharField()
    name = serializers.CharField()
    description = serializers.CharField(allow_blank=True)
    icon = serializers.CharField()
    time_limit_minutes = serializers.IntegerField(allow_null=True)
    max_time_limit_minutes = serializers.IntegerField(allow_null=True)
    idle_stop_minutes = serializers.IntegerField(allow_null=True)
    is_active = serializers.BooleanField()


class PresetEdit(
    serializer_in(  # type: ignore[misc]
        "PresetSaid",
        _PRESET,
        nullable=False,
    )
):
    """What an operator says of a preset; what is left out stays as it is."""

    name = serializers.CharField(max_length=60, required=False)
    description = serializers.CharField(max_length=300, required=False, allow_blank=True)
    icon = serializers.SlugField(max_length=40, required=False)
    default_env = field_in(PRESET_TABLE["env"], nullable=False)
    time_limit_minutes = serializers.IntegerField(required=False, **_MINUTES)
    max_time_limit_minutes = serializers.IntegerField(required=False, **_MINUTES)
    idle_stop_minutes = serializers.IntegerField(required=False, **_MINUTES)
    position = serializers.IntegerField(min_value=0, max_value=100_000, required=False)
    is_active = serializers.BooleanField(required=False)
    projects = serializers.ListField(
        child=serializers.SlugField(max_length=63),
        max_length=1000,
        required=False,
        help_text="none: every project",
    )


class PresetIn(PresetEdit):
    """A new preset; its short name never changes."""

    slug = serializers.SlugField(max_length=40, required=False)
    name = serializers.CharField(max_length=60)


class PresetList(PlatformAPIView):
    """The presets you may use somewhere."""

    pagination_class = None  # short by nature: one answer

    required_platform: ClassVar = {"GET": "user", "POST": "operator"}
    limited_tokens: ClassVar = {"GET": ANY_TOKEN}

    @extend_schema(responses=PresetOut(many=True))
    def get(self, request: Request) -> Response:  # noqa: ARG002
        rows = selectors.presets_visible_to(self.principal)
        return Response([_preset(row) for row in rows])

    @extend_schema(request=PresetIn, responses={201: PresetOut})
    def post(self, request: Request) -> Response:
        fields = _fields(PresetIn, request)
        made = services.preset_create(principal=self.principal, fields=fields)
        response = Response(_preset(made), status=status.HTTP_201_CREATED)
        response["Location"] = reverse("api-preset", kwargs={"preset": made.slug})
        return response


class PresetDetail(PlatformAPIView):
    """One preset, for operators. Workspaces made from it keep what they have."""

    required_platform: ClassVar = {"GET": "auditor", "PATCH": "operator", "DELETE": "operator"}

    @extend_schema(responses=PresetOut)
    def get(self, request: Request, preset: str) -> Response:  # noqa: ARG002
        return Response(_preset(_found(preset)))

    @extend_schema(request=PresetEdit, responses=PresetOut)
    def patch(self, request: Request, preset: str) -> Response:
        fields = _fields(PresetEdit, request)
        row = services.preset_update(principal=self.principal, preset=_found(preset), fields=fields)
        return Response(_preset(row))

    @extend_schema(responses={204: None})
    def delete(self, request: Request, preset: str) -> Response:  # noqa: ARG002
        services.preset_delete(principal=self.principal, preset=_found(preset))
        return Response(status=status.HTTP_204_NO_CONTENT)


class ProjectPresetList(ProjectAPIView):
    """The presets of one project, in the order of their cards."""

    pagination_class = None  # short by nature: one answer

    required_permissions: ClassVar[Mapping[str, Permission]] = {
        "GET": Permission.WORKSPACE_READ,
    }

    @extend_schema(responses=PresetOut(many=True))
    def get(self, request: Request, project: str) -> Response:  # noqa: ARG002
        return Response([_preset(row) for row in selectors.presets_for(self.project)])


def _found(slug: str) -> Preset:
    row = Preset.objects.filter(slug=slug).first()
    if row is None:
        raise NotFound(_("There is no such preset."))
    return row


def _fields(kind: type[PresetEdit], request: Request) -> services.PresetFields:
    given = kind(data=request.data)
    given.is_valid(raise_exception=True)
    values = dict(given.validated_data)
    slugs = values.pop("projects", None)
    if "cluster" in values:
        values["cluster_key"] = values.pop("cluster")
    return services.PresetFields(values, None if slugs is None else _projects(slugs))


def _projects(slugs: list[str]) -> list[Project]:
    rows = list(Project.objects.filter(slug__in=slugs, deleted_at__isnull=True))
    if missing := sorted(set(slugs) - {row.slug for row in rows}):
        message = _("There is no project “%(name)s”.") % {"name": missing[0]}
        raise Invalid(message, fields={"projects": [message]})
    return rows


def _preset(row: Preset) -> dict[str, Any]:
    names: list[str] = list(PresetOut().get_fields())
    return {n: getattr(row, "cluster_key" if n == "cluster" else n) for n in names}
