"""The API of workspaces: translates, decides nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from django.db import transaction
from django.http import HttpResponseBase
from django.urls import reverse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import status
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from common.drf.etag import check_if_match, with_etag
from common.errors import Invalid, NotFound
from hubapi import sessions
from notebooks import selectors, services, streams
from notebooks.api import render
from notebooks.api import serializers as s
from notebooks.logs import PART, log_read
from notebooks.models import Preset, Workspace
from projects.access import Permission
from projects.api.base import PlatformAPIView, ProjectAPIView
from runtime.protocol import Phase

PLAN = OpenApiParameter("plan", OpenApiTypes.INT, description="1: only say what would happen")
MAX_OFFSET = 2**53 - 1


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
        row.refresh_from_db(fields=["generation"])
        response = Response(render.workspace_one(self.principal, row), status=code)
        return with_etag(response, row)


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
            OpenApiParameter("phase", OpenApiTypes.STR),
            OpenApiParameter("q", OpenApiTypes.STR, description="part of the name"),
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
            rows = rows.filter(name__icontains=_clean(words))
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
        slug = serializer.validated_data.get("preset")
        preset = selectors.preset_get(self.project, slug) if slug else None
        wanted: dict[str, Any] = {
            "principal": self.principal,
            "project": self.project,
            "preset": preset,
            "wanted": serializer.wanted(),
        }
        if _is_plan(request):
            return Response(render.plan_out(services.workspace_plan(**wanted)))
        return _accepted(self, services.workspace_launch(**wanted))


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
            "document": request.data,
        }
        if _is_plan(request):
            return Response(render.plan_out(services.manifest_plan(**given)))
        return _accepted(self, services.workspace_apply(**given))


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
        wanted = self.given(s.WorkspaceEdit).wanted()
        digest = ""
        if wanted.image is not None and not _is_plan(request):
            digest = services.digest_edited(self.principal, self.workspace(), wanted)
        with transaction.atomic():
            row = self.workspace(for_update=not _is_plan(request))
            if _is_plan(request):
                plan = services.workspace_plan(
                    principal=self.principal, project=self.project, wanted=wanted, workspace=row
                )
                return Response(render.plan_out(plan))
            check_if_match(request, row)
            row = services.workspace_edit(
                principal=self.principal, workspace=row, wanted=wanted, digest=digest
            )
        return self.answer(row, status.HTTP_202_ACCEPTED)

    @extend_schema(responses={202: s.WorkspaceOut})
    def delete(self, request: Request, project: str, workspace: str) -> Response:  # noqa: ARG002
        with transaction.atomic():
            row = self.workspace(for_update=True)
            check_if_match(request, row)
            row = services.workspace_delete(principal=self.principal, workspace=row)
        return self.answer(row, status.HTTP_202_ACCEPTED)


class WorkspaceStart(WorkspaceAPIView):
    """Start a stopped workspace again."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {
        "POST": Permission.WORKSPACE_CREATE,
    }

    @extend_schema(request=None, responses={202: s.WorkspaceOut})
    def post(self, request: Request, project: str, workspace: str) -> Response:  # noqa: ARG002
        row = services.workspace_resume(principal=self.principal, workspace=self.workspace())
        return self.answer(row, status.HTTP_202_ACCEPTED)


class WorkspaceStop(WorkspaceAPIView):
    """Stop a workspace: files, packages and address stay."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {
        "POST": Permission.WORKSPACE_READ,  # the owner, or who may manage: services decide
    }

    @extend_schema(request=None, responses={202: s.WorkspaceOut})
    def post(self, request: Request, project: str, workspace: str) -> Response:  # noqa: ARG002
        row = services.workspace_stop(principal=self.principal, workspace=self.workspace())
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


class EventStreamRenderer(BaseRenderer):
    """Lets a client ask for a stream; errors before it begins are problem documents."""

    media_type = "text/event-stream"
    format = "sse"

    def render(
        self,
        data: Any,
        accepted_media_type: str | None = None,  # noqa: ARG002
        renderer_context: Mapping[str, Any] | None = None,  # noqa: ARG002
    ) -> bytes:
        return json.dumps(data, default=str).encode()


class WorkspaceLogs(WorkspaceAPIView):
    """What a workspace wrote. Private to its owner."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {
        "GET": Permission.WORKSPACE_READ,
    }
    renderer_classes = [JSONRenderer, EventStreamRenderer]

    @extend_schema(
        parameters=[
            OpenApiParameter("offset", OpenApiTypes.INT),
            OpenApiParameter("limit", OpenApiTypes.INT),
        ],
        responses={(200, "application/json"): s.LogOut, (200, "text/event-stream"): str},
    )
    def get(self, request: Request, project: str, workspace: str) -> HttpResponseBase:  # noqa: ARG002
        row = self.workspace()
        selectors.require_owner(self.principal, row)
        offset = _number(request, "offset", 0, MAX_OFFSET)
        if _wants_stream(request):
            if last := request.headers.get("Last-Event-ID", ""):
                offset = int(last) if last.isdecimal() and len(last) < 16 else offset  # noqa: PLR2004
            who = followed(self, row)
            streams.require_slot(who.user_key)
            return streams.respond(streams.follow_log(who, offset=offset))
        limit = _number(request, "limit", PART, 4 * PART)
        part = log_read(row.cluster_key, str(row.uid), offset=offset, limit=limit)
        return Response({"text": part.text, "offset": part.next_offset})


