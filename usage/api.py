# ruff: noqa: ARG002 - handlers get what is in the URL, also when the base class has used it
"""Usage through the API: totals, intervals, CSV."""

from typing import Any, ClassVar

from django.db.models import QuerySet
from django.http.response import HttpResponseBase
from django.urls import path
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from accounts.principal import ACCOUNT_READ
from common.drf.serializers import CurrencyField
from common.ui import responses
from projects.access import Permission
from projects.api.base import PlatformAPIView, ProjectAPIView
from usage import api_ratios, capacity, export, selectors, showback
from usage.api_ratios import SPAN, SpanSerializer
from usage.models import Interval
from usage.ranges import range_of
from usage.selectors import Range


class TotalSerializer(serializers.Serializer[Any]):
    label = serializers.CharField()  # type: ignore[assignment]
    launches = serializers.IntegerField()
    running = serializers.IntegerField()
    hours = serializers.FloatField()
    gpu_hours = serializers.FloatField()
    cpu_hours = serializers.FloatField()
    memory_gib_hours = serializers.FloatField()


class HeldSerializer(serializers.Serializer[Any]):
    workloads = serializers.IntegerField()
    gpus = serializers.IntegerField()
    gpu_hours = serializers.FloatField()


class ReportSerializer(serializers.Serializer[Any]):
    span = SpanSerializer()
    total = TotalSerializer()
    people = TotalSerializer(many=True)
    flavors = TotalSerializer(many=True)
    held = HeldSerializer()


class IntervalSerializer(serializers.Serializer[Any]):
    workload = serializers.UUIDField(source="uid", help_text="One workload may have many launches.")
    launch = serializers.IntegerField()
    part = serializers.IntegerField(help_text="A launch has one for each size, from 0.")
    kind = serializers.CharField()
    name = serializers.CharField()
    project = serializers.CharField(source="project_slug")
    owner = serializers.CharField(source="owner_name")
    cluster = serializers.CharField(source="cluster_key")
    gpus = serializers.IntegerField()
    flavor = serializers.CharField()
    cpu_milli = serializers.IntegerField()
    memory_mib = serializers.IntegerField()
    started_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField()
    end_reason = serializers.CharField()


def summary(rows: QuerySet[Interval], span: Range, *, by_project: bool = False) -> Response:
    made = selectors.report(rows, span, by_project=by_project)
    data = ReportSerializer(
        {
            "span": made.span,
            "total": made.total,
            "people": made.people,
            "flavors": made.flavors,
            "held": selectors.held_now(rows),
        }
    ).data
    return Response(data)


class ProjectUsageView(ProjectAPIView):
    required_permissions: ClassVar = {"GET": Permission.USAGE_READ}

    @extend_schema(parameters=SPAN, responses=ReportSerializer)
    def get(self, request: Request, project: str) -> Response:
        span = range_of(request.query_params)
        return summary(selectors.of_project(self.project.uid, span), span)


class ProjectIntervalsView(ProjectAPIView):
    required_permissions: ClassVar = {"GET": Permission.USAGE_READ}
    queryset = Interval.objects.none()
    serializer_class = IntervalSerializer

    @extend_schema(parameters=SPAN, responses=IntervalSerializer(many=True))
    def get(self, request: Request, project: str) -> Response:
        rows = selectors.of_project(self.project.uid, range_of(request.query_params))
        page = self.paginate_queryset(rows)
        return self.get_paginated_response(IntervalSerializer(page, many=True).data)


class ProjectUsageCsvView(ProjectAPIView):
    required_permissions: ClassVar = {"GET": Permission.USAGE_READ}

    @extend_schema(parameters=SPAN, responses={(200, "text/csv"): OpenApiTypes.STR})
    def get(self, request: Request, project: str) -> HttpResponseBase:
        span = range_of(request.query_params)
        rows = selectors.of_project(self.project.uid, span)
        name = f"usage-{self.project.slug}.csv"
        return responses.csv_download(name, export.HEAD, export.csv_rows(rows, span))


class MyUsageView(PlatformAPIView):
    required_platform: ClassVar = {"GET": "user"}
    limited_tokens: ClassVar = {"GET": ACCOUNT_READ}

    @extend_schema(parameters=SPAN, responses=ReportSerializer)
    def get(self, request: Request) -> Response:
        span = range_of(request.query_params)
        return summary(selectors.of_user(self.principal.user.uid, span), span, by_project=True)


class AllUsageView(PlatformAPIView):
    """The whole platform, by project. Operators and auditors."""

    required_platform: ClassVar = {"GET": "auditor"}

    @extend_schema(parameters=SPAN, responses=ReportSerializer)
    def get(self, request: Request) -> Response:
        span = range_of(request.query_params)
        return summary(selectors.everywhere(span), span, by_project=True)


class FiguresSerializer(serializers.Serializer[Any]):
    supply = serializers.FloatField(help_text="devices, on average")
    attached = serializers.FloatField()
    waiting = serializers.FloatField()
    requested = serializers.FloatField(help_text="attached and waiting")
    peak = serializers.IntegerField(help_text="most requested at one moment")
    peak_waiting = serializers.IntegerField()
    hours_with_waiting = serializers.IntegerField()
    hours_seen = serializers.IntegerField()
    utilisation = serializers.FloatField(
        allow_null=True, help_text="Mean percent of what was held; null: nothing was measured."
    )


class CapacityDaySerializer(serializers.Serializer[Any]):
    day = serializers.DateField()
    figures = FiguresSerializer()


class CapacityKindSerializer(serializers.Serializer[Any]):
    cluster = serializers.CharField()
    kind = serializers.CharField(help_text="empty: what takes any kind", allow_blank=True)
    total = FiguresSerializer()
    days = CapacityDaySerializer(many=True)


