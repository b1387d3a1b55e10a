"""What a load's runs wrote, by the API: in parts, or followed."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import ClassVar
from uuid import UUID

from django.http import HttpResponseBase
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.response import Response

from clusters import streams
from clusters.streams import PART
from common.drf.serializers import (
    PART_OF_A_LOG,
    EventStreamRenderer,
    offset_of,
    wants_stream,
    whole,
)
from common.streams import EventStream
from hubapi import sessions
from loaders import logs, selectors
from loaders.api import serializers as s
from loaders.api.views import READ, LoadAPIView
from loaders.models import Load, LoadRun
from projects.access import Permission

MAX_RUN = 2**31 - 1
RUN = OpenApiParameter("run", OpenApiTypes.INT, description="which run; the latest if not given")


class LoadLogs(LoadAPIView):
    """What one run of a load wrote. Of a load into a home: for its owner only."""

    required_permissions: ClassVar[Mapping[str, Permission]] = READ
    renderer_classes = [JSONRenderer, EventStreamRenderer]

    @extend_schema(
        parameters=[*PART_OF_A_LOG, RUN],
        responses={(200, "application/json"): s.LoadLogOut, (200, "text/event-stream"): str},
    )
    def get(self, request: Request, project: str, load: UUID) -> HttpResponseBase:  # noqa: ARG002
        row = self.row()
        selectors.require_inside(self.principal, row)
        run = logs.run_of(row, whole(request, "run", 0, MAX_RUN) or None)
        offset = offset_of(request)
        if wants_stream(request):
            return EventStream(streams.follow_log(self._followed(row, run), offset=offset))
        limit = whole(request, "limit", PART, 4 * PART)
        if run is None:
            return Response({"text": "", "offset": offset, "run": None, "over": True})
        over = logs.is_over(run.pk)  # asked first: what it wrote until then is read
        part = logs.run_read(run.pk, offset=offset, limit=limit)
        return Response(
            {"text": part.text, "offset": part.next_offset, "run": run.launch, "over": over}
        )

    def _followed(self, row: Load, run: LoadRun | None) -> streams.FollowedLog:
        """Take from the request what a stream needs to go on alone."""
        who, project, uid = self.principal, self.project, row.uid
        pk = 0 if run is None else run.pk
        require_standing = sessions.opened_by(who, self.request)

        def allowed() -> None:
            require_standing()
            selectors.require_inside(who, selectors.load_look(who, uid, project))

        follower = streams.Follower(streams.places.take(str(who.user.uid)), allowed)
        return streams.FollowedLog(follower, partial(logs.run_read, pk), partial(logs.is_over, pk))
