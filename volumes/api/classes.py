"""The API of classes of storage: what a project may choose, and operators' own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from django.db import transaction
from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from clusters.usable import usable_clusters
from common.drf.etag import check_if_match, with_etag
from projects.access import Permission
from projects.api.base import PlatformAPIView, ProjectAPIView
from volumes import selectors, services
from volumes.api import render
from volumes.api import serializers as s
from volumes.models import VolumeClass


class OfferList(ProjectAPIView):
    """The classes that volumes of a project can be made of, by cluster; the default first."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {"GET": Permission.VOLUME_READ}
    serializer_class = s.OfferOut
    pagination_class = None  # operators' data: one answer

    @extend_schema(responses=s.OfferOut(many=True))
    def get(self, request: Request, project: str) -> Response:  # noqa: ARG002
        clusters = usable_clusters(self.project.uid)
        found, near = selectors.offers_near(clusters, self.project.uid)
        return Response(
            [
                render.offer_out(row, cluster, near.get((cluster, key), ()), is_default=number == 0)
                for cluster, rows in found.items()
                for number, (key, row) in enumerate(rows.items())
            ]
        )


class VolumeClassAPIView(PlatformAPIView):
    required_platform: ClassVar[Any] = {"GET": "auditor", "POST": "operator"}
    serializer_class = s.VolumeClassOut

    def given(self, kind: type[Any]) -> dict[str, Any]:
        serializer = kind(data=self.request.data)
        serializer.is_valid(raise_exception=True)
        return dict(serializer.validated_data)

    def answer(self, row: VolumeClass, code: int = status.HTTP_200_OK) -> Response:
        row = selectors.class_get(row.key)
        return with_etag(Response(render.class_out(row), status=code), row)


class VolumeClassList(VolumeClassAPIView):
    """The classes of storage; make one. Operators only."""

    @extend_schema(responses=s.VolumeClassOut(many=True))
    def get(self, request: Request) -> Response:  # noqa: ARG002
        page = self.paginate_queryset(selectors.classes())
        return self.get_paginated_response([render.class_out(row) for row in page or []])

    @extend_schema(request=s.VolumeClassIn, responses={201: s.VolumeClassOut})
    def post(self, request: Request) -> Response:  # noqa: ARG002
        values = self.given(s.VolumeClassIn)
        row = services.class_save(principal=self.principal, values=values)
        return self.answer(row, status.HTTP_201_CREATED)


class VolumeClassDetail(VolumeClassAPIView):
    """One class of storage. Operators only."""

    required_platform: ClassVar[Any] = {
        "GET": "auditor",
        "PATCH": "operator",
        "DELETE": "operator",
    }

    @extend_schema(responses=s.VolumeClassOut)
    def get(self, request: Request, volume_class: str) -> Response:  # noqa: ARG002
        return self.answer(selectors.class_get(volume_class))

    @extend_schema(request=s.VolumeClassEdit, responses=s.VolumeClassOut)
    def patch(self, request: Request, volume_class: str) -> Response:
        values = self.given(s.VolumeClassEdit)
        with transaction.atomic():
            row = selectors.class_get(volume_class)
            check_if_match(request, row)
            row = services.class_save(principal=self.principal, values=values, volume_class=row)
        return self.answer(row)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, volume_class: str) -> Response:  # noqa: ARG002
        services.class_delete(
            principal=self.principal, volume_class=selectors.class_get(volume_class)
        )
        return Response(status=status.HTTP_204_NO_CONTENT)
