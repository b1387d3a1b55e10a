# ruff: noqa: ARG002 - handlers get what is in the URL, also when the base class has used it
"""The API of loads: translates, decides nothing."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar
from uuid import UUID

from django.db import transaction
from django.urls import reverse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from common.drf.views import check_if_match, with_etag
from common.errors import Invalid
from loaders import selectors, services
from loaders.api import render
from loaders.api import serializers as s
from loaders.kind import LOAD
from loaders.models import Load
from loaders.states import FILTERS
from projects.access import Permission
from projects.api.base import REASON, ProjectAPIView, ReasonIn, reason_in
from work import services as work

PLAN = OpenApiParameter("plan", OpenApiTypes.INT, description="1: only say what would happen")
READ: Mapping[str, Permission] = {"GET": Permission.LOAD_READ}


class LoadAPIView(ProjectAPIView):
    """Below ``/projects/{project}/loads/{id}``."""

    serializer_class = s.EmptyIn

    def row(self, *, for_update: bool = False) -> Load:
        uid = self.kwargs["load"]
        return selectors.load_get(self.principal, uid, self.project, for_update=for_update)

    def given(self, kind: type[Any]) -> Any:
        serializer = kind(data=self.request.data)
        serializer.is_valid(raise_exception=True)
        return serializer

    def answer(self, row: Load, code: int = status.HTTP_200_OK) -> Response:
        # what services wrote last is what is told; related rows are kept
        row.refresh_from_db(fields=["generation", "desired", "observed_generation"])
        response = Response(render.load_out(row, self.principal), status=code)
        return with_etag(response, row)


class LoadList(ProjectAPIView):
    """List the loads of a project; make one."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {
        "GET": Permission.LOAD_READ,
        "POST": Permission.LOAD_CREATE,
    }
    serializer_class = s.LoadOut

    @extend_schema(
        responses=s.LoadOut(many=True),
        parameters=[
            OpenApiParameter("mine", OpenApiTypes.INT, description="1: only your own"),
            OpenApiParameter("state", OpenApiTypes.STR, enum=sorted(FILTERS)),
            OpenApiParameter("q", OpenApiTypes.STR, description="part of the name or bucket"),
        ],
    )
    def get(self, request: Request, project: str) -> Response:
        rows = selectors.loads_visible_to(self.principal, self.project)
        query = request.query_params
        if query.get("mine", "") in {"1", "true"}:
            rows = rows.filter(owner=self.principal.user)
        if state := query.get("state"):
            if state not in FILTERS:
                raise Invalid("state: no such state.", fields={"state": ["invalid"]})
            rows = rows.filter(FILTERS[state])
        if words := query.get("q", "")[:80]:
            rows = selectors.matching(rows, words)
        page = self.paginate_queryset(rows)
        return self.get_paginated_response([render.load_out(r, self.principal) for r in page or []])

    @extend_schema(
        request=s.LoadIn, parameters=[PLAN], responses={202: s.LoadOut, 200: s.LoadPlanOut}
    )
    def post(self, request: Request, project: str) -> Response:
        serializer = s.LoadIn(data=request.data)
        serializer.is_valid(raise_exception=True)
        asked: dict[str, Any] = {
            "principal": self.principal,
            "project": self.project,
            "said": serializer.said(),
        }
        if _is_plan(request):
            return Response(render.plan_out(work.workload_plan(**asked, kind=LOAD)))
        return _accepted(self, services.load_create(**asked, task=serializer.task))


class LoadEnsure(ProjectAPIView):
    """Use the load that makes this copy, or make it: no second copy inside a project."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {"POST": Permission.LOAD_CREATE}
    serializer_class = s.LoadOut

    @extend_schema(request=s.LoadIn, responses={202: s.LoadOut})
    def post(self, request: Request, project: str) -> Response:
        serializer = s.LoadIn(data=request.data)
        serializer.is_valid(raise_exception=True)
        row = services.load_ensure(
            principal=self.principal, project=self.project, said=serializer.said()
        )
        return _accepted(self, row)


class LoadApply(ProjectAPIView):
    """Create or change a load as a manifest says."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {"POST": Permission.LOAD_CREATE}
    serializer_class = s.LoadOut

    @extend_schema(
        request=OpenApiTypes.OBJECT,
        parameters=[PLAN],
        responses={202: s.LoadOut, 200: s.LoadPlanOut},
    )
    def post(self, request: Request, project: str) -> Response:
        asked: dict[str, Any] = {
            "principal": self.principal,
            "project": self.project,
            "kind": LOAD,
            "document": request.data,
        }
        if _is_plan(request):
            return Response(render.plan_out(work.manifest_plan(**asked)))
        return _accepted(self, work.manifest_apply(**asked))


