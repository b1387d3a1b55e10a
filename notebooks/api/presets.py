"""Presets through the API: everybody reads them, operators make them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from django.urls import reverse
from django.utils.translation import gettext as _
from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from common.drf.views import ANY_TOKEN
from common.errors import Invalid, NotFound
from notebooks import selectors, services
from notebooks.api import serializers as s
from notebooks.models import Preset
from projects.access import Permission
from projects.api.base import PlatformAPIView, ProjectAPIView
from projects.models import Project


class PresetList(PlatformAPIView):
    """The presets you may use somewhere."""

    pagination_class = None  # short by nature: one answer

    required_platform: ClassVar = {"GET": "user", "POST": "operator"}
    limited_tokens: ClassVar = {"GET": ANY_TOKEN}

    @extend_schema(responses=s.PresetOut(many=True))
    def get(self, request: Request) -> Response:  # noqa: ARG002
        rows = selectors.presets_visible_to(self.principal)
        return Response([_preset(row) for row in rows])

    @extend_schema(request=s.PresetIn, responses={201: s.PresetOut})
    def post(self, request: Request) -> Response:
        fields = _fields(s.PresetIn, request)
        made = services.preset_create(principal=self.principal, fields=fields)
        response = Response(_preset(made), status=status.HTTP_201_CREATED)
        response["Location"] = reverse("api-preset", kwargs={"preset": made.slug})
        return response


class PresetDetail(PlatformAPIView):
    """One preset, for operators. Workspaces made from it keep what they have."""

    required_platform: ClassVar = {"GET": "auditor", "PATCH": "operator", "DELETE": "operator"}

    @extend_schema(responses=s.PresetOut)
    def get(self, request: Request, preset: str) -> Response:  # noqa: ARG002
        return Response(_preset(_found(preset)))

    @extend_schema(request=s.PresetEdit, responses=s.PresetOut)
    def patch(self, request: Request, preset: str) -> Response:
        fields = _fields(s.PresetEdit, request)
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

    @extend_schema(responses=s.PresetOut(many=True))
    def get(self, request: Request, project: str) -> Response:  # noqa: ARG002
        return Response([_preset(row) for row in selectors.presets_for(self.project)])


def _found(slug: str) -> Preset:
    row = Preset.objects.filter(slug=slug).first()
    if row is None:
        raise NotFound(_("There is no such preset."))
    return row


def _fields(kind: type[s.PresetEdit], request: Request) -> services.PresetFields:
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
    names: list[str] = list(s.PresetOut().get_fields())
    return {n: getattr(row, "cluster_key" if n == "cluster" else n) for n in names}
