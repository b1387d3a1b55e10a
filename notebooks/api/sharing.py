"""Who may open a workspace besides its owner, through the API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from notebooks import selectors, services
from notebooks.api import serializers as s
from notebooks.api.base import WorkspaceAPIView
from projects.access import Permission


class WorkspaceShares(WorkspaceAPIView):
    """Who may open a workspace besides its owner."""

    pagination_class = None  # short by nature: one answer

    required_permissions: ClassVar[Mapping[str, Permission]] = {
        "GET": Permission.WORKSPACE_READ,
        "POST": Permission.WORKSPACE_CREATE,
    }

    @extend_schema(responses=s.ShareOut(many=True))
    def get(self, request: Request, project: str, workspace: str) -> Response:  # noqa: ARG002
        shares = selectors.shares_of(self.workspace())
        return Response([_share(share) for share in shares])

    @extend_schema(request=s.ShareIn, responses={201: s.ShareOut})
    def post(self, request: Request, project: str, workspace: str) -> Response:  # noqa: ARG002
        username = self.given(s.ShareIn).validated_data["username"]
        share = services.workspace_share(
            principal=self.principal, workspace=self.workspace(), username=username
        )
        return Response(_share(share), status=status.HTTP_201_CREATED)


class WorkspaceShareDetail(WorkspaceAPIView):
    """Take somebody's access back."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {
        "DELETE": Permission.WORKSPACE_CREATE,
    }

    @extend_schema(responses={204: None})
    def delete(
        self,
        request: Request,  # noqa: ARG002
        project: str,  # noqa: ARG002
        workspace: str,  # noqa: ARG002
        username: str,
    ) -> Response:
        services.workspace_unshare(
            principal=self.principal, workspace=self.workspace(), username=username
        )
        return Response(status=status.HTTP_204_NO_CONTENT)


def _share(share: Any) -> dict[str, Any]:
    return {
        "username": share.user.username,
        "display_name": share.user.display_name,
        "created_at": share.created_at,
    }
