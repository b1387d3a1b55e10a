# ruff: noqa: ARG002 - handlers get what is in the URL, also when the base class has used it
"""The three ratios and the waste ledger through the API, as documents and as CSV."""

from typing import Any, ClassVar

from django.conf import settings
from django.http.response import HttpResponseBase
from django.utils.translation import gettext as _
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from common.drf.serializers import CurrencyField
from common.errors import wrong
from common.ui import responses
from projects.access import Permission
from projects.api.base import PlatformAPIView, ProjectAPIView
from usage import ratio_history, ratios
from usage.ledger import CAUSES
from usage.ranges import range_of
from usage.ratios import By, Scope

SPAN = [
    OpenApiParameter("since", str, description="A day or a moment; 30 days ago by default."),
    OpenApiParameter("until", str, description="A day (inclusive) or a moment; now by default."),
]
_BY = OpenApiParameter("by", str, enum=[str(by) for by in By], description="What groups are.")
_STEP = OpenApiParameter(
    "step", str, enum=["day", "month"], description="Of the lines; days are those of UTC."
)


class SpanSerializer(serializers.Serializer[Any]):
    since = serializers.DateTimeField()
    until = serializers.DateTimeField()


def _ratio(text: str) -> serializers.FloatField:
    return serializers.FloatField(allow_null=True, help_text=text)


class RatioSerializer(serializers.Serializer[Any]):
    """``now`` in devices; over a span in device-seconds. Ratios are parts of 1."""

    supply = serializers.FloatField()
    requested = serializers.FloatField(help_text="attached and waited for")
    waiting = serializers.FloatField()
    attached = serializers.FloatField()
    measured = serializers.FloatField(help_text="the part of attached whose use is known")
    requested_ratio = _ratio("requested of supply; may exceed 1; null where supply is not known")
    attached_ratio = _ratio("attached of supply")
    utilisation = _ratio("mean utilisation of attached devices; null where none was measured")


class RatioGroupSerializer(serializers.Serializer[Any]):
    label = serializers.CharField(allow_blank=True)  # type: ignore[assignment]
    ratio = RatioSerializer()


class RatioStepSerializer(serializers.Serializer[Any]):
    at = serializers.DateTimeField()
    ratio = RatioSerializer()


class RatioNowSerializer(serializers.Serializer[Any]):
    total = RatioSerializer()
    groups = RatioGroupSerializer(many=True)


class RatiosSerializer(serializers.Serializer[Any]):
    now = RatioNowSerializer()
    span = SpanSerializer()
    by = serializers.CharField()
    step_seconds = serializers.IntegerField()
    total = RatioSerializer()
    groups = RatioGroupSerializer(many=True)
    steps = RatioStepSerializer(many=True)


class LossSerializer(serializers.Serializer[Any]):
    cause = serializers.CharField()
    owner = serializers.CharField(
        source="label", allow_blank=True, help_text="empty: of what nobody held"
    )
    gpu_hours = serializers.FloatField()
    cost = serializers.DecimalField(max_digits=18, decimal_places=2)
    currency = CurrencyField()


class WasteSerializer(serializers.Serializer[Any]):
    span = SpanSerializer()
    by = serializers.CharField()
    supply_gpu_hours = serializers.FloatField()
    attached_gpu_hours = serializers.FloatField()
    causes = serializers.DictField(
        child=serializers.FloatField(), help_text="GPU-hours by cause: " + ", ".join(CAUSES)
    )
    losses = LossSerializer(many=True)


def by_of(request: Request, scope: Scope, default: By) -> By:
    """Return what groups are wanted; nodes are told of everybody's work only."""
    word = request.query_params.get("by", default)
    offered = [str(by) for by in By if scope.is_all or by != By.NODE]
    if word not in offered:
        raise wrong("by", _("One of: %(words)s.") % {"words": ", ".join(offered)})
    return By(word)


def _ratios(request: Request, scope: Scope, default: By) -> Response:
    by = by_of(request, scope, default)
    total, groups = ratios.at_present(scope, by)
    found = ratio_history.history(scope, range_of(request.query_params), by)
    data = RatiosSerializer(
        {
            "now": {"total": total, "groups": groups},
            "span": found.span,
            "by": by,
            "step_seconds": int(found.step.total_seconds()),
            "total": found.total,
            "groups": found.groups,
            "steps": found.steps,
        }
    ).data
    return Response(data)


