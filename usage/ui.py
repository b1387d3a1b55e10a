# ruff: noqa: ARG002 - handlers get what is in the URL, also when the base class has used it
"""Usage of a project, of oneself, and (operators) of everybody, as a page and as CSV."""

from typing import Any, ClassVar

from django.db.models import QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import path
from django.utils import timezone

from common.ui import responses
from projects.access import Permission
from projects.ui.base import PlatformView, ProjectView
from usage import export, names, selectors, showback
from usage.models import Interval
from usage.ranges import range_of
from usage.selectors import Range

LAST = 20


def answer(
    view: Any, request: HttpRequest, rows: QuerySet[Interval], span: Range, *, name: str
) -> HttpResponseBase:
    if request.GET.get("format") == "csv":
        return responses.csv_download(f"{name}.csv", export.HEAD, export.csv_rows(rows, span))
    report = selectors.report(rows, span, by_project=name != getattr(view, "slug", ""))
    last = names.name_all(report, rows.order_by("-started_at", "-id")[:LAST])
    context: dict[str, Any] = {
        "report": report,
        "held": selectors.held_now(rows),
        "last": last,
        "since": timezone.localdate(span.since).isoformat(),
        "until": request.GET.get("until", ""),
    }
    return view.render(context)


class ProjectUsage(ProjectView):
    required_permissions: ClassVar = {"GET": Permission.USAGE_READ}
    template_name = "usage/project.html"
    slug: str

    def get(self, request: HttpRequest, project: str) -> HttpResponseBase:
        span = range_of(request.GET)
        self.slug = f"usage-{self.project.slug}"
        rows = selectors.of_project(self.project.uid, span)
        return answer(self, request, rows, span, name=self.slug)


def showback_page(
    view: Any, request: HttpRequest, rows: QuerySet[Interval], span: Range, *, name: str
) -> HttpResponseBase:
    """Answer what GPUs cost whom in each month."""
    found = showback.lines(rows, span)
    if request.GET.get("format") == "csv":
        return responses.csv_download(f"{name}.csv", showback.HEAD, showback.csv_rows(found))
    hours, cost = showback.total(found)
    context = {"lines": found, "hours": hours, "cost": cost}
    since = timezone.localdate(span.since).isoformat()
    return view.render({**context, "since": since, "until": request.GET.get("until", "")})


class ProjectShowback(ProjectView):
    required_permissions: ClassVar = {"GET": Permission.USAGE_READ}
    template_name = "usage/showback.html"

    def get(self, request: HttpRequest, project: str) -> HttpResponseBase:
        span = range_of(request.GET)
        rows = selectors.of_project(self.project.uid, span)
        return showback_page(self, request, rows, span, name=f"showback-{self.project.slug}")


class AllShowback(PlatformView):
    required_platform: ClassVar = "auditor"
    template_name = "usage/showback.html"

    def get(self, request: HttpRequest) -> HttpResponseBase:
        span = range_of(request.GET)
        return showback_page(self, request, selectors.everywhere(span), span, name="showback")


class MyUsage(PlatformView):
    required_platform: ClassVar = "user"
    template_name = "usage/mine.html"

    def get(self, request: HttpRequest) -> HttpResponseBase:
        span = range_of(request.GET)
        rows = selectors.of_user(self.principal.user.uid, span)
        return answer(self, request, rows, span, name="usage-mine")


class AllUsage(PlatformView):
    required_platform: ClassVar = "auditor"
    template_name = "usage/all.html"

    def get(self, request: HttpRequest) -> HttpResponseBase:
        span = range_of(request.GET)
        return answer(self, request, selectors.everywhere(span), span, name="usage-all")


app_name = "usage"
urlpatterns = [
    path("projects/<slug:project>/usage", ProjectUsage.as_view(), name="project"),
    path(
        "projects/<slug:project>/usage/showback",
        ProjectShowback.as_view(),
        name="project-showback",
    ),
    path("usage/showback", AllShowback.as_view(), name="showback"),
    path("usage/", MyUsage.as_view(), name="mine"),
    path("usage/all", AllUsage.as_view(), name="all"),
]
