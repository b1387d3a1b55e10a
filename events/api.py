# ruff: noqa: ARG002 - handlers get what is in the URL, also when the base class has used it
"""/api/v1/audit: the whole log, for operators and auditors."""

from typing import Any, ClassVar
from uuid import UUID

from django.urls import path
from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext as _
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from common.drf.views import PlatformAPIView
from common.errors import Invalid
from events import sealer, selectors
from events.models import Event


class AuditEventSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField(source="uid")
    at = serializers.DateTimeField()
    actor_uid = serializers.UUIDField(allow_null=True)
    actor = serializers.CharField(source="actor_name")
    via = serializers.CharField()
    ip = serializers.CharField()
    request_id = serializers.CharField()
    verb = serializers.CharField()
    outcome = serializers.CharField()
    project_uid = serializers.UUIDField(allow_null=True)
    target_kind = serializers.CharField()
    target_uid = serializers.CharField()
    target_name = serializers.CharField()
    message = serializers.CharField()
    data = serializers.JSONField()  # type: ignore[assignment]


class VerdictSerializer(serializers.Serializer[Any]):
    whole = serializers.BooleanField(source="is_whole")
    links = serializers.IntegerField()
    sealed = serializers.IntegerField()
    unsealed = serializers.IntegerField()
    head = serializers.CharField()
    problems = serializers.ListField(child=serializers.CharField())


class AuditView(PlatformAPIView):
    required_platform: ClassVar = {"GET": "auditor"}
    queryset = Event.objects.none()
    serializer_class = AuditEventSerializer

    @extend_schema(
        parameters=[
            OpenApiParameter(name, str)
            for name in ("search", "verb", "actor", "outcome", "project_uid", "since", "until")
        ],
        responses=AuditEventSerializer(many=True),
    )
    def get(self, request: Request) -> Response:
        page = self.paginate_queryset(selectors.audit(**filters_of(request.query_params)))
        return self.get_paginated_response(AuditEventSerializer(page, many=True).data)


class AuditChainView(PlatformAPIView):
    """Reads the whole chain: proportional to the log, for operators only."""

    required_platform: ClassVar = {"GET": "operator"}

    @extend_schema(responses=VerdictSerializer)
    def get(self, request: Request) -> Response:
        return Response(VerdictSerializer(sealer.verify_chain()).data)


def filters_of(params: Any) -> dict[str, Any]:
    """Return checked filters of the log from an address."""
    found: dict[str, Any] = {
        name: value.replace("\x00", "")[:120]
        for name in ("search", "verb", "actor", "outcome")
        if (value := params.get(name, ""))
    }
    try:
        if value := params.get("project_uid", ""):
            found["project_uid"] = UUID(value)
        for name in ("since", "until"):
            if value := params.get(name, ""):
                moment = parse_datetime(value)
                if moment is None or moment.tzinfo is None:
                    raise ValueError(name)  # noqa: TRY301 - the same answer for all
                found[name] = moment
    except ValueError:
        raise Invalid(_("A filter is not right: a UUID or a moment with zone.")) from None
    return found


app_name = "events-api"
urlpatterns = [
    path("audit", AuditView.as_view(), name="audit"),
    path("audit/chain", AuditChainView.as_view(), name="chain"),
]
