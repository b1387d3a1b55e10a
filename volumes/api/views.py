"""The API of volumes, their copies, hand-overs and classes: translates, decides nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar
from uuid import UUID

from django.db import transaction
from django.urls import path
from django.utils.translation import gettext as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from clusters.usable import usable_clusters
from common.drf.serializers import given
from common.drf.views import check_if_match, with_etag
from common.errors import Forbidden, NotFound
from projects.access import Permission
from projects.api.base import REASON, PlatformAPIView, ProjectAPIView, ReasonIn, reason_in
from volumes import selectors
from volumes.api import serializers
from volumes.api import serializers as s
from volumes.models import Volume, VolumeClass, VolumeTransfer
from volumes.services import classes, create, edit, manifest, removal, transfers

PLAN = OpenApiParameter("plan", OpenApiTypes.INT, description="1: only say what would happen")
READ = Permission.VOLUME_READ


class VolumeAPIView(ProjectAPIView):
    """Below ``/projects/{project}/volumes/{id}``. The services ask who may do what."""

    serializer_class = s.VolumeOut

    def volume(self) -> Volume:
        return selectors.volume_get(self.principal, self.kwargs["volume"], self.project)

    def answer(self, row: Volume, code: int = status.HTTP_200_OK) -> Response:
        """Tell what became of a row that was changed: it is read again, with all that is shown."""
        return self.shown(selectors.volume_get(self.principal, row.uid, self.project), code)

    def shown(self, row: Volume, code: int = status.HTTP_200_OK) -> Response:
        said = serializers.volume_one(row, self.principal, self.entry.granted)
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
        rows = selectors.narrowed(rows, self.principal, request.query_params)
        page = self.paginate_queryset(rows)
        out = serializers.volumes_out(page or [], self.principal, self.entry.granted)
        return self.get_paginated_response(out)

    @extend_schema(
        request=s.VolumeIn,
        parameters=[PLAN],
        responses={202: s.VolumeDetailOut, 200: s.VolumePlanOut},
    )
    def post(self, request: Request, project: str) -> Response:  # noqa: ARG002
        wanted = create.NewVolume(**given(s.VolumeIn, request))
        asked: dict[str, Any] = {
            "principal": self.principal,
            "project": self.project,
            "wanted": wanted,
        }
        if is_plan(request):
            return Response(serializers.plan_out(manifest.volume_plan(**asked)))
        return self.answer(create.volume_create(**asked), status.HTTP_202_ACCEPTED)


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
            return Response(serializers.plan_out(manifest.manifest_plan(**asked)))
        return self.answer(manifest.volume_apply(**asked), status.HTTP_202_ACCEPTED)


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
        said = given(s.VolumeEdit, request)
        no_limit = "size_limit_mib" in said and said["size_limit_mib"] is None
        changes = edit.Changes(**said, no_limit=no_limit)
        if is_plan(request):
            plan = manifest.volume_plan(
                principal=self.principal,
                project=self.project,
                volume=self.volume(),
                changes=changes,
            )
            return Response(serializers.plan_out(plan))
        with transaction.atomic():
            row = self.volume()
            check_if_match(request, row)
            row = edit.volume_edit(principal=self.principal, volume=row, changes=changes)
        return self.answer(row, status.HTTP_202_ACCEPTED)

    @extend_schema(parameters=[REASON], responses={202: s.VolumeDetailOut})
    def delete(self, request: Request, project: str, volume: UUID) -> Response:  # noqa: ARG002
        with transaction.atomic():
            row = self.volume()
            check_if_match(request, row)
            row = removal.volume_delete(
                principal=self.principal, volume=row, said=reason_in(request)
            )
        return self.answer(row, status.HTTP_202_ACCEPTED)


class VolumeRestore(VolumeAPIView):
    """Bring back a volume that is being deleted."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {"POST": READ}

    @extend_schema(request=s.RestoreIn, responses={202: s.VolumeDetailOut})
    def post(self, request: Request, project: str, volume: UUID) -> Response:  # noqa: ARG002
        name = given(s.RestoreIn, request).get("name")
        row = removal.volume_bring_back(principal=self.principal, volume=self.volume(), name=name)
        return self.answer(row, status.HTTP_202_ACCEPTED)


class VolumePurge(VolumeAPIView):
    """Remove a volume with its files now, without any undo."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {"POST": Permission.VOLUME_MANAGE}

    @extend_schema(request=ReasonIn, responses={202: s.VolumeDetailOut})
    def post(self, request: Request, project: str, volume: UUID) -> Response:  # noqa: ARG002
        row = removal.volume_purge(
            principal=self.principal, volume=self.volume(), said=reason_in(request)
        )
        return self.answer(row, status.HTTP_202_ACCEPTED)


class VolumeManifest(VolumeAPIView):
    """The document that makes the same volume again."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {"GET": READ}

    @extend_schema(responses=OpenApiTypes.OBJECT)
    def get(self, request: Request, project: str, volume: UUID) -> Response:  # noqa: ARG002
        return Response(manifest.manifest_of(self.volume()))


