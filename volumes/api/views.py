"""The API of volumes: reading, and the limit of one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar
from uuid import UUID

from django.db import transaction
from drf_spectacular.utils import extend_schema
from rest_framework import serializers, status
from rest_framework.request import Request
from rest_framework.response import Response

from common.drf.etag import check_if_match, with_etag
from common.drf.serializers import StrictSerializer
from projects.access import Permission
from projects.api.base import ProjectAPIView
from volumes import selectors, services
from volumes.models import Volume

MAX_LIMIT_MIB = 2**31 - 1


class VolumeOut(serializers.Serializer[Any]):
    id = serializers.UUIDField()
    kind = serializers.CharField()
    name = serializers.CharField()
    project = serializers.CharField()
    owner = serializers.CharField(allow_null=True)
    size_limit_mib = serializers.IntegerField(allow_null=True)
    used_bytes = serializers.IntegerField(allow_null=True)
    used_at = serializers.DateTimeField(allow_null=True)
    generation = serializers.IntegerField()
    desired = serializers.CharField()
    phase = serializers.CharField()
    created_at = serializers.DateTimeField()


class VolumeEdit(StrictSerializer):
    size_limit_mib = serializers.IntegerField(min_value=1, max_value=MAX_LIMIT_MIB, allow_null=True)


class VolumeList(ProjectAPIView):
    """The volumes of a project."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {"GET": Permission.VOLUME_READ}
    serializer_class = VolumeOut

    @extend_schema(responses=VolumeOut(many=True))
    def get(self, request: Request, project: str) -> Response:  # noqa: ARG002
        page = self.paginate_queryset(selectors.volumes_visible_to(self.principal, self.project))
        return self.get_paginated_response([_out(row) for row in page or []])


class VolumeDetail(ProjectAPIView):
    """One volume."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {
        "GET": Permission.VOLUME_READ,
        "PATCH": Permission.VOLUME_MANAGE,
    }
    serializer_class = VolumeOut

    @extend_schema(responses=VolumeOut)
    def get(self, request: Request, project: str, volume: UUID) -> Response:  # noqa: ARG002
        row = selectors.volume_get(self.principal, volume, self.project)
        return with_etag(Response(_out(row)), row)

    @extend_schema(request=VolumeEdit, responses={202: VolumeOut})
    def patch(self, request: Request, project: str, volume: UUID) -> Response:  # noqa: ARG002
        given = VolumeEdit(data=request.data)
        given.is_valid(raise_exception=True)
        with transaction.atomic():
            row = selectors.volume_get(self.principal, volume, self.project)
            check_if_match(request, row)
            row = services.volume_set_limit(
                principal=self.principal,
                volume=row,
                size_limit_mib=given.validated_data["size_limit_mib"],
            )
        return with_etag(Response(_out(row), status=status.HTTP_202_ACCEPTED), row)


def _out(row: Volume) -> dict[str, Any]:
    return {
        "id": row.uid,
        "kind": row.kind,
        "name": row.name,
        "project": row.project.slug,
        "owner": row.owner.username if row.owner else None,
        "size_limit_mib": row.size_limit_mib,
        "used_bytes": row.used_bytes,
        "used_at": row.used_at,
        "generation": row.generation,
        "desired": row.desired,
        "phase": row.phase,
        "created_at": row.created_at,
    }
