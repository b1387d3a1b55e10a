"""Asking about an image before something is started with it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from django.urls import path
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from common.drf.serializers import StrictSerializer
from common.oci import LENGTH_MAX
from images.findings import CONTAINER, NOTEBOOK
from images.services import cluster_for, image_check
from projects.access import Permission
from projects.api.base import ProjectAPIView


class ImageQuestion(StrictSerializer):
    image = serializers.CharField(max_length=LENGTH_MAX)
    cluster = serializers.CharField(
        max_length=63,
        required=False,
        default="",
        allow_blank=True,
        help_text="empty: the one that a start would choose",
    )
    kind = serializers.ChoiceField(choices=[NOTEBOOK, CONTAINER], default=NOTEBOOK)


class ImageFinding(serializers.Serializer[Any]):
    """``verdict``: good, bad (a start is refused), unknown (the registry did not say).

    ``probing``: the image's own program is asked for its version; ask again in some seconds.
    """

    verdict = serializers.ChoiceField(choices=["good", "bad", "unknown"])
    reference = serializers.CharField()
    problem = serializers.CharField()
    message = serializers.CharField()
    pinned = serializers.CharField()
    digest = serializers.CharField()
    architectures = serializers.ListField(child=serializers.CharField())
    size_bytes = serializers.IntegerField()
    user = serializers.CharField()
    runs_as_root = serializers.BooleanField()
    entrypoint = serializers.ListField(child=serializers.CharField())
    command = serializers.ListField(child=serializers.CharField())
    ports = serializers.ListField(child=serializers.IntegerField())
    singleuser = serializers.CharField()
    probing = serializers.BooleanField()
    warnings = serializers.ListField(child=serializers.CharField())


class Check(ProjectAPIView):
    """Does the image exist, for these machines, and can it be what is wanted."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {"POST": Permission.WORKSPACE_CREATE}
    serializer_class = ImageFinding

    @extend_schema(request=ImageQuestion, responses=ImageFinding)
    def post(self, request: Request, project: str) -> Response:  # noqa: ARG002
        given = ImageQuestion(data=request.data)
        given.is_valid(raise_exception=True)
        said = given.validated_data
        finding = image_check(
            principal=self.principal,
            project=self.project,
            cluster_key=cluster_for(self.principal, self.project, said),
            reference=said["image"],
            kind=said["kind"],
        )
        return Response(finding.as_json())


urlpatterns = [
    path("projects/<slug:project>/images/check", Check.as_view(), name="api-image-check"),
]
