"""The API of workspaces: translates, decides nothing."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

from django.db import transaction
from django.db.models import Q
from django.urls import reverse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from common.drf.views import check_if_match, with_etag
from common.errors import Invalid
from notebooks import services
from notebooks.api import render
from notebooks.api import serializers as s
from notebooks.api.base import WorkspaceAPIView
from notebooks.kind import WORKSPACE
from notebooks.models import Workspace
from projects.access import Permission
from projects.api.base import REASON, ProjectAPIView, ReasonIn, reason_in
from runtime.protocol import Phase
from work import services as work

PLAN = OpenApiParameter("plan", OpenApiTypes.INT, description="1: only say what would happen")


class WorkspaceList(ProjectAPIView):
    """List the workspaces of a project; launch one."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {
        "GET": Permission.WORKSPACE_READ,
        "POST": Permission.WORKSPACE_CREATE,
    }
    serializer_class = s.WorkspaceOut

    @extend_schema(
        responses=s.WorkspaceOut(many=True),
        parameters=[
            OpenApiParameter("mine", OpenApiTypes.INT, description="1: only your own"),
            OpenApiParameter("phase", OpenApiTypes.STR, enum=[phase.value for phase in Phase]),
            OpenApiParameter("q", OpenApiTypes.STR, description="part of the name, or an id"),
        ],
    )
    def get(self, request: Request, project: str) -> Response:  # noqa: ARG002
        rows = render.workspace_values(self.project)
        query = request.query_params
        if query.get("mine", "") in {"1", "true"}:
            rows = rows.filter(owner=self.principal.user)
        if phase := query.get("phase"):
            rows = rows.filter(phase=_phase(phase))
        if words := query.get("q", "")[:80]:
            words = _clean(words)
            rows = rows.filter(Q(name__icontains=words) | Q(short_id=words))
        page = self.paginate_queryset(rows)
        return self.get_paginated_response(
            render.workspaces_out(page or [], self.principal, self.project)
        )

    @extend_schema(
        request=s.WorkspaceIn,
        parameters=[PLAN],
        responses={202: s.WorkspaceOut, 200: s.PlanOut},
    )
    def post(self, request: Request, project: str) -> Response:  # noqa: ARG002
        serializer = s.WorkspaceIn(data=request.data)
        serializer.is_valid(raise_exception=True)
        asked: dict[str, Any] = {
            "principal": self.principal,
            "project": self.project,
            "kind": WORKSPACE,
            "said": serializer.said(),
        }
        if _is_plan(request):
            return Response(render.plan_out(work.workload_plan(**asked)))
        return _accepted(self, work.workload_create(**asked))


class WorkspaceApply(ProjectAPIView):
    """Create or change a workspace as a manifest says."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {
        "POST": Permission.WORKSPACE_CREATE,
    }
    serializer_class = s.WorkspaceOut

    @extend_schema(
        request=OpenApiTypes.OBJECT,
        parameters=[PLAN],
        responses={202: s.WorkspaceOut, 200: s.PlanOut},
    )
    def post(self, request: Request, project: str) -> Response:  # noqa: ARG002
        given: dict[str, Any] = {
            "principal": self.principal,
            "project": self.project,
            "kind": WORKSPACE,
            "document": request.data,
        }
        if _is_plan(request):
            return Response(render.plan_out(work.manifest_plan(**given)))
        return _accepted(self, work.manifest_apply(**given))


class WorkspaceDetail(WorkspaceAPIView):
    """One workspace."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {
        "GET": Permission.WORKSPACE_READ,
        "PATCH": Permission.WORKSPACE_CREATE,
        # the owner, or who may manage: services decide
        "DELETE": Permission.WORKSPACE_READ,
    }

    @extend_schema(responses=s.WorkspaceOut)
    def get(self, request: Request, project: str, workspace: str) -> Response:  # noqa: ARG002
        return self.answer(self.workspace())

    @extend_schema(
        request=s.WorkspaceEdit,
        parameters=[PLAN],
        responses={202: s.WorkspaceOut, 200: s.PlanOut},
    )
    def patch(self, request: Request, project: str, workspace: str) -> Response:  # noqa: ARG002
        said = self.given(s.WorkspaceEdit).said()
        newest = said.pop("newest_image", False)
        asked: dict[str, Any] = {
            "principal": self.principal,
            "row": self.workspace(),
            "said": said,
            "newest_image": newest,
        }
        if _is_plan(request):
            plan = work.workload_plan(**asked, project=self.project, kind=WORKSPACE)
            return Response(render.plan_out(plan))
        row = work.workload_edit(**asked, check=partial(check_if_match, request))
        return self.answer(row, status.HTTP_202_ACCEPTED)

    @extend_schema(parameters=[REASON], responses={202: s.WorkspaceOut})
    def delete(self, request: Request, project: str, workspace: str) -> Response:  # noqa: ARG002
        with transaction.atomic():
            row = self.workspace(for_update=True)
            check_if_match(request, row)
            row = work.workload_delete(principal=self.principal, row=row, said=reason_in(request))
            # before others see the wish: one that does not run is gone a moment later
            return self.answer(row, status.HTTP_202_ACCEPTED)


