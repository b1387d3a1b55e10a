"""What a piece of work tells: the document that makes it again, its steps, its state, its log."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar

from django.http import HttpResponseBase
from django.utils.translation import gettext as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.principal import Principal
from clusters import streams
from clusters.streams import PART
from common.drf.serializers import (
    PART_OF_A_LOG,
    EventStreamRenderer,
    offset_of,
    wants_stream,
    whole,
)
from common.errors import NotFound
from common.streams import EventStream
from hubapi import sessions
from work import selectors, services
from work.api import render
from work.api.base import OneView, Schema
from work.api.kinds import Api
from work.api.serializers import StepOut
from work.logs import launch_log

REPLICA = OpenApiParameter("replica", OpenApiTypes.INT, description="whose log; 0 if not given")
MAX_REPLICA = 2**15 - 1


class ReadView(OneView):
    pagination_class = None  # short by nature: one answer

    demands: ClassVar[Mapping[str, str]] = {"GET": "read"}

    def follower(self, row: Any) -> streams.Follower:
        """Take from the request what a stream needs to go on alone; TooManyStreams beyond it."""
        who, kind, project = self.principal, self.api.kind, self.project
        require_standing = sessions.opened_by(who, self.request)

        def allowed() -> None:
            require_standing()
            selectors.workload_get(who, kind, kind.key_of(row), project)

        return streams.Follower(streams.places.take(str(who.user.uid)), allowed)

    def looks_at(self, row: Any) -> Callable[[], Any]:
        """Return what finds the row as it is at that moment; None: it is gone."""
        kind = self.api.kind
        rows = kind.model.objects.select_related("project", "owner", *kind.related)
        return rows.filter(pk=row.pk, deleted_at__isnull=True).first


class WorkDocument(ReadView):
    """The document that makes this {one} again."""

    @classmethod
    def schema_of(cls, api: Api) -> Schema:  # noqa: ARG003
        return {"get": extend_schema(responses=OpenApiTypes.OBJECT)}

    def get(self, request: Request, **_ids: str) -> Response:  # noqa: ARG002
        row = self.row()
        private = selectors.reads_private(self.principal, row)
        return Response(services.manifest_of(row, private=private))


class WorkEvents(ReadView):
    """The state as a stream of events; as JSON the timeline of the latest launch."""

    renderer_classes = [JSONRenderer, EventStreamRenderer]

    @classmethod
    def schema_of(cls, api: Api) -> Schema:  # noqa: ARG003
        told = {(200, "application/json"): StepOut(many=True), (200, "text/event-stream"): str}
        return {"get": extend_schema(responses=told)}

    def get(self, request: Request, **_ids: str) -> HttpResponseBase:
        row = self.row()
        if wants_stream(request):
            topic = f"{self.api.kind.word}:{row.uid}"
            state = partial(_state, self.api, self.looks_at(row), self.principal)
            what = streams.FollowedState(self.follower(row), topic, state)
            return EventStream(streams.follow_state(what))
        steps = selectors.steps_of(row)
        return Response(
            [
                {"launch": x.launch, "word": x.word, "at": x.at, "message": x.shown_message}
                for x in steps
            ]
        )


class WorkLogs(ReadView):
    """What a replica of the latest launch wrote, also after its end. Private to its owner."""

    renderer_classes = [JSONRenderer, EventStreamRenderer]

    @classmethod
    def schema_of(cls, api: Api) -> Schema:
        told = {(200, "application/json"): api.log, (200, "text/event-stream"): str}
        return {"get": extend_schema(parameters=[*PART_OF_A_LOG, REPLICA], responses=told)}

    def get(self, request: Request, **_ids: str) -> HttpResponseBase:
        row = self.row()
        selectors.require_owner(self.principal, row)
        replica, offset = whole(request, "replica", 0, MAX_REPLICA), offset_of(request)
        if replica >= self.api.kind.parts_of(row):
            raise NotFound(_("It has no replica %(number)d.") % {"number": replica})
        read = partial(launch_log, row.pk, row.launch, replica=replica)
        over = partial(_is_over, self.api, self.looks_at(row), row.launch)
        if wants_stream(request):
            what = streams.FollowedLog(self.follower(row), read, over)
            return EventStream(streams.follow_log(what, offset=offset))
        is_over = over()  # asked first: what it wrote until then is read
        part = read(offset=offset, limit=whole(request, "limit", PART, 4 * PART))
        told = {"text": part.text, "offset": part.next_offset, "launch": row.launch}
        return Response({**told, "over": is_over})


def _state(api: Api, look: Callable[[], Any], who: Principal) -> dict[str, Any] | None:
    row = look()
    return None if row is None else render.state_out(api, row, who)


def _is_over(api: Api, look: Callable[[], Any], launch: int) -> bool:
    row = look()
    return row is None or row.launch != launch or api.states.is_over(row)
