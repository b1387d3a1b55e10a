"""What the API's views of one workspace share."""

from __future__ import annotations

from typing import Any

from rest_framework import status
from rest_framework.response import Response

from common.drf.views import with_etag
from common.errors import NotFound
from notebooks import selectors
from notebooks.api import render
from notebooks.api import serializers as s
from notebooks.models import Workspace
from projects.api.base import ProjectAPIView


class WorkspaceAPIView(ProjectAPIView):
    """Below ``/projects/{project}/workspaces/{id}``."""

    serializer_class = s.EmptyIn

    def workspace(self, *, for_update: bool = False) -> Workspace:
        short_id = self.kwargs["workspace"]
        return selectors.workspace_get(
            self.principal, short_id, self.project, for_update=for_update
        )

    def given(self, kind: type[Any]) -> Any:
        serializer = kind(data=self.request.data)
        serializer.is_valid(raise_exception=True)
        return serializer

    def answer(self, row: Workspace, code: int = status.HTTP_200_OK) -> Response:
        """NotFound where it was removed since it was found."""
        try:
            row.refresh_from_db(fields=["generation"])
            response = Response(render.workspace_one(self.principal, row), status=code)
        except Workspace.DoesNotExist:
            raise NotFound(selectors.no_such()) from None
        return with_etag(response, row)
