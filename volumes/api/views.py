"""The API of volumes: translates, decides nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar
from uuid import UUID

from django.db import transaction
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from common.drf.etag import check_if_match, with_etag
from projects.access import Permission
from projects.api.base import ProjectAPIView
from projects.api.reasons import REASON, ReasonIn, reason_in
from volumes import filters, selectors, services
from volumes.api import render
from volumes.api import serializers as s
from volumes.models import Volume

PLAN = OpenApiParameter("plan", OpenApiTypes.INT, description="1: only say what would happen")
READ = Permission.VOLUME_READ


class VolumeAPIView(ProjectAPIView):
    """Below ``/projects/{project}/volumes/{id}``. The services ask who may do what."""

    serializer_class = s.VolumeOut

    def volume(self) -> Volume:
        return selectors.volume_get(self.principal, self.kwargs["volume"], self.project)

    def given(self, kind: type[Any]) -> dict[str, Any]:
        serializer = kind(data=self.request.data)
        serializer.is_valid(raise_exception=True)
        return dict(serializer.validated_data)

    def answer(self, row: Volume, code: int = status.HTTP_200_OK) -> Response:
        """Tell what became of a row that was changed: it is read again, with all that is shown."""
        return self.shown(selectors.volume_get(self.principal, row.uid, self.project), code)

    def shown(self, row: Volume, code: int = status.HTTP_200_OK) -> Response:
        said = render.volume_one(row, self.principal, self.entry.granted)
        return with_etag(Response(said, status=code), row)


class VolumeList(VolumeAPIView):
    """The volumes of a project; make one."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {
        "GET": READ,
        "POST": Permission.VOLUME_CREATE,
    }

    @extend_schema(
        responses=s.VolumeOut(many=True),
        parameters=[
            OpenApiParameter("q", OpenApiTypes.STR, description="part of the name"),
            OpenApiParameter("kind", OpenApiTypes.STR, description="home, project or data"),
            OpenApiParameter("cluster", OpenApiTypes.STR),
            OpenApiParameter("class", OpenApiTypes.STR),
            OpenApiParameter("mine", OpenApiTypes.INT, description="1: made or owned by you"),
            OpenApiParameter("deleted", OpenApiTypes.INT, description="1: only being deleted"),
        ],
    )
    def get(self, request: Request, project: str) -> Response:  # noqa: ARG002
        rows = selectors.volumes_visible_to(self.principal, self.project)
        rows = filters.narrowed(rows, self.principal, request.query_params)
        page = self.paginate_queryset(rows)
        out = render.volumes_out(page or [], self.principal, self.entry.granted)
        return self.get_paginated_response(out)

    @extend_schema(
        request=s.VolumeIn,
        parameters=[PLAN],
        responses={202: s.VolumeDetailOut, 200: s.VolumePlanOut},
    )
    def post(self, request: Request, project: str) -> Response:  # noqa: ARG002
        wanted = services.NewVolume(**self.given(s.VolumeIn))
        asked: dict[str, Any] = {
            "principal": self.principal,
            "project": self.project,
            "wanted": wanted,
        }
        if is_plan(request):
            return Response(render.plan_out(services.volume_plan(**asked)))
        return self.answer(services.volume_create(**asked), status.HTTP_202_ACCEPTED)


class VolumeApply(VolumeAPIView):
    """Make or change a volume as a document says."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {"POST": Permission.VOLUME_CREATE}

    @extend_schema(
        request=OpenApiTypes.OBJECT,
        parameters=[PLAN],
        responses={202: s.VolumeDetailOut, 200: s.VolumePlanOut},
    )
    def post(self, request: Request, project: str) -> Response:  # noqa: ARG002
        asked: dict[str, Any] = {
            "principal": self.principal,
            "project": self.project,
            "document": request.data,
        }
        if is_plan(request):
            return Response(render.plan_out(services.manifest_plan(**asked)))
        return self.answer(services.volume_apply(**asked), status.HTTP_202_ACCEPTED)


class VolumeDetail(VolumeAPIView):
    """One volume."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {
        "GET": READ,
        "PATCH": READ,
        "DELETE": READ,
    }

    @extend_schema(responses=s.VolumeDetailOut)
    def get(self, request: Request, project: str, volume: UUID) -> Response:  # noqa: ARG002
        return self.shown(self.volume())

    @extend_schema(
        request=s.VolumeEdit,
        parameters=[PLAN],
        responses={202: s.VolumeDetailOut, 200: s.VolumePlanOut},
    )
    def patch(self, request: Request, project: str, volume: UUID) -> Response:  # noqa: ARG002
        said = self.given(s.VolumeEdit)
        no_limit = "size_limit_mib" in said and said["size_limit_mib"] is None
        changes = services.Changes(**said, no_limit=no_limit)
        if is_plan(request):
            plan = services.volume_plan(
                principal=self.principal,
                project=self.project,
                volume=self.volume(),
                changes=changes,
            )
            return Response(render.plan_out(plan))
        with transaction.atomic():
            row = self.volume()
            check_if_match(request, row)
            row = services.volume_edit(principal=self.principal, volume=row, changes=changes)
        return self.answer(row, status.HTTP_202_ACCEPTED)

    @extend_schema(parameters=[REASON], responses={202: s.VolumeDetailOut})
    def delete(self, request: Request, project: str, volume: UUID) -> Response:  # noqa: ARG002
        with transaction.atomic():
            row = self.volume()
            check_if_match(request, row)
            row = services.volume_delete(
                principal=self.principal, volume=row, said=reason_in(request)
            )
        return self.answer(row, status.HTTP_202_ACCEPTED)


class VolumeRestore(VolumeAPIView):
    """Bring back a volume that is being deleted."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {"POST": READ}

    @extend_schema(request=s.RestoreIn, responses={202: s.VolumeDetailOut})
    def post(self, request: Request, project: str, volume: UUID) -> Response:  # noqa: ARG002
        name = self.given(s.RestoreIn).get("name")
        row = services.volume_bring_back(principal=self.principal, volume=self.volume(), name=name)
        return self.answer(row, status.HTTP_202_ACCEPTED)


class VolumePurge(VolumeAPIView):
    """Remove a volume with its files now, without any undo."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {"POST": Permission.VOLUME_MANAGE}

    @extend_schema(request=ReasonIn, responses={202: s.VolumeDetailOut})
    def post(self, request: Request, project: str, volume: UUID) -> Response:  # noqa: ARG002
        row = services.volume_purge(
            principal=self.principal, volume=self.volume(), said=reason_in(request)
        )
        return self.answer(row, status.HTTP_202_ACCEPTED)


class VolumeManifest(VolumeAPIView):
    """The document that makes the same volume again."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {"GET": READ}

    @extend_schema(responses=OpenApiTypes.OBJECT)
    def get(self, request: Request, project: str, volume: UUID) -> Response:  # noqa: ARG002
        return Response(services.manifest_of(self.volume()))


def is_plan(request: Request) -> bool:
    return request.query_params.get("plan", "") in {"1", "true"}
