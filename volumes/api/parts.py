"""The API of a volume's copies, and of handing it over."""

from __future__ import annotations

from collections.abc import Mapping
from typing import ClassVar
from uuid import UUID

from django.utils.translation import gettext as _
from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from common.errors import Forbidden, NotFound
from projects.access import Permission
from volumes import selectors, services
from volumes.api import render
from volumes.api import serializers as s
from volumes.api.views import READ, VolumeAPIView
from volumes.models import VolumeTransfer


class SnapshotList(VolumeAPIView):
    """The snapshots of a volume; make one."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {"GET": READ, "POST": READ}
    pagination_class = None  # bounded: services.snapshots.MOST

    @extend_schema(responses=s.SnapshotOut(many=True))
    def get(self, request: Request, project: str, volume: UUID) -> Response:  # noqa: ARG002
        rows = selectors.snapshots_of(self.principal, self.volume())
        return Response([render.snapshot_out(row) for row in rows])

    @extend_schema(request=s.SnapshotIn, responses={202: s.SnapshotOut})
    def post(self, request: Request, project: str, volume: UUID) -> Response:  # noqa: ARG002
        said = self.given(s.SnapshotIn)
        row = services.snapshot_create(principal=self.principal, volume=self.volume(), **said)
        return Response(render.snapshot_out(row), status=status.HTTP_202_ACCEPTED)


class SnapshotDetail(VolumeAPIView):
    """One snapshot."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {"GET": READ, "DELETE": READ}

    @extend_schema(responses=s.SnapshotOut)
    def get(self, request: Request, project: str, volume: UUID, snapshot: UUID) -> Response:  # noqa: ARG002
        return Response(
            render.snapshot_out(selectors.snapshot_get(self.principal, self.volume(), snapshot))
        )

    @extend_schema(responses={202: s.SnapshotOut})
    def delete(self, request: Request, project: str, volume: UUID, snapshot: UUID) -> Response:  # noqa: ARG002
        row = selectors.snapshot_get(self.principal, self.volume(), snapshot)
        row = services.snapshot_delete(principal=self.principal, snapshot=row)
        return Response(render.snapshot_out(row), status=status.HTTP_202_ACCEPTED)


class SnapshotRestore(VolumeAPIView):
    """Put a snapshot in place of what the volume holds now."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {"POST": READ}

    @extend_schema(request=None, responses={202: s.VolumeDetailOut})
    def post(self, request: Request, project: str, volume: UUID, snapshot: UUID) -> Response:  # noqa: ARG002
        copy = selectors.snapshot_get(self.principal, self.volume(), snapshot)
        row = services.snapshot_restore(principal=self.principal, snapshot=copy)
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
        return Response(render.transfer_out(self._open()))

    @extend_schema(request=s.TransferIn, responses={202: s.TransferOut})
    def post(self, request: Request, project: str, volume: UUID) -> Response:  # noqa: ARG002
        said = self.given(s.TransferIn)
        row = services.transfer_ask(principal=self.principal, volume=self.volume(), **said)
        return Response(render.transfer_out(row), status=status.HTTP_202_ACCEPTED)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, project: str, volume: UUID) -> Response:  # noqa: ARG002
        services.transfer_withdraw(principal=self.principal, transfer=self._open())
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
        return self.get_paginated_response([render.transfer_out(row) for row in page or []])


class TransferAccept(VolumeAPIView):
    """Take a volume over that another project offers."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {"POST": Permission.VOLUME_MANAGE}

    @extend_schema(request=s.AcceptIn, responses={202: s.VolumeDetailOut})
    def post(self, request: Request, project: str, transfer: UUID) -> Response:  # noqa: ARG002
        name = self.given(s.AcceptIn).get("name")
        found = selectors.transfer_get(self.principal, self.project, transfer)
        row = services.transfer_accept(principal=self.principal, transfer=found, name=name)
        return self.answer(row, status.HTTP_202_ACCEPTED)


class TransferDecline(VolumeAPIView):
    """Leave a volume where it is."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {"POST": Permission.VOLUME_MANAGE}

    @extend_schema(request=None, responses=s.TransferOut)
    def post(self, request: Request, project: str, transfer: UUID) -> Response:  # noqa: ARG002
        found = selectors.transfer_get(self.principal, self.project, transfer)
        row = services.transfer_decline(principal=self.principal, transfer=found)
        return Response(render.transfer_out(row))
