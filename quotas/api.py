# ruff: noqa: ARG002 - handlers get what is in the URL, also when the base class has used it
"""Limits through the API: members read their project's, operators set them."""

from typing import Any, ClassVar

from django.urls import path
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.models import User
from common.errors import Invalid, NotFound
from projects.access import Permission
from projects.api.base import PlatformAPIView, ProjectAPIView
from projects.models import Project
from quotas import selectors, services

_LIMITS = {
    "application/json": {
        "type": "object",
        "description": "Resource to amount; null removes the limit. What is not named stays.",
        "additionalProperties": {"type": "integer", "nullable": True, "minimum": 0},
        "example": {"gpus": 4, "gpus:h100-80": 2, "memory_mib": None},
    }
}


class ShareSerializer(serializers.Serializer[Any]):
    resource = serializers.CharField()
    scope = serializers.CharField()
    used = serializers.IntegerField()
    limit = serializers.IntegerField(allow_null=True)
    left = serializers.IntegerField(allow_null=True)


class EffectSerializer(serializers.Serializer[Any]):
    resource = serializers.CharField()
    limit = serializers.IntegerField(allow_null=True)
    used = serializers.IntegerField()
    over = serializers.BooleanField(source="is_over")
    sentence = serializers.CharField()


class ProjectQuotaView(ProjectAPIView):
    """What is used and left: the project's totals, and one's own limits where set."""

    pagination_class = None  # short by nature: one answer

    required_permissions: ClassVar = {"GET": Permission.QUOTA_READ}

    @extend_schema(responses=ShareSerializer(many=True))
    def get(self, request: Request, project: str) -> Response:
        shares = selectors.Account(self.project, self.principal.user).shares()
        return Response(ShareSerializer(shares, many=True).data)


class LimitsView(PlatformAPIView):
    """Limits of a project, of a member there, or of a person. PUT answers what follows.

    ``?plan=1`` changes nothing and answers what would follow.
    """

    pagination_class = None  # short by nature: one answer

    required_platform: ClassVar = {"GET": "auditor", "PUT": "operator"}

    @extend_schema(
        responses={200: {"type": "object", "additionalProperties": {"type": "integer"}}},
    )
    def get(self, request: Request, **target: str) -> Response:
        project, user = self._target(**target)
        rows = (
            selectors.limits_of_user(user)
            if project is None and user is not None
            else selectors.limits_of_project(project).filter(user=user)  # type: ignore[arg-type]
        )
        return Response({row.resource: row.amount for row in rows})

    @extend_schema(
        request=_LIMITS,
        parameters=[OpenApiParameter("plan", bool)],
        responses=EffectSerializer(many=True),
    )
    def put(self, request: Request, **target: str) -> Response:
        project, user = self._target(**target)
        if not isinstance(request.data, dict) or not request.data:
            raise Invalid("An object of resource to amount is expected.")
        if request.query_params.get("plan", "").lower() in {"1", "true", "yes"}:
            effects = services.limits_effect(limits=request.data, project=project, user=user)
        else:
            effects = services.limits_set(
                principal=self.principal, limits=request.data, project=project, user=user
            )
        return Response(EffectSerializer(effects, many=True).data)

    def _target(
        self, project_slug: str = "", username: str = ""
    ) -> tuple[Project | None, User | None]:
        project = user = None
        if project_slug:
            project = Project.objects.filter(slug=project_slug, deleted_at__isnull=True).first()
            if project is None:
                raise NotFound("There is no such project.")
        if username:
            user = User.objects.filter(username=username).first()
            if user is None:
                raise NotFound("There is no such person.")
        return project, user


app_name = "quotas-api"
urlpatterns = [
    path("projects/<slug:project>/quota", ProjectQuotaView.as_view(), name="project"),
    path("quotas/projects/<slug:project_slug>", LimitsView.as_view(), name="of-project"),
    path(
        "quotas/projects/<slug:project_slug>/members/<str:username>",
        LimitsView.as_view(),
        name="of-member",
    ),
    path("quotas/users/<str:username>", LimitsView.as_view(), name="of-user"),
]