class CapacitySerializer(serializers.Serializer[Any]):
    span = SpanSerializer()
    kinds = CapacityKindSerializer(many=True)


class ShowbackSerializer(serializers.Serializer[Any]):
    month = serializers.CharField(help_text="2026-11")
    project = serializers.CharField()
    owner = serializers.CharField()
    kind = serializers.CharField(source="flavor", allow_blank=True, help_text="of GPU")
    gpu_hours = serializers.DecimalField(max_digits=16, decimal_places=4)
    price_per_hour = serializers.DecimalField(
        source="price", max_digits=10, decimal_places=2, allow_null=True
    )
    cost = serializers.DecimalField(max_digits=16, decimal_places=2)
    currency = CurrencyField()


class ProjectShowbackView(ProjectAPIView):
    """GPU-hours of the project by person, kind and month, at today's prices."""

    pagination_class = None  # sums: one answer
    required_permissions: ClassVar = {"GET": Permission.USAGE_READ}

    @extend_schema(parameters=SPAN, responses=ShowbackSerializer(many=True))
    def get(self, request: Request, project: str) -> Response:
        span = range_of(request.query_params)
        found = showback.lines(selectors.of_project(self.project.uid, span), span)
        return Response(ShowbackSerializer(found, many=True).data)


class ProjectShowbackCsvView(ProjectAPIView):
    required_permissions: ClassVar = {"GET": Permission.USAGE_READ}

    @extend_schema(parameters=SPAN, responses={(200, "text/csv"): OpenApiTypes.STR})
    def get(self, request: Request, project: str) -> HttpResponseBase:
        span = range_of(request.query_params)
        found = showback.lines(selectors.of_project(self.project.uid, span), span)
        name = f"showback-{self.project.slug}.csv"
        return responses.csv_download(name, showback.HEAD, showback.csv_rows(found))


class ShowbackView(PlatformAPIView):
    """GPU-hours of all projects by person, kind and month. Operators and auditors."""

    pagination_class = None  # sums: one answer
    required_platform: ClassVar = {"GET": "auditor"}

    @extend_schema(parameters=SPAN, responses=ShowbackSerializer(many=True))
    def get(self, request: Request) -> Response:
        span = range_of(request.query_params)
        found = showback.lines(selectors.everywhere(span), span)
        return Response(ShowbackSerializer(found, many=True).data)


class ShowbackCsvView(PlatformAPIView):
    required_platform: ClassVar = {"GET": "auditor"}

    @extend_schema(parameters=SPAN, responses={(200, "text/csv"): OpenApiTypes.STR})
    def get(self, request: Request) -> HttpResponseBase:
        span = range_of(request.query_params)
        found = showback.lines(selectors.everywhere(span), span)
        return responses.csv_download("showback.csv", showback.HEAD, showback.csv_rows(found))


class CapacityView(PlatformAPIView):
    """Demand against supply by kind of GPU, day by day. Operators and auditors."""

    required_platform: ClassVar = {"GET": "auditor"}

    @extend_schema(parameters=SPAN, responses=CapacitySerializer)
    def get(self, request: Request) -> Response:
        span = range_of(request.query_params)
        found = {"span": span, "kinds": capacity.report(span)}
        return Response(CapacitySerializer(found).data)


class CapacityCsvView(PlatformAPIView):
    required_platform: ClassVar = {"GET": "auditor"}

    @extend_schema(parameters=SPAN, responses={(200, "text/csv"): OpenApiTypes.STR})
    def get(self, request: Request) -> HttpResponseBase:
        kinds = capacity.report(range_of(request.query_params))
        return responses.csv_download("capacity.csv", capacity.HEAD, capacity.csv_rows(kinds))


app_name = "usage-api"
urlpatterns = [
    path("projects/<slug:project>/usage", ProjectUsageView.as_view(), name="project"),
    path(
        "projects/<slug:project>/usage/intervals",
        ProjectIntervalsView.as_view(),
        name="intervals",
    ),
    path("projects/<slug:project>/usage.csv", ProjectUsageCsvView.as_view(), name="csv"),
    path(
        "projects/<slug:project>/usage/showback",
        ProjectShowbackView.as_view(),
        name="project-showback",
    ),
    path(
        "projects/<slug:project>/usage/showback.csv",
        ProjectShowbackCsvView.as_view(),
        name="project-showback-csv",
    ),
    path("usage/showback", ShowbackView.as_view(), name="showback"),
    path("usage/showback.csv", ShowbackCsvView.as_view(), name="showback-csv"),
    path("me/usage", MyUsageView.as_view(), name="mine"),
    path("usage", AllUsageView.as_view(), name="all"),
    path("ratios", api_ratios.RatiosView.as_view(), name="ratios"),
    path("ratios.csv", api_ratios.RatiosCsvView.as_view(), name="ratios-csv"),
    path("waste", api_ratios.WasteView.as_view(), name="waste"),
    path("waste.csv", api_ratios.WasteCsvView.as_view(), name="waste-csv"),
    path(
        "projects/<slug:project>/ratios",
        api_ratios.ProjectRatiosView.as_view(),
        name="project-ratios",
    ),
    path(
        "projects/<slug:project>/ratios.csv",
        api_ratios.ProjectRatiosCsvView.as_view(),
        name="project-ratios-csv",
    ),
    path(
        "projects/<slug:project>/waste", api_ratios.ProjectWasteView.as_view(), name="project-waste"
    ),
    path(
        "projects/<slug:project>/waste.csv",
        api_ratios.ProjectWasteCsvView.as_view(),
        name="project-waste-csv",
    ),
    path("capacity", CapacityView.as_view(), name="capacity"),
    path("capacity.csv", CapacityCsvView.as_view(), name="capacity-csv"),
]