def is_plan(request: Request) -> bool:
    return request.query_params.get("plan", "") in {"1", "true"}


class SnapshotList(VolumeAPIView):
    """The snapshots of a volume; make one."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {"GET": READ, "POST": READ}
    pagination_class = None  # bounded: services.snapshots.MOST

    @extend_schema(responses=s.SnapshotOut(many=True))
    def get(self, request: Request, project: str, volume: UUID) -> Response:  # noqa: ARG002
        rows = selectors.snapshots_of(self.principal, self.volume())
        return Response([serializers.snapshot_out(row) for row in rows])

    @extend_schema(request=s.SnapshotIn, responses={202: s.SnapshotOut})
    def post(self, request: Request, project: str, volume: UUID) -> Response:  # noqa: ARG002
        said = given(s.SnapshotIn, request)
        row = removal.snapshot_create(principal=self.principal, volume=self.volume(), **said)
        return Response(serializers.snapshot_out(row), status=status.HTTP_202_ACCEPTED)


class SnapshotDetail(VolumeAPIView):
    """One snapshot."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {"GET": READ, "DELETE": READ}

    @extend_schema(responses=s.SnapshotOut)
    def get(self, request: Request, project: str, volume: UUID, snapshot: UUID) -> Response:  # noqa: ARG002
        return Response(
            serializers.snapshot_out(
                selectors.snapshot_get(self.principal, self.volume(), snapshot)
            )
        )

    @extend_schema(responses={202: s.SnapshotOut})
    def delete(self, request: Request, project: str, volume: UUID, snapshot: UUID) -> Response:  # noqa: ARG002
        row = selectors.snapshot_get(self.principal, self.volume(), snapshot)
        row = removal.snapshot_delete(principal=self.principal, snapshot=row)
        return Response(serializers.snapshot_out(row), status=status.HTTP_202_ACCEPTED)


class SnapshotRestore(VolumeAPIView):
    """Put a snapshot in place of what the volume holds now."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {"POST": READ}

    @extend_schema(request=None, responses={202: s.VolumeDetailOut})
    def post(self, request: Request, project: str, volume: UUID, snapshot: UUID) -> Response:  # noqa: ARG002
        copy = selectors.snapshot_get(self.principal, self.volume(), snapshot)
        row = removal.snapshot_restore(principal=self.principal, snapshot=copy)
        return self.answer(row, status.HTTP_202_ACCEPTED)


class VolumeTransferView(VolumeAPIView):
    """The open offer of a volume to another project: make it, look, take it back."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {
        "GET": READ,
        "POST": Permission.VOLUME_MANAGE,
        "DELETE": Permission.VOLUME_MANAGE,
    }

    @extend_schema(responses=s.TransferOut)
    def get(self, request: Request, project: str, volume: UUID) -> Response:  # noqa: ARG002
        if not selectors.is_owner(self.principal, self.project):
            raise Forbidden(_("Only an owner of the project may hand over its volumes."))
        return Response(serializers.transfer_out(self._open()))

    @extend_schema(request=s.TransferIn, responses={202: s.TransferOut})
    def post(self, request: Request, project: str, volume: UUID) -> Response:  # noqa: ARG002
        said = given(s.TransferIn, request)
        row = transfers.transfer_ask(principal=self.principal, volume=self.volume(), **said)
        return Response(serializers.transfer_out(row), status=status.HTTP_202_ACCEPTED)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, project: str, volume: UUID) -> Response:  # noqa: ARG002
        transfers.transfer_withdraw(principal=self.principal, transfer=self._open())
        return Response(status=status.HTTP_204_NO_CONTENT)

    def _open(self) -> VolumeTransfer:
        found = selectors.transfer_of(self.volume())
        if found is None:
            raise NotFound(_("It is offered to nobody."))
        return found


class TransferInbox(VolumeAPIView):
    """The volumes that other projects offer to this one; for its owners."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {"GET": READ}

    @extend_schema(responses=s.TransferOut(many=True))
    def get(self, request: Request, project: str) -> Response:  # noqa: ARG002
        page = self.paginate_queryset(selectors.transfers_asked_of(self.principal, self.project))
        return self.get_paginated_response([serializers.transfer_out(row) for row in page or []])


class TransferAccept(VolumeAPIView):
    """Take a volume over that another project offers."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {"POST": Permission.VOLUME_MANAGE}

    @extend_schema(request=s.AcceptIn, responses={202: s.VolumeDetailOut})
    def post(self, request: Request, project: str, transfer: UUID) -> Response:  # noqa: ARG002
        name = given(s.AcceptIn, request).get("name")
        found = selectors.transfer_get(self.principal, self.project, transfer)
        row = transfers.transfer_accept(principal=self.principal, transfer=found, name=name)
        return self.answer(row, status.HTTP_202_ACCEPTED)


