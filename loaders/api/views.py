"""The API of loads: that of any kind of work, with what their runs do and did."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

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
from loaders import logs, selectors, services
from loaders.api import render
from loaders.api import serializers as s
from loaders.choices import Task
from loaders.kind import LOAD
from loaders.models import Load, LoadRun
from loaders.words import STATES
from projects.access import Permission
from work.api.base import Schema, WorkAPIView
from work.api.kinds import Api
from work.api.streams import ReadView
from work.api.views import WorkStart, WorkStop, urls_for

MAX_RUN = 2**31 - 1
RUN = OpenApiParameter("run", OpenApiTypes.INT, description="which run; the latest if not given")


def _create(*, start: str, **asked: Any) -> Load:
    """``start`` says what it does at once."""
    task = None if start == "no" else Task(start)
    return services.load_create(**asked, task=task)


API = Api(
    kind=LOAD,
    states=STATES,
    stop="pause",
    takes_shape=s.LoadIn,
    edits_shape=s.LoadEdit,
    told=render.load_out,
    told_shape=s.LoadOut,
    told_plan=render.plan_out,
    plan_shape=s.LoadPlanOut,
    create=_create,
    apart=("start",),
    matching=selectors.matching,
)


class Ensure(WorkAPIView):
    """Use the {one} that makes this copy, or make it: no second copy inside a project."""

    @classmethod
    def rights(cls, api: Api) -> Mapping[str, Permission]:
        return {"POST": api.kind.create}

    @classmethod
    def schema_of(cls, api: Api) -> Schema:
        return {"post": extend_schema(request=api.takes, responses={202: api.gives})}

    def post(self, request: Request, **_ids: str) -> Response:  # noqa: ARG002
        said = self.given(self.api.takes)
        del said["start"]
        row = services.load_ensure(principal=self.principal, project=self.project, said=said)
        return self.accepted(row, is_new=True)


class Resume(WorkStart):
    """Go on with what was paused or cut off."""

    act = staticmethod(services.load_resume)


class Retry(WorkStart):
    """Try again what failed, and nothing else."""

    act = staticmethod(services.load_retry_failed)


class Verify(WorkStart):
    """Compare what was copied with its manifest."""

    act = staticmethod(services.load_verify)


class DryRun(WorkStart):
    """Count what would be copied."""

    act = staticmethod(services.load_dry_run)


class Cancel(WorkStop):
    """End it; what is copied stays."""

    act = staticmethod(services.load_cancel)


class _Told(ReadView):
    shape: ClassVar[Any]

    @classmethod
    def schema_of(cls, api: Api) -> Schema:  # noqa: ARG003
        return {"get": extend_schema(responses=cls.shape)}

    def get(self, request: Request, **_ids: str) -> HttpResponseBase:  # noqa: ARG002
        return Response(self.told(self.row()))

    def told(self, row: Load) -> Any:
        raise NotImplementedError


class Runs(_Told):
    """What it did so far, the latest run first."""

    shape = s.LoadRunOut(many=True)

    def told(self, row: Load) -> Any:
        return [render.run_out(run) for run in selectors.runs_of(row, 100)]


class Errors(_Told):
    """The latest objects that could not be copied, by name."""

    shape = s.LoadErrorOut(many=True)

    def told(self, row: Load) -> Any:
        return row.errors if selectors.sees_inside(self.principal, row) else []


class Manifest(_Told):
    """Where the list of what was copied lies, and how its last check ended."""

    shape = s.LoadManifestOut

    def told(self, row: Load) -> Any:
        return render.manifest_out(row)


class Logs(ReadView):
    """What one run of a load wrote. Of a load into a home: for its owner only."""

    renderer_classes = [JSONRenderer, EventStreamRenderer]

    @classmethod
    def schema_of(cls, api: Api) -> Schema:  # noqa: ARG003
        told = {(200, "application/json"): s.LoadLogOut, (200, "text/event-stream"): str}
        return {"get": extend_schema(parameters=[*PART_OF_A_LOG, RUN], responses=told)}

    def get(self, request: Request, **_ids: str) -> HttpResponseBase:
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
        pk = 0 if run is None else run.pk
        follower = self.follower(row)
        return streams.FollowedLog(follower, partial(logs.run_read, pk), partial(logs.is_over, pk))


urlpatterns = urls_for(
    API,
    own={
        "resume": Resume,
        "retry": Retry,
        "verify": Verify,
        "dry-run": DryRun,
        "cancel": Cancel,
        "runs": Runs,
        "logs": Logs,
        "errors": Errors,
        "manifest": Manifest,
    },
    of_all={"ensure": Ensure},
)