def _ratios_csv(request: Request, scope: Scope, default: By, name: str) -> HttpResponseBase:
    step = request.query_params.get("step", "day")
    if step not in {"day", "month"}:
        raise wrong("step", _("One of: %(words)s.") % {"words": "day, month"})
    span = range_of(request.query_params)
    rows = ratio_history.csv_rows(
        scope, span, by_of(request, scope, default), monthly=step == "month"
    )
    return responses.csv_download(f"{name}.csv", ratio_history.RATIO_HEAD, rows)


def _waste(request: Request, scope: Scope, default: By) -> Response:
    by = by_of(request, scope, default)
    found = ratio_history.history(scope, range_of(request.query_params), by)
    data = WasteSerializer(
        {
            "span": found.span,
            "by": by,
            "supply_gpu_hours": found.total.supply / 3600,
            "attached_gpu_hours": found.total.attached / 3600,
            "causes": found.causes,
            "losses": found.losses,
        }
    ).data
    return Response(data)


def _waste_csv(request: Request, scope: Scope, default: By, name: str) -> HttpResponseBase:
    found = ratio_history.history(
        scope, range_of(request.query_params), by_of(request, scope, default)
    )
    rows = ratio_history.waste_rows(found, settings.BERTH_CURRENCY)
    return responses.csv_download(f"{name}.csv", ratio_history.WASTE_HEAD, rows)


class RatiosView(PlatformAPIView):
    """GPUs requested, attached and utilised of all projects. Operators and auditors."""

    pagination_class = None  # sums: one answer
    required_platform: ClassVar = {"GET": "auditor"}

    @extend_schema(parameters=[*SPAN, _BY], responses=RatiosSerializer)
    def get(self, request: Request) -> Response:
        return _ratios(request, Scope(), By.PROJECT)


class RatiosCsvView(PlatformAPIView):
    required_platform: ClassVar = {"GET": "auditor"}

    @extend_schema(parameters=[*SPAN, _BY, _STEP], responses={(200, "text/csv"): OpenApiTypes.STR})
    def get(self, request: Request) -> HttpResponseBase:
        return _ratios_csv(request, Scope(), By.PROJECT, "ratios")


class WasteView(PlatformAPIView):
    """Where GPU time went: each lost GPU-hour with its cause and owner. Operators and auditors."""

    pagination_class = None  # sums: one answer
    required_platform: ClassVar = {"GET": "auditor"}

    @extend_schema(parameters=[*SPAN, _BY], responses=WasteSerializer)
    def get(self, request: Request) -> Response:
        return _waste(request, Scope(), By.PROJECT)


class WasteCsvView(PlatformAPIView):
    required_platform: ClassVar = {"GET": "auditor"}

    @extend_schema(parameters=[*SPAN, _BY], responses={(200, "text/csv"): OpenApiTypes.STR})
    def get(self, request: Request) -> HttpResponseBase:
        return _waste_csv(request, Scope(), By.PROJECT, "waste")


class ProjectRatiosView(ProjectAPIView):
    """The same of one project, of all that there is."""

    pagination_class = None  # sums: one answer
    required_permissions: ClassVar = {"GET": Permission.USAGE_READ}

    @extend_schema(parameters=[*SPAN, _BY], responses=RatiosSerializer)
    def get(self, request: Request, project: str) -> Response:
        return _ratios(request, Scope(self.project.uid), By.PERSON)


class ProjectRatiosCsvView(ProjectAPIView):
    required_permissions: ClassVar = {"GET": Permission.USAGE_READ}

    @extend_schema(parameters=[*SPAN, _BY, _STEP], responses={(200, "text/csv"): OpenApiTypes.STR})
    def get(self, request: Request, project: str) -> HttpResponseBase:
        name = f"ratios-{self.project.slug}"
        return _ratios_csv(request, Scope(self.project.uid), By.PERSON, name)


class ProjectWasteView(ProjectAPIView):
    """Where the GPU time of one project went."""

    pagination_class = None  # sums: one answer
    required_permissions: ClassVar = {"GET": Permission.USAGE_READ}

    @extend_schema(parameters=[*SPAN, _BY], responses=WasteSerializer)
    def get(self, request: Request, project: str) -> Response:
        return _waste(request, Scope(self.project.uid), By.PERSON)


class ProjectWasteCsvView(ProjectAPIView):
    required_permissions: ClassVar = {"GET": Permission.USAGE_READ}

    @extend_schema(parameters=[*SPAN, _BY], responses={(200, "text/csv"): OpenApiTypes.STR})
    def get(self, request: Request, project: str) -> HttpResponseBase:
        name = f"waste-{self.project.slug}"
        return _waste_csv(request, Scope(self.project.uid), By.PERSON, name)
