"""The API of any kind of work: translates, decides nothing. ``urls_for`` makes that of one kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, ClassVar

from django.db import transaction
from django.db.models import Q
from django.urls import URLPattern, path
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema, extend_schema_view
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from common.drf.views import check_if_match, with_etag
from common.errors import Invalid
from projects.access import Permission
from projects.api.base import REASON, reason_in
from runtime.protocol import Phase
from work import selectors, services
from work.api import render
from work.api.base import ActView, OneView, ReasonedActView, Schema, WorkAPIView
from work.api.kinds import Api
from work.api.serializers import ExtendIn, ShareIn, ShareOut
from work.api.streams import WorkDocument, WorkEvents, WorkLogs
from work.fields import is_storable
from work.models import Share

PLAN = OpenApiParameter("plan", OpenApiTypes.INT, description="1: only say what would happen")
NAME = OpenApiParameter("name", OpenApiTypes.STR, description="Its name, typed by a person")


class WorkList(WorkAPIView):
    """List the {many} of a project; make one and start it."""

    demands: ClassVar[Mapping[str, str]] = {"GET": "read", "POST": "create"}

    @classmethod
    def schema_of(cls, api: Api) -> Schema:
        return {
            "get": extend_schema(
                responses=api.gives(many=True),
                parameters=[
                    OpenApiParameter("mine", OpenApiTypes.INT, description="1: only your own"),
                    OpenApiParameter("state", OpenApiTypes.STR, enum=sorted(api.states.filters)),
                    OpenApiParameter("phase", OpenApiTypes.STR, enum=[*Phase]),
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
        if phase := query.get("phase"):
            if phase not in set(Phase):
                raise Invalid("phase: no such phase.", fields={"phase": ["invalid"]})
            rows = rows.filter(phase=phase)
        if words := query.get("q", "")[:80]:
            if not is_storable(words):
                raise Invalid("q: no NUL, please.", fields={"q": ["invalid"]})
            rows = (self.api.matching or _matching)(rows, words)
        page = self.paginate_queryset(rows)
        return self.get_paginated_response(render.many_out(self.api, page or [], self.principal))

    def post(self, request: Request, **_ids: str) -> Response:  # noqa: ARG002
        said = self.given(self.api.takes)
        apart = {name: said.pop(name) for name in self.api.apart if name in said}
        asked: dict[str, Any] = {"principal": self.principal, "project": self.project}
        asked["said"] = said
        if self.api.create is not None and not self.is_plan:
            return self.accepted(self.api.create(**asked, **apart), is_new=True)
        asked["kind"] = self.api.kind
        if self.is_plan:
            return self.planned(services.workload_plan(**asked))
        return self.accepted(services.workload_create(**asked), is_new=True)


class WorkApply(WorkAPIView):
    """Create or change a {one} as a manifest says, and start it."""

    demands: ClassVar[Mapping[str, str]] = {"POST": "create"}

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


class WorkDetail(OneView):
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
        asked: dict[str, Any] = {
            "principal": self.principal,
            "row": self.row(),
            "newest_image": said.pop("newest_image", False),
            "said": said,
        }
        if self.is_plan:
            plan = services.workload_plan(**asked, project=self.project, kind=self.api.kind)
            return self.planned(plan)
        check = partial(check_if_match, request)
        return self.accepted(services.workload_edit(**asked, check=check))

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


class WorkStart(ActView):
    """Start a {one} again that has ended: a new launch of the same."""

    act: ClassVar[Callable[..., Any]] = staticmethod(services.workload_start)


class WorkPlain(ActView):
    """Go on with a {one} without GPUs, at once and at the same address; its ticket stays."""

    act: ClassVar[Callable[..., Any]] = staticmethod(services.workload_start_plain)


class WorkPark(ReasonedActView):
    """Park a {one}: its GPUs go to others, and it may go on where it was, ahead of newcomers."""

    act: ClassVar[Callable[..., Any]] = staticmethod(services.workload_park)


class WorkRegain(ActView):
    """Ask for the GPUs again that a {one} went on without; one that runs restarts with them."""

    act: ClassVar[Callable[..., Any]] = staticmethod(services.workload_regain)


class WorkStop(ReasonedActView):
    """End what a {one} does; what it wrote to volumes stays."""

    act: ClassVar[Callable[..., Any]] = staticmethod(services.workload_stop)


class WorkRepin(ActView):
    """Pin what the tag of its image means now; a {one} that is wanted to run starts with it."""

    act: ClassVar[Callable[..., Any]] = staticmethod(services.image_renew)


class WorkExtend(ActView):
    """Move the end of a {one} that runs under a time limit."""

    takes = ExtendIn
    act: ClassVar[Callable[..., Any]] = staticmethod(services.workload_extend)

    def told(self) -> dict[str, Any]:
        return {"minutes": self.given(ExtendIn)["minutes"]}


class WorkShares(OneView):
    """Who may open a {one} besides its owner."""

    pagination_class = None  # short by nature: one answer

    demands: ClassVar[Mapping[str, str]] = {"GET": "read", "POST": "create"}

    @classmethod
    def schema_of(cls, api: Api) -> Schema:  # noqa: ARG003
        return {
            "get": extend_schema(responses=ShareOut(many=True)),
            "post": extend_schema(request=ShareIn, responses={201: ShareOut}),
        }

    def get(self, request: Request, **_ids: str) -> Response:  # noqa: ARG002
        return Response([self._told(share) for share in selectors.shares_of(self.row())])

    def post(self, request: Request, **_ids: str) -> Response:  # noqa: ARG002
        username = self.given(ShareIn)["username"]
        share = services.workload_share(principal=self.principal, row=self.row(), username=username)
        return Response(self._told(share), status=status.HTTP_201_CREATED)

    def _told(self, share: Share) -> dict[str, Any]:
        return {
            "username": share.user.username,
            "display_name": share.user.display_name,
            "created_at": share.created_at,
        }


class WorkShare(OneView):
    """Take somebody's access to a {one} back."""

    demands: ClassVar[Mapping[str, str]] = {"DELETE": "create"}

    @classmethod
    def schema_of(cls, api: Api) -> Schema:  # noqa: ARG003
        return {"delete": extend_schema(responses={204: None})}

    def delete(self, request: Request, **ids: str) -> Response:  # noqa: ARG002
        services.workload_unshare(
            principal=self.principal, row=self.row(), username=ids["username"]
        )
        return Response(status=status.HTTP_204_NO_CONTENT)


