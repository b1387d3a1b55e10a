"""What the views of any kind of work share; ``urls_for`` makes those of one kind."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar

from django.urls import reverse
from django.utils.translation import gettext as _
from drf_spectacular.utils import extend_schema
from rest_framework import status
from rest_framework.request import Request
from rest_framework.response import Response

from common.drf.views import with_etag
from common.errors import NotFound
from projects.access import Permission
from projects.api.base import ProjectAPIView, ReasonIn, reason_in
from work import selectors, services
from work.api import render
from work.api.kinds import Api
from work.models import Workload

Schema = dict[str, Any]


class WorkAPIView(ProjectAPIView):
    """Made for each kind by ``urls_for``; ``schema_of`` describes its verbs."""

    api: ClassVar[Api]
    demands: ClassVar[Mapping[str, str]] = {}  # verb → create, read or manage

    @classmethod
    def rights(cls, api: Api) -> Mapping[str, Permission]:
        return {verb: getattr(api.kind, right) for verb, right in cls.demands.items()}

    @classmethod
    def schema_of(cls, api: Api) -> Schema:
        raise NotImplementedError

    def accepted(self, row: Any, *, is_new: bool = False) -> Response:
        """Return what services wrote last; NotFound where it was removed since it was found."""
        if row.just_attached is None:  # not made by this very request
            try:
                row.refresh_from_db(fields=["generation", "desired", "observed_generation"])
            except Workload.DoesNotExist:
                raise NotFound(_("It was deleted meanwhile.")) from None
        response = Response(
            render.one_out(self.api, row, self.principal), status=status.HTTP_202_ACCEPTED
        )
        if is_new:
            keys = {"project": self.project.slug, self.api.kind.word: self.api.kind.key_of(row)}
            response["Location"] = reverse(f"api-{self.api.kind.word}", kwargs=keys)
        return with_etag(response, row)

    def planned(self, plan: services.Plan) -> Response:
        return Response(render.plan_out(self.api, plan))

    def given(self, kind: type[Any]) -> dict[str, Any]:
        serializer = kind(data=self.request.data)
        serializer.is_valid(raise_exception=True)
        return {name: v for name, v in serializer.validated_data.items() if v is not None}

    @property
    def is_plan(self) -> bool:
        return self.request.query_params.get("plan", "") in {"1", "true"}


class OneView(WorkAPIView):
    """Below ``/projects/{project}/{kinds}/{id}``."""

    def row(self, *, for_update: bool = False) -> Any:
        kind = self.api.kind
        return selectors.workload_get(
            self.principal, kind, self.kwargs[kind.word], self.project, for_update=for_update
        )


class ActView(OneView):
    """What a POST does to one."""

    demands: ClassVar[Mapping[str, str]] = {"POST": "create"}
    takes: ClassVar[type[Any] | None] = None
    act: ClassVar[Callable[..., Any]]  # a service

    @classmethod
    def schema_of(cls, api: Api) -> Schema:
        return {"post": extend_schema(request=cls.takes, responses={202: api.gives})}

    def post(self, request: Request, **_ids: str) -> Response:  # noqa: ARG002
        told = self.told()
        return self.accepted(type(self).act(principal=self.principal, row=self.row(), **told))

    def told(self) -> dict[str, Any]:
        """Return what the service is told besides."""
        return {}


class ReasonedActView(ActView):
    """What may be done to another's, too, who is told why."""

    demands: ClassVar[Mapping[str, str]] = {"POST": "read"}  # owner or manager: services decide
    takes: ClassVar[type[Any] | None] = ReasonIn

    def told(self) -> dict[str, Any]:
        return {"said": reason_in(self.request)}
