"""The API of any kind of work: translates, decides nothing. ``urls_for`` makes that of one kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar

from django.db import transaction
from django.db.models import Q
from django.http import HttpResponseBase
from django.urls import URLPattern, path, reverse
from django.utils.translation import gettext as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import status
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
from common.drf.views import check_if_match, with_etag
from common.errors import Forbidden, Invalid, NotFound
from common.streams import EventStream
from hubapi import sessions
from projects.access import Permission
from projects.api.base import REASON, ProjectAPIView, ReasonIn, reason_in
from work import selectors, services
from work.api import render
from work.api.kinds import Api
from work.api.serializers import StepOut
from work.fields import is_storable
from work.logs import launch_log
from work.models import Workload

PLAN = OpenApiParameter("plan", OpenApiTypes.INT, description="1: only say what would happen")
NAME = OpenApiParameter("name", OpenApiTypes.STR, description="Its name, typed by a person")
REPLICA = OpenApiParameter("replica", OpenApiTypes.INT, description="whose log; 0 if not given")
MAX_REPLICA = 2**15 - 1
Schema = dict[str, Any]


class _View(ProjectAPIView):
    """Made for each kind by ``urls_for``; ``schema_of`` describes its verbs."""

    api: ClassVar[Api]

    @classmethod
    def rights(cls, api: Api) -> Mapping[str, Permission]:
        raise NotImplementedError

    @classmethod
    def schema_of(cls, api: Api) -> Schema:
        raise NotImplementedError

    def accepted(self, row: Any, *, is_new: bool = False) -> Response:
        """Return what services wrote last; NotFound where it was removed since it was found."""
        try:
            row.refresh_from_db(fields=["generation", "desired", "observed_generation"])
        except Workload.DoesNotExist:
            raise NotFound(_("It was deleted meanwhile.")) from None
        response = Response(
            render.one_out(self.api, row, self.principal), status=status.HTTP_202_ACCEPTED
        )
        if is_new:
            keys = {"project": self.project.slug, self.api.kind.word: row.short_id}
            response["Location"] = reverse(f"api-{self.api.kind.word}", kwargs=keys)
        return with_etag(response, row)

    def planned(self, plan: services.Plan) -> Response:
        return Response(render.plan_out(self.api.kind, plan))

    def given(self, kind: type[Any]) -> dict[str, Any]:
        serializer = kind(data=self.request.data)
        serializer.is_valid(raise_exception=True)
        return dict(serializer.validated_data)

    @property
    def is_plan(self) -> bool:
        return self.request.query_params.get("plan", "") in {"1", "true"}


class WorkList(_View):
    """List the {many} of a project; make one and start it."""

    @classmethod
    def rights(cls, api: Api) -> Mapping[str, Permission]:
        return {"GET": api.kind.read, "POST": api.kind.create}

    @classmethod
    def schema_of(cls, api: Api) -> Schema:
        return {
            "get": extend_schema(
                responses=api.gives(many=True),
                parameters=[
                    OpenApiParameter("mine", OpenApiTypes.INT, description="1: only your own"),
                    OpenApiParameter("state", OpenApiTypes.STR, enum=sorted(api.states.filters)),
                    OpenApiParameter(
                        "q", OpenApiTypes.STR, description="part of the name, or an id"
                    ),
                ],
            ),
            "post": extend_schema(
                request=api.takes, parameters=[PLAN], responses={202: api.gives, 200: api.plans}
            ),
        }

    def get(self, request: Request, **_ids: str) -> Response:
        rows = selectors.visible_to(self.principal, self.api.kind, self.project)
        query = request.query_params
        if query.get("mine", "") in {"1", "true"}:
            rows = rows.filter(owner=self.principal.user)
        if state := query.get("state"):
            if state not in self.api.states.filters:
                raise Invalid("state: no such state.", fields={"state": ["invalid"]})
            rows = rows.filter(self.api.states.filters[state])
        if words := query.get("q", "")[:80]:
            if not is_storable(words):
                raise Invalid("q: no NUL, please.", fields={"q": ["invalid"]})
            rows = rows.filter(Q(name__icontains=words) | Q(short_id=words))
        page = self.paginate_queryset(rows)
        return self.get_paginated_response([render.listed_out(self.api, r) for r in page or []])

    def post(self, request: Request, **_ids: str) -> Response:  # noqa: ARG002
        asked: dict[str, Any] = {
            "principal": self.principal,
            "project": self.project,
            "kind": self.api.kind,
            "said": self.given(self.api.takes),
        }
        if self.is_plan:
            return self.planned(services.workload_plan(**asked))
        return self.accepted(services.workload_create(**asked), is_new=True)


class WorkApply(_View):
    """Create or change a {one} as a manifest says, and start it."""

    @classmethod
    def rights(cls, api: Api) -> Mapping[str, Permission]:
        return {"POST": api.kind.create}

    @classmethod
    def schema_of(cls, api: Api) -> Schema:
        given = extend_schema(
            request=OpenApiTypes.OBJECT,
            parameters=[PLAN],
            responses={202: api.gives, 200: api.plans},
        )
        return {"post": given}

    def post(self, request: Request, **_ids: str) -> Response:
        asked: dict[str, Any] = {
            "principal": self.principal,
            "project": self.project,
            "kind": self.api.kind,
            "document": request.data,
        }
        if self.is_plan:
            return self.planned(services.manifest_plan(**asked))
        return self.accepted(services.manifest_apply(**asked), is_new=True)


class _OneView(_View):
    """Below ``/projects/{project}/{kinds}/{id}``."""

    def row(self, *, for_update: bool = False) -> Any:
        kind = self.api.kind
        return selectors.workload_get(
            self.principal, kind, self.kwargs[kind.word], self.project, for_update=for_update
        )


class WorkDetail(_OneView):
    """One {one}."""

    @classmethod
    def rights(cls, api: Api) -> Mapping[str, Permission]:
        # the owner, or who may manage, deletes: services decide
        return {"GET": api.kind.read, "PATCH": api.kind.create, "DELETE": api.kind.read}

    @classmethod
    def schema_of(cls, api: Api) -> Schema:
        return {
            "get": extend_schema(responses=api.gives),
            "patch": extend_schema(
                request=api.edits, parameters=[PLAN], responses={202: api.gives, 200: api.plans}
            ),
            "delete": extend_schema(parameters=[REASON, NAME], responses={202: api.gives}),
        }

    def get(self, request: Request, **_ids: str) -> Response:  # noqa: ARG002
        row = self.row()
        return with_etag(Response(render.one_out(self.api, row, self.principal)), row)

    def patch(self, request: Request, **_ids: str) -> Response:
        said = self.given(self.api.edits)
        if self.is_plan:
            plan = services.workload_plan(
                principal=self.principal,
                project=self.project,
                kind=self.api.kind,
                said=said,
                row=self.row(),
            )
            return self.planned(plan)
        check = partial(check_if_match, request)
        row = services.workload_edit(
            principal=self.principal, row=self.row(), said=said, check=check
        )
        return self.accepted(row)

    def delete(self, request: Request, **_ids: str) -> Response:
        with transaction.atomic():
            row = self.row(for_update=True)
            check_if_match(request, row)
            row = services.workload_delete(
                principal=self.principal,
                row=row,
                typed_name=request.query_params.get("name"),
                said=reason_in(request),
            )
            # before others see the wish: one that does not run is gone a moment later
            return self.accepted(row)


class WorkStart(_OneView):
    """Start a {one} again that has ended: a new launch of the same."""

    @classmethod
    def rights(cls, api: Api) -> Mapping[str, Permission]:
        return {"POST": api.kind.create}

    @classmethod
    def schema_of(cls, api: Api) -> Schema:
        return {"post": extend_schema(request=None, responses={202: api.gives})}

    def post(self, request: Request, **_ids: str) -> Response:  # noqa: ARG002
        return self.accepted(services.workload_start(principal=self.principal, row=self.row()))


class WorkStop(_OneView):
    """End what a {one} does; what it wrote to volumes stays."""

    @classmethod
    def rights(cls, api: Api) -> Mapping[str, Permission]:
        return {"POST": api.kind.read}  # the owner, or who may manage: services decide

    @classmethod
    def schema_of(cls, api: Api) -> Schema:
        return {"post": extend_schema(request=ReasonIn, responses={202: api.gives})}

    def post(self, request: Request, **_ids: str) -> Response:
        row = services.workload_stop(
            principal=self.principal, row=self.row(), said=reason_in(request)
        )
        return self.accepted(row)


class _ReadView(_OneView):
    pagination_class = None  # short by nature: one answer

    @classmethod
    def rights(cls, api: Api) -> Mapping[str, Permission]:
        return {"GET": api.kind.read}

    def follower(self, row: Any) -> streams.Follower:
        """Take from the request what a stream needs to go on alone; TooManyStreams beyond it."""
        who, kind, project, short_id = self.principal, self.api.kind, self.project, row.short_id
        require_standing = sessions.opened_by(who, self.request)

        def allowed() -> None:
            require_standing()
            selectors.workload_get(who, kind, short_id, project)

        return streams.Follower(streams.places.take(str(who.user.uid)), allowed)

    def looks_at(self, row: Any) -> Callable[[], Any]:
        """Return what finds the row as it is at that moment; None: it is gone."""
        rows = self.api.kind.model.objects.select_related("project", "owner")
        return rows.filter(pk=row.pk, deleted_at__isnull=True).first


class WorkDocument(_ReadView):
    """The document that makes this {one} again."""

    @classmethod
    def schema_of(cls, api: Api) -> Schema:  # noqa: ARG003
        return {"get": extend_schema(responses=OpenApiTypes.OBJECT)}

    def get(self, request: Request, **_ids: str) -> Response:  # noqa: ARG002
        row = self.row()
        mine = selectors.is_owner(self.principal, row)
        return Response(services.manifest_of(row, private=mine))


class WorkEvents(_ReadView):
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
            state = partial(_state, self.api, self.looks_at(row))
            what = streams.FollowedState(self.follower(row), topic, state)
            return EventStream(streams.follow_state(what))
        steps = selectors.steps_of(row)
        return Response(
            [
                {"launch": x.launch, "word": x.word, "at": x.at, "message": x.shown_message}
                for x in steps
            ]
        )


class WorkLogs(_ReadView):
    """What a replica of the latest launch wrote, also after its end. Private to its owner."""

    renderer_classes = [JSONRenderer, EventStreamRenderer]

    @classmethod
    def schema_of(cls, api: Api) -> Schema:
        told = {(200, "application/json"): api.log, (200, "text/event-stream"): str}
        return {"get": extend_schema(parameters=[*PART_OF_A_LOG, REPLICA], responses=told)}

    def get(self, request: Request, **_ids: str) -> HttpResponseBase:
        row = self.row()
        if not selectors.is_owner(self.principal, row):
            raise Forbidden(_("Only its owner may read what it wrote."))
        replica, offset = whole(request, "replica", 0, MAX_REPLICA), offset_of(request)
        if replica >= self.api.kind.replicas_of(row):
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


def _state(api: Api, look: Callable[[], Any]) -> dict[str, Any] | None:
    row = look()
    return None if row is None else render.state_out(api, row)


def _is_over(api: Api, look: Callable[[], Any], launch: int) -> bool:
    row = look()
    return row is None or row.launch != launch or api.states.is_over(row)


def urls_for(api: Api) -> list[URLPattern]:
    """Return the routes of a kind: below ``projects/{project}/{kinds}``."""
    word = api.kind.word
    every = f"projects/<slug:project>/{api.collection}"
    one = f"{every}/<slug:{word}>"
    routes: dict[str, tuple[str, type[_View]]] = {
        every: (f"api-{api.collection}", WorkList),
        f"{every}/apply": (f"api-{word}-apply", WorkApply),
        one: (f"api-{word}", WorkDetail),
        f"{one}/start": (f"api-{word}-start", WorkStart),
        f"{one}/{api.stop}": (f"api-{word}-{api.stop}", WorkStop),
        f"{one}/document": (f"api-{word}-document", WorkDocument),
        f"{one}/events": (f"api-{word}-events", WorkEvents),
        f"{one}/logs": (f"api-{word}-logs", WorkLogs),
    }
    return [path(route, _made(view, api), name=name) for route, (name, view) in routes.items()]


def _made(view: type[_View], api: Api) -> Any:
    """Return the view of one kind: what it demands and how it is described is of its class."""
    said = str(view.__doc__).format(one=api.kind.word, many=api.collection)
    own = {
        "api": api,
        "required_permissions": view.rights(api),
        "serializer_class": api.gives,
        "__doc__": said,
        "__module__": view.__module__,
    }
    made: Any = type(f"{api.title}{view.__name__.removeprefix('Work')}", (view,), own)
    return extend_schema_view(**view.schema_of(api))(made).as_view()