class LoadDetail(LoadAPIView):
    """One load."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {
        "GET": Permission.LOAD_READ,
        "PATCH": Permission.LOAD_CREATE,
        # the owner, or who may manage: services decide
        "DELETE": Permission.LOAD_READ,
    }

    @extend_schema(responses=s.LoadOut)
    def get(self, request: Request, project: str, load: UUID) -> Response:
        row = self.row()
        return with_etag(Response(render.load_out(row, self.principal)), row)

    @extend_schema(
        request=s.LoadEdit, parameters=[PLAN], responses={202: s.LoadOut, 200: s.LoadPlanOut}
    )
    def patch(self, request: Request, project: str, load: UUID) -> Response:
        asked: dict[str, Any] = {"said": self.given(s.LoadEdit).said(), "row": self.row()}
        asked["principal"] = self.principal
        if _is_plan(request):
            plan = work.workload_plan(**asked, project=self.project, kind=LOAD)
            return Response(render.plan_out(plan))
        row = work.workload_edit(**asked, check=partial(check_if_match, request))
        return self.answer(row, status.HTTP_202_ACCEPTED)

    @extend_schema(parameters=[REASON], responses={202: s.LoadOut})
    def delete(self, request: Request, project: str, load: UUID) -> Response:
        with transaction.atomic():
            row = self.row(for_update=True)
            check_if_match(request, row)
            row = work.workload_delete(principal=self.principal, row=row, said=reason_in(request))
        return self.answer(row, status.HTTP_202_ACCEPTED)


class _Act(LoadAPIView):
    """One verb as a sub-resource: it writes intent, the engine does the rest."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {"POST": Permission.LOAD_CREATE}
    act: ClassVar[Callable[..., Load]]

    @extend_schema(request=None, responses={202: s.LoadOut})
    def post(self, request: Request, project: str, load: UUID) -> Response:
        row = type(self).act(principal=self.principal, row=self.row())
        return self.answer(row, status.HTTP_202_ACCEPTED)


class LoadStart(_Act):
    """Run it from the beginning; what is there already is not copied again."""

    act = staticmethod(services.load_start)


class LoadResume(_Act):
    """Go on with what was paused or cut off."""

    act = staticmethod(services.load_resume)


class LoadRetry(_Act):
    """Try again what failed, and nothing else."""

    act = staticmethod(services.load_retry_failed)


class LoadVerify(_Act):
    """Compare what was copied with its manifest."""

    act = staticmethod(services.load_verify)


class LoadDryRun(_Act):
    """Count what would be copied."""

    act = staticmethod(services.load_dry_run)


class _Ending(_Act):
    """What may be done to the load of somebody else, who is told why."""

    @extend_schema(request=ReasonIn, responses={202: s.LoadOut})
    def post(self, request: Request, project: str, load: UUID) -> Response:
        row = type(self).act(principal=self.principal, row=self.row(), said=reason_in(request))
        return self.answer(row, status.HTTP_202_ACCEPTED)


class LoadPause(_Ending):
    """Stop it where it is."""

    # the owner, or who may manage: services decide
    required_permissions: ClassVar[Mapping[str, Permission]] = {"POST": Permission.LOAD_READ}
    act = staticmethod(work.workload_stop)


class LoadCancel(_Ending):
    """End it; what is copied stays."""

    # the owner, or who may manage: services decide
    required_permissions: ClassVar[Mapping[str, Permission]] = {"POST": Permission.LOAD_READ}
    act = staticmethod(services.load_cancel)


class LoadRuns(LoadAPIView):
    """What it did so far, the latest run first."""

    pagination_class = None  # at most a hundred are kept
    required_permissions: ClassVar[Mapping[str, Permission]] = READ

    @extend_schema(responses=s.LoadRunOut(many=True))
    def get(self, request: Request, project: str, load: UUID) -> Response:
        return Response([render.run_out(run) for run in selectors.runs_of(self.row(), 100)])


class LoadErrors(LoadAPIView):
    """The latest objects that could not be copied, by name."""

    pagination_class = None  # at most fifty are kept
    required_permissions: ClassVar[Mapping[str, Permission]] = READ

    @extend_schema(responses=s.LoadErrorOut(many=True))
    def get(self, request: Request, project: str, load: UUID) -> Response:
        row = self.row()
        return Response(row.errors if selectors.sees_inside(self.principal, row) else [])


class LoadManifest(LoadAPIView):
    """Where the list of what was copied lies, and how its last check ended."""

    required_permissions: ClassVar[Mapping[str, Permission]] = READ

    @extend_schema(responses=s.LoadManifestOut)
    def get(self, request: Request, project: str, load: UUID) -> Response:
        return Response(render.manifest_out(self.row()))


class LoadDocument(LoadAPIView):
    """The document that makes this load again."""

    required_permissions: ClassVar[Mapping[str, Permission]] = READ

    @extend_schema(responses=OpenApiTypes.OBJECT)
    def get(self, request: Request, project: str, load: UUID) -> Response:
        row = self.row()
        inside = selectors.sees_inside(self.principal, row)
        return Response(work.manifest_of(row, private=inside))


def _accepted(view: ProjectAPIView, row: Load) -> Response:
    response = Response(render.load_out(row, view.principal), status=status.HTTP_202_ACCEPTED)
    keys = {"project": view.project.slug, "load": row.uid}
    response["Location"] = reverse("api-load", kwargs=keys)
    return with_etag(response, row)


def _is_plan(request: Request) -> bool:
    return request.query_params.get("plan", "") in {"1", "true"}