class WorkspaceStart(WorkspaceAPIView):
    """Start a stopped workspace again."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {
        "POST": Permission.WORKSPACE_CREATE,
    }

    @extend_schema(request=None, responses={202: s.WorkspaceOut})
    def post(self, request: Request, project: str, workspace: str) -> Response:  # noqa: ARG002
        row = work.workload_start(principal=self.principal, row=self.workspace())
        return self.answer(row, status.HTTP_202_ACCEPTED)


class WorkspaceStop(WorkspaceAPIView):
    """Stop a workspace: files, packages and address stay."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {
        "POST": Permission.WORKSPACE_READ,  # the owner, or who may manage: services decide
    }

    @extend_schema(request=ReasonIn, responses={202: s.WorkspaceOut})
    def post(self, request: Request, project: str, workspace: str) -> Response:  # noqa: ARG002
        row = work.workload_stop(
            principal=self.principal, row=self.workspace(), said=reason_in(request)
        )
        return self.answer(row, status.HTTP_202_ACCEPTED)


class WorkspaceRepin(WorkspaceAPIView):
    """Pin what the tag of its image means now; what is wanted to run starts with it."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {
        "POST": Permission.WORKSPACE_CREATE,
    }

    @extend_schema(request=None, responses={202: s.WorkspaceOut})
    def post(self, request: Request, project: str, workspace: str) -> Response:  # noqa: ARG002
        row = services.image_renew(principal=self.principal, workspace=self.workspace())
        return self.answer(row, status.HTTP_202_ACCEPTED)


class WorkspaceExtend(WorkspaceAPIView):
    """Move the end of a running workspace."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {
        "POST": Permission.WORKSPACE_CREATE,
    }

    @extend_schema(request=s.ExtendIn, responses={202: s.WorkspaceOut})
    def post(self, request: Request, project: str, workspace: str) -> Response:  # noqa: ARG002
        minutes = self.given(s.ExtendIn).validated_data["minutes"]
        row = services.workspace_extend(
            principal=self.principal, workspace=self.workspace(), minutes=minutes
        )
        return self.answer(row, status.HTTP_202_ACCEPTED)


def _accepted(view: ProjectAPIView, row: Workspace) -> Response:
    response = Response(render.workspace_one(view.principal, row), status=status.HTTP_202_ACCEPTED)
    keys = {"project": view.project.slug, "workspace": row.short_id}
    response["Location"] = reverse("api-workspace", kwargs=keys)
    return with_etag(response, row)


def _is_plan(request: Request) -> bool:
    return request.query_params.get("plan", "") in {"1", "true"}


def _clean(text: str) -> str:
    if "\x00" in text:
        raise Invalid("q: no NUL, please.", fields={"q": ["invalid"]})
    return text


def _phase(value: str) -> str:
    if value not in set(Phase):
        raise Invalid("phase: no such phase.", fields={"phase": ["invalid"]})
    return value
