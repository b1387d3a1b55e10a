# ruff: noqa: ARG002 - handlers get what is in the URL, also when the base class has used it
"""The API of performance tests."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django.urls import path
from drf_spectacular.utils import extend_schema, extend_schema_field
from rest_framework import serializers, status
from rest_framework.response import Response

from common.drf.serializers import StrictSerializer, given
from jobs.fields import MAX_REPLICAS
from perftests import selectors, services
from perftests.choices import Backend, State, Test
from perftests.models import PerfTest
from projects.access import Permission
from projects.api.base import ProjectAPIView

if TYPE_CHECKING:
    from rest_framework.request import Request

MAX_GPUS = 64
MAX_MIB = 16 * 1024


class PerfTestIn(StrictSerializer):
    test = serializers.ChoiceField(Test.choices, default=Test.ALL_REDUCE.value)
    replicas = serializers.IntegerField(min_value=1, max_value=MAX_REPLICAS, default=2)
    gpus = serializers.IntegerField(
        min_value=0, max_value=MAX_GPUS, default=0, help_text="of each replica; 0: CPUs stand in"
    )
    max_mib = serializers.IntegerField(
        required=False, allow_null=True, min_value=1, max_value=MAX_MIB, help_text="largest size"
    )
    variables = serializers.DictField(
        child=serializers.CharField(), required=False, help_text="NCCL_… → value"
    )
    name = serializers.CharField(required=False, allow_blank=True, max_length=63)
    image = serializers.CharField(required=False, allow_blank=True, max_length=512)
    environment = serializers.CharField(required=False, allow_blank=True, max_length=255)
    cluster = serializers.CharField(required=False, allow_blank=True, max_length=63)
    pool = serializers.CharField(required=False, allow_blank=True, max_length=63)
    gpu_flavor = serializers.CharField(required=False, allow_blank=True, max_length=255)
    topology = serializers.CharField(required=False, allow_blank=True, max_length=12)
    framework = serializers.CharField(required=False, allow_blank=True, max_length=12)


class BesideBaselineOut(serializers.Serializer[Any]):
    baseline = serializers.UUIDField(source="baseline.uid")
    change = serializers.FloatField(help_text="0.1: a tenth more than the baseline")
    same_nodes = serializers.BooleanField(source="is_same_nodes")
    regression = serializers.BooleanField(source="is_regression")
    sentence = serializers.CharField()


class PerfTestOut(serializers.Serializer[Any]):
    id = serializers.UUIDField(source="uid")
    name = serializers.CharField()
    owner = serializers.CharField(source="owner.username", default=None, allow_null=True)
    test = serializers.ChoiceField(Test.choices)
    state = serializers.ChoiceField(State.choices)
    message = serializers.CharField(allow_blank=True)
    replicas = serializers.IntegerField()
    gpus = serializers.IntegerField()
    max_mib = serializers.IntegerField()
    variables = serializers.DictField(child=serializers.CharField())
    cluster = serializers.CharField(source="cluster_key", allow_blank=True)
    gpu_flavor = serializers.CharField(source="flavor", allow_blank=True)
    nodes = serializers.ListField(child=serializers.CharField())
    spread = serializers.DictField(help_text="level → the parts of it that it ran in")
    backend = serializers.ChoiceField(Backend.choices, allow_blank=True)
    headline = serializers.FloatField(
        allow_null=True, help_text="busbw in GB/s of the largest size; efficiency of a scaling test"
    )
    lines = serializers.ListField(child=serializers.DictField())
    is_baseline = serializers.BooleanField()
    beside_baseline = serializers.SerializerMethodField()
    job = serializers.CharField(source="job.short_id", default=None, allow_null=True)
    created_at = serializers.DateTimeField()
    ended_at = serializers.DateTimeField(allow_null=True)

    @extend_schema_field(BesideBaselineOut(allow_null=True))
    def get_beside_baseline(self, row: PerfTest) -> Any:
        found = self.context["compared"].get(row.pk)
        return BesideBaselineOut(found).data if found else None


class PerfTests(ProjectAPIView):
    """Performance tests of a project, newest first. POST begins one."""

    required_permissions: ClassVar = {"GET": Permission.JOB_READ, "POST": Permission.JOB_CREATE}
    queryset = PerfTest.objects.none()
    serializer_class = PerfTestOut

    @extend_schema(operation_id="perftests_list", responses=PerfTestOut(many=True))
    def get(self, request: Request, project: str) -> Response:
        rows = selectors.visible_to(self.principal, self.project)
        page = self.paginate_queryset(rows) or []
        context = {"compared": selectors.compared(page)}
        return self.get_paginated_response(PerfTestOut(page, many=True, context=context).data)

    @extend_schema(
        operation_id="perftests_create", request=PerfTestIn, responses={202: PerfTestOut}
    )
    def post(self, request: Request, project: str) -> Response:
        said = given(PerfTestIn, request)
        row = services.perftest_create(principal=self.principal, project=self.project, said=said)
        return _told(row, status.HTTP_202_ACCEPTED)


class OnePerfTest(ProjectAPIView):
    """One test with what it measured. DELETE removes the result; its job stays."""

    required_permissions: ClassVar = {"GET": Permission.JOB_READ, "DELETE": Permission.JOB_CREATE}

    @extend_schema(operation_id="perftests_show", responses=PerfTestOut)
    def get(self, request: Request, project: str, perftest: Any) -> Response:
        return _told(selectors.perftest_get(self.principal, self.project, perftest))

    @extend_schema(operation_id="perftests_delete", responses={204: None})
    def delete(self, request: Request, project: str, perftest: Any) -> Response:
        row = selectors.perftest_get(self.principal, self.project, perftest)
        services.perftest_delete(principal=self.principal, row=row)
        return Response(status=status.HTTP_204_NO_CONTENT)


class ChooseBaseline(ProjectAPIView):
    """Compare tests of the same shape with this one from now on."""

    required_permissions: ClassVar = {"POST": Permission.JOB_CREATE}

    @extend_schema(operation_id="perftests_baseline", request=None, responses=PerfTestOut)
    def post(self, request: Request, project: str, perftest: Any) -> Response:
        row = selectors.perftest_get(self.principal, self.project, perftest)
        return _told(services.baseline_choose(principal=self.principal, row=row))


def _told(row: PerfTest, code: int = status.HTTP_200_OK) -> Response:
    context = {"compared": selectors.compared([row])}
    return Response(PerfTestOut(row, context=context).data, status=code)


_ONE = "projects/<slug:project>/perftests/<uuid:perftest>"
urlpatterns = [
    path("projects/<slug:project>/perftests", PerfTests.as_view(), name="api-perftests"),
    path(_ONE, OnePerfTest.as_view(), name="api-perftest"),
    path(f"{_ONE}/baseline", ChooseBaseline.as_view(), name="api-perftest-baseline"),
]