def _matching(rows: Any, words: str) -> Any:
    return rows.filter(Q(name__icontains=words) | Q(short_id=words))


Views = Mapping[str, type[WorkAPIView]]


def urls_for(api: Api, own: Views | None = None, of_all: Views | None = None) -> list[URLPattern]:
    """Return the routes of a kind; ``own``: below one of them, ``of_all``: beside them all."""
    word = api.kind.word
    every = f"projects/<slug:project>/{api.collection}"
    one = f"{every}/<{'uuid' if api.kind.key == 'uid' else 'slug'}:{word}>"
    routes: dict[str, tuple[str, type[WorkAPIView]]] = {
        every: (f"api-{api.collection}", WorkList),
        f"{every}/apply": (f"api-{word}-apply", WorkApply),
        **{f"{every}/{n}": (f"api-{word}-{n}", view) for n, view in (of_all or {}).items()},
        one: (f"api-{word}", WorkDetail),
        f"{one}/start": (f"api-{word}-start", WorkStart),
        f"{one}/{api.stop}": (f"api-{word}-{api.stop}", WorkStop),
        f"{one}/{api.document}": (f"api-{word}-{api.document}", WorkDocument),
        f"{one}/logs": (f"api-{word}-logs", WorkLogs),
    }
    if api.kind.timeline:
        routes[f"{one}/events"] = (f"api-{word}-events", WorkEvents)
    if "time_limit_minutes" in api.kind.table:
        routes[f"{one}/extend"] = (f"api-{word}-extend", WorkExtend)
    if "gpus" in api.kind.table and not api.kind.once:
        for verb, act in (("park", WorkPark), ("plain", WorkPlain), ("regain", WorkRegain)):
            routes[f"{one}/{verb}"] = (f"api-{word}-{verb}", act)
    if api.kind.renews:
        routes[f"{one}/repin"] = (f"api-{word}-repin", WorkRepin)
    if api.kind.shared:
        routes[f"{one}/shares"] = (f"api-{word}-shares", WorkShares)
        routes[f"{one}/shares/<str:username>"] = (f"api-{word}-share", WorkShare)
    for name, view in (own or {}).items():
        words = [part for part in name.split("/") if not part.startswith("<")]
        routes[f"{one}/{name}"] = ("-".join(("api", word, *words)), view)
    return [path(route, _made(view, api), name=name) for route, (name, view) in routes.items()]


def _made(view: type[WorkAPIView], api: Api) -> Any:
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
