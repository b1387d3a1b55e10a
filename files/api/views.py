"""The API of file browsers: open, how far, end. Files themselves go through the gate."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from files import selectors, services
from files.api import serializers as s
from files.selectors import state_of
from projects.access import Permission
from projects.api.base import ProjectAPIView


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
    serializer_class = s.FilesOut

    @extend_schema(responses=s.FilesOut)
    def get(self, request: Request, project: str, volume: Any) -> Response:  # noqa: ARG002
        place = selectors.place_get(self.principal, volume, self.project)
        row = selectors.session_of(self.principal, place.volume)
        return Response(s.FilesOut(asdict(state_of(place, row))).data)

    @extend_schema(request=None, responses={202: s.FilesOut})
    def post(self, request: Request, project: str, volume: Any) -> Response:  # noqa: ARG002
        row = services.session_open(
            principal=self.principal, project=self.project, volume_uid=volume
        )
        place = selectors.place_get(self.principal, volume, self.project)
        said = s.FilesOut(asdict(state_of(place, row))).data
        return Response(said, status=status.HTTP_202_ACCEPTED)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, project: str, volume: Any) -> Response:  # noqa: ARG002
        place = selectors.place_get(self.principal, volume, self.project)
        services.session_end(
            principal=self.principal, project=self.project, volume_uid=place.volume.uid
        )
        return Response(status=status.HTTP_204_NO_CONTENT)