class TransferDecline(VolumeAPIView):
    """Leave a volume where it is."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {"POST": Permission.VOLUME_MANAGE}

    @extend_schema(request=None, responses=s.TransferOut)
    def post(self, request: Request, project: str, transfer: UUID) -> Response:  # noqa: ARG002
        found = selectors.transfer_get(self.principal, self.project, transfer)
        row = transfers.transfer_decline(principal=self.principal, transfer=found)
        return Response(serializers.transfer_out(row))


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
                serializers.offer_out(
                    row, cluster, near.get((cluster, key), ()), is_default=number == 0
                )
                for cluster, rows in found.items()
                for number, (key, row) in enumerate(rows.items())
            ]
        )


class VolumeClassAPIView(PlatformAPIView):
    required_platform: ClassVar[Any] = {"GET": "auditor", "POST": "operator"}
    serializer_class = s.VolumeClassOut

    def answer(self, row: VolumeClass, code: int = status.HTTP_200_OK) -> Response:
        row = selectors.class_get(row.key)
        return with_etag(Response(serializers.class_out(row), status=code), row)


class VolumeClassList(VolumeClassAPIView):
    """The classes of storage; make one. Operators only."""

    @extend_schema(responses=s.VolumeClassOut(many=True))
    def get(self, request: Request) -> Response:  # noqa: ARG002
        page = self.paginate_queryset(selectors.classes())
        return self.get_paginated_response([serializers.class_out(row) for row in page or []])

    @extend_schema(request=s.VolumeClassIn, responses={201: s.VolumeClassOut})
    def post(self, request: Request) -> Response:
        values = given(s.VolumeClassIn, request)
        row = classes.class_save(principal=self.principal, values=values)
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
        values = given(s.VolumeClassEdit, request)
        with transaction.atomic():
            row = selectors.class_get(volume_class)
            check_if_match(request, row)
            row = classes.class_save(principal=self.principal, values=values, volume_class=row)
        return self.answer(row)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, volume_class: str) -> Response:  # noqa: ARG002
        classes.class_delete(
            principal=self.principal, volume_class=selectors.class_get(volume_class)
        )
        return Response(status=status.HTTP_204_NO_CONTENT)


_PROJECT = "projects/<slug:project>"
_ALL = f"{_PROJECT}/volumes"
_ONE = f"{_ALL}/<uuid:volume>"
_COPY = f"{_ONE}/snapshots/<uuid:snapshot>"
_OFFERED = f"{_PROJECT}/volume-transfers"

urlpatterns = [
    path("volume-classes", VolumeClassList.as_view(), name="api-volume-classes"),
    path(
        "volume-classes/<slug:volume_class>",
        VolumeClassDetail.as_view(),
        name="api-volume-class",
    ),
    path(f"{_PROJECT}/volume-classes", OfferList.as_view(), name="api-volume-offers"),
    path(_ALL, VolumeList.as_view(), name="api-volumes"),
    path(f"{_ALL}/apply", VolumeApply.as_view(), name="api-volume-apply"),
    path(_ONE, VolumeDetail.as_view(), name="api-volume"),
    path(f"{_ONE}/restore", VolumeRestore.as_view(), name="api-volume-restore"),
    path(f"{_ONE}/purge", VolumePurge.as_view(), name="api-volume-purge"),
    path(f"{_ONE}/manifest", VolumeManifest.as_view(), name="api-volume-manifest"),
    path(f"{_ONE}/snapshots", SnapshotList.as_view(), name="api-volume-snapshots"),
    path(_COPY, SnapshotDetail.as_view(), name="api-volume-snapshot"),
    path(f"{_COPY}/restore", SnapshotRestore.as_view(), name="api-volume-snapshot-restore"),
    path(f"{_ONE}/transfer", VolumeTransferView.as_view(), name="api-volume-transfer"),
    path(_OFFERED, TransferInbox.as_view(), name="api-volume-transfers"),
    path(
        f"{_OFFERED}/<uuid:transfer>/accept",
        TransferAccept.as_view(),
        name="api-volume-transfer-accept",
    ),
    path(
        f"{_OFFERED}/<uuid:transfer>/decline",
        TransferDecline.as_view(),
        name="api-volume-transfer-decline",
    ),
]
