"""The fleet through the API: every GPU, as far as the reader may see."""

from typing import Any, ClassVar

from django.urls import path
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from fleet.asked import asked_of, moment_of
from fleet.counts import counts
from fleet.render import STATES, told
from fleet.selectors import look
from projects.access import Permission
from projects.api.base import PlatformAPIView

_ASKED = [
    OpenApiParameter("cluster", str, description="Its key."),
    OpenApiParameter("kind", str, description="Kind of GPU."),
    OpenApiParameter("pool", str),
    OpenApiParameter("project", str, description="Its slug: what it holds."),
    OpenApiParameter("at", str, description="A moment of the last 24 hours; now by default."),
]


class CauseOut(serializers.Serializer[Any]):
    text = serializers.CharField(help_text="Why it waits.")
    workloads = serializers.IntegerField()
    gpus = serializers.IntegerField()


class FleetDeviceOut(serializers.Serializer[Any]):
    device = serializers.CharField()
    kind = serializers.CharField()
    healthy = serializers.BooleanField()
    held = serializers.BooleanField()
    work = serializers.CharField(allow_null=True, help_text="null: nobody's, or not yours to see.")
    work_kind = serializers.CharField(allow_null=True)
    owner = serializers.CharField(allow_null=True)
    project = serializers.CharField(allow_null=True)
    since = serializers.DateTimeField(allow_null=True)
    utilisation = serializers.FloatField(allow_null=True, help_text="Percent; null: unknown.")
    memory_used_mib = serializers.IntegerField(allow_null=True)
    memory_mib = serializers.IntegerField()
    shared = serializers.BooleanField(help_text="Several use it; the figures are of the device.")
    simulated = serializers.BooleanField()


class FleetNodeOut(serializers.Serializer[Any]):
    cluster = serializers.CharField()
    node = serializers.CharField()
    unit = serializers.CharField()
    rack = serializers.CharField()
    state = serializers.ChoiceField(choices=STATES)
    reserved = serializers.BooleanField(help_text="In a pool that is kept for some.")
    devices = FleetDeviceOut(many=True)


class FleetOut(serializers.Serializer[Any]):
    seen_at = serializers.DateTimeField(allow_null=True)
    stale = serializers.BooleanField()
    silent_clusters = serializers.ListField(child=serializers.CharField())
    supply = serializers.IntegerField()
    requested = serializers.IntegerField(help_text="Attached, and waited for.")
    attached = serializers.IntegerField()
    held_by_others = serializers.IntegerField(help_text="By pods that Berth did not make.")
    free = serializers.IntegerField()
    out = serializers.IntegerField(help_text="Free, on nodes from which nothing is given out.")
    unhealthy = serializers.IntegerField()
    unknown = serializers.IntegerField(help_text="Attached, and nobody tells what they do.")
    utilisation = serializers.FloatField(allow_null=True, help_text="Mean of what is attached.")
    largest_free = serializers.DictField(
        child=serializers.IntegerField(), help_text="Level to most free of a kind in one such part."
    )
    waiting = CauseOut(many=True)
    nodes = FleetNodeOut(many=True)


class FleetView(PlatformAPIView):
    """Every GPU on the clusters that the reader's projects may use; operators see all.

    Work, owner and project are named where the reader may see them.
    """

    required_platform: ClassVar = "user"
    limited_tokens: ClassVar = {"GET": Permission.PROJECT_READ}

    @extend_schema(operation_id="fleet_read", parameters=_ASKED, responses=FleetOut)
    def get(self, request: Request) -> Response:
        asked = asked_of(request.query_params)
        fleet = look(self.principal, asked, moment_of(request.query_params))
        return Response(told(fleet, counts(self.principal, fleet, asked)))


urlpatterns = [path("fleet", FleetView.as_view(), name="fleet")]
