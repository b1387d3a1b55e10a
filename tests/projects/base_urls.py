"""Routes that exist only to try the base classes."""

from typing import Any, ClassVar

from django.http import HttpResponse
from django.urls import path
from rest_framework.response import Response

from common.drf.views import check_if_match, with_etag
from projects.access import Permission
from projects.api.base import PlatformAPIView, ProjectAPIView
from projects.models import Project
from projects.ui.base import PlatformView, ProjectView


class Probe(ProjectAPIView):
    required_permissions: ClassVar = {
        "GET": Permission.PROJECT_READ,
        "POST": Permission.WORKSPACE_CREATE,
        "PATCH": Permission.PROJECT_UPDATE,
    }

    def get(self, request: Any, project: str) -> Response:
        return with_etag(Response({"can": self.can(Permission.PROJECT_UPDATE)}), self.project)

    def post(self, request: Any, project: str) -> Response:
        if request.data.get("refuse"):
            from common.errors import Conflict

            raise Conflict("no")
        made = Project.objects.create(slug=f"made-{Project.objects.count()}", name="made")
        return Response({"slug": made.slug}, status=201)

    def patch(self, request: Any, project: str) -> Response:
        check_if_match(request, self.project)
        return Response({})

    def delete(self, request: Any, project: str) -> Response:  # not declared on purpose
        raise AssertionError


class OperatorProbe(PlatformAPIView):
    required_platform: ClassVar = {"GET": "auditor", "POST": "operator"}

    def get(self, request: Any) -> Response:
        return Response({})

    def post(self, request: Any) -> Response:
        return Response({})


class Page(ProjectView):
    required_permissions: ClassVar = {"GET": Permission.PROJECT_READ}

    def get(self, request: Any, project: str) -> HttpResponse:
        return HttpResponse(f"{self.project} {self.context()['can']['project_update']}")

    def post(self, request: Any, project: str) -> HttpResponse:  # not declared on purpose
        raise AssertionError


class OperatorPage(PlatformView):
    required_platform: ClassVar = "operator"

    def get(self, request: Any) -> HttpResponse:
        return HttpResponse("ok")


urlpatterns = [
    path("api/v1/projects/<slug:project>/probe", Probe.as_view()),
    path("api/v1/probe", OperatorProbe.as_view()),
    path("p/<slug:project>/", Page.as_view()),
    path("operator/", OperatorPage.as_view()),
    path("login/", Page.as_view(), name="account_login"),
]
