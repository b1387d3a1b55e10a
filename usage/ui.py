# ruff: noqa: ARG002 - handlers get what is in the URL, also when the base class has used it
"""Usage of a project, of oneself, and (operators) of everybody, as a page and as CSV."""

from dataclasses import dataclass
from typing import Any, ClassVar

from django.conf import settings
from django.db.models import QuerySet
from django.http import HttpRequest
from django.http.response import HttpResponseBase
from django.urls import path
from django.utils import timezone

from common.ui import responses
from projects.access import Permission
from projects.ui.base import PlatformView, ProjectView
from usage import export, names, ratio_history, selectors, showback
from usage.dashboard import dashboard
from usage.models import Interval
from usage.ranges import range_of
from usage.ratios import By, Scope
from usage.selectors import Range

LAST = 20


@dataclass(frozen=True)
class Asked:
    """Whose usage a page is of, the groups that it offers, and how its files are called."""

    scope: Scope
    rows: QuerySet[Interval]
    by: tuple[By, ...]
    name: str


def answer(view: Any, request: HttpRequest, asked: Asked, span: Range) -> HttpResponseBase:
    rows, scope, name = asked.rows, asked.scope, asked.name
    board = dashboard(request.GET, scope, span, asked.by)
    if request.GET.get("format") == "csv":
        return responses.csv_download(f"{name}.csv", export.HEAD, export.csv_rows(rows, span))
    if request.GET.get("format") == "ratios":
        lines = ratio_history.csv_rows(scope, span, board.by, monthly=False)
        return responses.csv_download(f"{name}-ratios.csv", ratio_history.RATIO_HEAD, lines)
    if request.GET.get("format") == "waste":
        lost = ratio_history.waste_rows(board.history, settings.BERTH_CURRENCY)
        return responses.csv_download(f"{name}-waste.csv", ratio_history.WASTE_HEAD, lost)
    report = selectors.report(rows, span, by_project=scope.project_uid is None)
    last = names.name_all(report, rows.order_by("-started_at", "-id")[:LAST])
    context: dict[str, Any] = {
        "board": board,
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

    def get(self, request: HttpRequest, project: str) -> HttpResponseBase:
        span, uid = range_of(request.GET), self.project.uid
        by = (By.PERSON, By.FLAVOR, By.KIND, By.CLUSTER)
        name = f"usage-{self.project.slug}"
        asked = Asked(Scope(uid), selectors.of_project(uid, span), by, name)
        return answer(self, request, asked, span)


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
        span, uid = range_of(request.GET), self.principal.user.uid
        by = (By.PROJECT, By.FLAVOR, By.KIND, By.CLUSTER)
        mine = Asked(Scope(owner_uid=uid), selectors.of_user(uid, span), by, "usage-mine")
        return answer(self, request, mine, span)


class AllUsage(PlatformView):
    required_platform: ClassVar = "auditor"
    template_name = "usage/all.html"

    def get(self, request: HttpRequest) -> HttpResponseBase:
        span = range_of(request.GET)
        every = Asked(Scope(), selectors.everywhere(span), tuple(By), "usage-all")
        return answer(self, request, every, span)


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
