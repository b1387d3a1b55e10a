"""The API of file browsers: open, how far, end. Files themselves go through the gate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, ClassVar

from django.urls import path
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from files import selectors, services
from files.selectors import state_of
from projects.access import Permission
from projects.api.base import ProjectAPIView


class FilesOut(serializers.Serializer[Any]):
    """Ask again until ``is_open``; then ``url`` takes the same token as the API."""

    phase = serializers.CharField(help_text="closed, pending, starting, running, failed …")
    message = serializers.CharField(help_text="why it is not open, in words")
    is_open = serializers.BooleanField()
    # A field named like one of its base class.
    read_only = serializers.BooleanField(  # type: ignore[assignment]
        help_text="you may look, not change"
    )
    url = serializers.CharField(help_text="where the gate answers; see docs/dev/files.md")
    room_bytes = serializers.IntegerField(allow_null=True, help_text="what the size still leaves")


class VolumeFiles(ProjectAPIView):
    """The file browser of one volume, for the person who asks."""

    # A home is its owner's alone, other volumes need VOLUME_USE: the selector tells them apart.
    required_permissions: ClassVar[Mapping[str, Permission]] = {
        "GET": Permission.VOLUME_READ,
        "POST": Permission.VOLUME_READ,
        "DELETE": Permission.VOLUME_READ,
    }
    # Opening is on the way to reading; what a token may do there is asked at each request.
    reading_methods = frozenset({"POST"})
    serializer_class = FilesOut

    @extend_schema(responses=FilesOut)
    def get(self, request: Request, project: str, volume: Any) -> Response:  # noqa: ARG002
        place = selectors.place_get(self.principal, volume, self.project)
        row = selectors.session_of(self.principal, place.volume)
        return Response(FilesOut(asdict(state_of(place, row))).data)

    @extend_schema(request=None, responses={202: FilesOut})
    def post(self, request: Request, project: str, volume: Any) -> Response:  # noqa: ARG002
        row = services.session_open(
            principal=self.principal, project=self.project, volume_uid=volume
        )
        place = selectors.place_get(self.principal, volume, self.project)
        said = FilesOut(asdict(state_of(place, row))).data
        return Response(said, status=status.HTTP_202_ACCEPTED)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, project: str, volume: Any) -> Response:  # noqa: ARG002
        place = selectors.place_get(self.principal, volume, self.project)
        services.session_end(
            principal=self.principal, project=self.project, volume_uid=place.volume.uid
        )
        return Response(status=status.HTTP_204_NO_CONTENT)


urlpatterns = [
    path(
        "projects/<slug:project>/volumes/<uuid:volume>/files",
        VolumeFiles.as_view(),
        name="api-volume-files",
    ),
]