class WorkspaceEvents(WorkspaceAPIView):
    """The state as a stream of events; as JSON the timeline of the latest launch."""

    pagination_class = None  # short by nature: one answer

    required_permissions: ClassVar[Mapping[str, Permission]] = {
        "GET": Permission.WORKSPACE_READ,
    }
    renderer_classes = [JSONRenderer, EventStreamRenderer]

    @extend_schema(
        responses={
            (200, "application/json"): s.StepOut(many=True),
            (200, "text/event-stream"): str,
        }
    )
    def get(self, request: Request, project: str, workspace: str) -> HttpResponseBase:  # noqa: ARG002
        row = self.workspace()
        if _wants_stream(request):
            who = followed(self, row)
            streams.require_slot(who.user_key)
            return streams.respond(streams.follow_state(who))
        return Response(
            [
                {"launch": x.launch, "word": x.word, "at": x.at, "message": x.message}
                for x in selectors.steps_of(row)
            ]
        )


class WorkspaceUsage(WorkspaceAPIView):
    """What it used in the last two hours, one sample each half minute."""

    pagination_class = None  # short by nature: one answer

    required_permissions: ClassVar[Mapping[str, Permission]] = {
        "GET": Permission.WORKSPACE_READ,
    }

    @extend_schema(responses=s.SampleOut(many=True))
    def get(self, request: Request, project: str, workspace: str) -> Response:  # noqa: ARG002
        row = self.workspace()
        names = ("at", "cpu_milli", "memory_mib", "gpu_utilisation", "gpu_memory_mib")
        return Response(list(row.samples.order_by("at").values(*names)))


class WorkspaceManifest(WorkspaceAPIView):
    """The document that makes this workspace again."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {
        "GET": Permission.WORKSPACE_READ,
    }

    @extend_schema(responses=OpenApiTypes.OBJECT)
    def get(self, request: Request, project: str, workspace: str) -> Response:  # noqa: ARG002
        row = self.workspace()
        mine = selectors.is_owner(self.principal, row)
        return Response(services.manifest_of(row, with_env=mine))


class PresetList(PlatformAPIView):
    """The presets you may use somewhere."""

    pagination_class = None  # short by nature: one answer

    required_platform = "user"

    @extend_schema(responses=s.PresetOut(many=True))
    def get(self, request: Request) -> Response:  # noqa: ARG002
        rows = selectors.presets_visible_to(self.principal)
        return Response([_preset(row) for row in rows])


class ProjectPresetList(ProjectAPIView):
    """The presets of one project, in the order of their cards."""

    pagination_class = None  # short by nature: one answer

    required_permissions: ClassVar[Mapping[str, Permission]] = {
        "GET": Permission.WORKSPACE_READ,
    }

    @extend_schema(responses=s.PresetOut(many=True))
    def get(self, request: Request, project: str) -> Response:  # noqa: ARG002
        return Response([_preset(row) for row in selectors.presets_for(self.project)])


def followed(view: WorkspaceAPIView, row: Workspace) -> streams.Followed:
    """Take from the request what a stream needs to go on alone."""
    who, project, short_id = view.principal, view.project, row.short_id
    session_key = "" if who.token is not None else str(view.request.session.session_key or "")

    def allowed() -> None:
        who.user.refresh_from_db()
        if who.token is not None:
            who.token.refresh_from_db()
            standing = who.token.is_live
        else:
            standing = sessions.stands_for(session_key, who.user)
        if not standing:
            raise NotFound("What opened this stream has ended.")
        selectors.workspace_get(who, short_id, project)

    def state() -> dict[str, Any] | None:
        found = Workspace.objects.filter(pk=row.pk, deleted_at__isnull=True).first()
        return None if found is None else _state(render.workspace_one(who, found))

    return streams.Followed(
        user_key=str(who.user.uid),
        cluster_key=row.cluster_key,
        uid=str(row.uid),
        allowed=allowed,
        state=state,
    )


def _state(found: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": found["id"],
        "desired": found["desired"],
        "generation": found["generation"],
        "ends_at": found["ends_at"],
        **found["status"],
    }


def _accepted(view: ProjectAPIView, row: Workspace) -> Response:
    response = Response(render.workspace_one(view.principal, row), status=status.HTTP_202_ACCEPTED)
    keys = {"project": view.project.slug, "workspace": row.short_id}
    response["Location"] = reverse("api-workspace", kwargs=keys)
    return with_etag(response, row)


def _is_plan(request: Request) -> bool:
    return request.query_params.get("plan", "") in {"1", "true"}


def _wants_stream(request: Request) -> bool:
    return getattr(request.accepted_renderer, "format", "") == "sse"


def _number(request: Request, name: str, default: int, high: int) -> int:
    text = request.query_params.get(name, "")
    if not text:
        return default
    if not text.isascii() or not text.isdecimal() or len(text) > 16 or int(text) > high:  # noqa: PLR2004
        raise Invalid(f"{name}: a whole number from 0 to {high}.", fields={name: ["invalid"]})
    return int(text)


def _clean(text: str) -> str:
    if "\x00" in text:
        raise Invalid("q: no NUL, please.", fields={"q": ["invalid"]})
    return text


def _phase(value: str) -> str:
    if value not in set(Phase):
        raise Invalid("phase: no such phase.", fields={"phase": ["invalid"]})
    return value


def _share(share: Any) -> dict[str, Any]:
    return {
        "username": share.user.username,
        "display_name": share.user.display_name,
        "created_at": share.created_at,
    }


def _preset(row: Preset) -> dict[str, Any]:
    names: list[str] = list(s.PresetOut().get_fields())
    return {n: getattr(row, "cluster_key" if n == "cluster" else n) for n in names}
