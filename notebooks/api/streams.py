"""What a workspace tells: log, events, usage, and the document that makes it again."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, ClassVar

from django.http import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from clusters import streams
from clusters.streams import PART, LogPart, log_read
from common.drf.serializers import (
    PART_OF_A_LOG,
    EventStreamRenderer,
    LogOut,
    offset_of,
    wants_stream,
    whole,
)
from common.streams import EventStream
from hubapi import sessions
from notebooks import selectors
from notebooks.api import render
from notebooks.api import serializers as s
from notebooks.api.base import WorkspaceAPIView
from notebooks.models import Workspace
from projects.access import Permission
from runtime.protocol import Phase
from work.api.serializers import StepOut
from work.selectors import is_owner, steps_of
from work.services import manifest_of

OVER = frozenset({Phase.STOPPED, Phase.FAILED, Phase.DELETED})


class WorkspaceLogs(WorkspaceAPIView):
    """What a workspace wrote. Private to its owner."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {
        "GET": Permission.WORKSPACE_READ,
    }
    renderer_classes = [JSONRenderer, EventStreamRenderer]

    @extend_schema(
        parameters=PART_OF_A_LOG,
        responses={(200, "application/json"): LogOut, (200, "text/event-stream"): str},
    )
    def get(self, request: Request, project: str, workspace: str) -> HttpResponseBase:  # noqa: ARG002
        row = self.workspace()
        selectors.require_owner(self.principal, row)
        offset = offset_of(request)
        if wants_stream(request):
            return EventStream(streams.follow_log(_log_of(self, row), offset=offset))
        limit = whole(request, "limit", PART, 4 * PART)
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
            (200, "application/json"): StepOut(many=True),
            (200, "text/event-stream"): str,
        }
    )
    def get(self, request: Request, project: str, workspace: str) -> HttpResponseBase:  # noqa: ARG002
        row = self.workspace()
        if wants_stream(request):
            topic = f"workspace:{row.uid}"
            what = streams.FollowedState(_follower(self, row), topic, _looks_at(self, row))
            return EventStream(streams.follow_state(what))
        return Response(
            [
                {"launch": x.launch, "word": x.word, "at": x.at, "message": x.shown_message}
                for x in steps_of(row)
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
        return Response([asdict(point) for point in selectors.usage_of(row)])


class WorkspaceManifest(WorkspaceAPIView):
    """The document that makes this workspace again."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {
        "GET": Permission.WORKSPACE_READ,
    }

    @extend_schema(responses=OpenApiTypes.OBJECT)
    def get(self, request: Request, project: str, workspace: str) -> Response:  # noqa: ARG002
        row = self.workspace()
        mine = is_owner(self.principal, row)
        return Response(manifest_of(row, private=mine))


def _follower(view: WorkspaceAPIView, row: Workspace) -> streams.Follower:
    """Take from the request what a stream needs to go on alone; TooManyStreams beyond the limit."""
    who, project, short_id = view.principal, view.project, row.short_id
    require_standing = sessions.opened_by(who, view.request)

    def allowed() -> None:
        require_standing()
        selectors.workspace_get(who, short_id, project)

    return streams.Follower(streams.places.take(str(who.user.uid)), allowed)


def _log_of(view: WorkspaceAPIView, row: Workspace) -> streams.FollowedLog:
    cluster_key, uid = row.cluster_key, str(row.uid)
    state = _looks_at(view, row)

    def read(*, offset: int) -> LogPart:
        return log_read(cluster_key, uid, offset=offset)

    def over() -> bool:
        found = state()
        return found is None or found["phase"] in OVER

    return streams.FollowedLog(_follower(view, row), read, over)


def _looks_at(view: WorkspaceAPIView, row: Workspace) -> Callable[[], dict[str, Any] | None]:
    who, pk = view.principal, row.pk

    def state() -> dict[str, Any] | None:
        found = Workspace.objects.filter(pk=pk, deleted_at__isnull=True).first()
        return None if found is None else _state(render.workspace_one(who, found))

    return state


def _state(found: dict[str, Any]) -> dict[str, Any]:
    return {
        "id": found["id"],
        "desired": found["desired"],
        "generation": found["generation"],
        "ends_at": found["ends_at"],
        **found["status"],
    }
