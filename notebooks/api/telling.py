"""What a workspace tells: log, events, usage, and the document that makes it again."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, ClassVar

from django.http import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.renderers import BaseRenderer, JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from common.errors import Invalid, NotFound
from hubapi import sessions
from notebooks import selectors, services, streams
from notebooks.api import render
from notebooks.api import serializers as s
from notebooks.api.base import WorkspaceAPIView
from notebooks.logs import PART, log_read
from notebooks.models import Workspace
from projects.access import Permission

MAX_OFFSET = 2**53 - 1


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


def _wants_stream(request: Request) -> bool:
    return getattr(request.accepted_renderer, "format", "") == "sse"


def _number(request: Request, name: str, default: int, high: int) -> int:
    text = request.query_params.get(name, "")
    if not text:
        return default
    if not text.isascii() or not text.isdecimal() or len(text) > 16 or int(text) > high:  # noqa: PLR2004
        raise Invalid(f"{name}: a whole number from 0 to {high}.", fields={name: ["invalid"]})
    return int(text)
