# ruff: noqa: ARG002 - handlers get what is in the URL, also when the base class has used it
"""/api/v1/me/notifications and /api/v1/announcements."""

from typing import Any, ClassVar

from django.urls import path
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework import serializers
from rest_framework.request import Request
from rest_framework.response import Response

from common.drf.views import ANY_TOKEN, PlatformAPIView
from common.errors import Invalid
from notifications import selectors, services
from notifications.models import Notification

_READ, _CHANGE = "account:read", "account:manage"  # scopes of tokens: what one hears is one's own


class NotificationSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField(source="uid")
    kind = serializers.CharField()
    text = serializers.SerializerMethodField()
    url = serializers.CharField()
    created_at = serializers.DateTimeField()
    read_at = serializers.DateTimeField(allow_null=True)

    def get_text(self, row: Notification) -> str:
        return selectors.text_for(row)


class AnnouncementSerializer(serializers.Serializer[Any]):
    id = serializers.UUIDField(source="uid")
    message = serializers.CharField()
    severity = serializers.CharField()
    starts_at = serializers.DateTimeField()
    ends_at = serializers.DateTimeField(allow_null=True)


class WishSerializer(serializers.Serializer[Any]):
    kind = serializers.CharField(source="kind.name")
    label = serializers.CharField(source="kind.label")  # type: ignore[assignment]
    always = serializers.BooleanField(source="kind.always")
    page = serializers.BooleanField()
    mail = serializers.BooleanField()


class NotificationsView(PlatformAPIView):
    required_platform: ClassVar = {"GET": "user"}
    limited_tokens: ClassVar = {"GET": _READ}
    queryset = Notification.objects.none()
    serializer_class = NotificationSerializer

    @extend_schema(
        parameters=[OpenApiParameter("unread", bool)],
        responses=NotificationSerializer(many=True),
    )
    def get(self, request: Request) -> Response:
        unread = request.query_params.get("unread", "").lower() in {"1", "true", "yes"}
        rows = selectors.notifications_of(self.principal.user, unread_only=unread)
        page = self.paginate_queryset(rows)
        return self.get_paginated_response(NotificationSerializer(page, many=True).data)


class NotificationReadView(PlatformAPIView):
    required_platform: ClassVar = {"POST": "user"}
    limited_tokens: ClassVar = {"POST": _CHANGE}

    @extend_schema(request=None, responses=NotificationSerializer)
    def post(self, request: Request, uid: str) -> Response:
        row = services.notification_read(user=self.principal.user, uid=uid)
        row.refresh_from_db()
        return Response(NotificationSerializer(row).data)


class NotificationsReadView(PlatformAPIView):
    required_platform: ClassVar = {"POST": "user"}
    limited_tokens: ClassVar = {"POST": _CHANGE}

    @extend_schema(operation_id="me_notifications_read_all", request=None, responses={204: None})
    def post(self, request: Request) -> Response:
        services.notifications_read_all(user=self.principal.user)
        return Response(status=204)


class WishesView(PlatformAPIView):
    """What one hears of, and where."""

    pagination_class = None  # short by nature: one answer

    required_platform: ClassVar = {"GET": "user", "PUT": "user"}
    limited_tokens: ClassVar = {"GET": _READ, "PUT": _CHANGE}

    @extend_schema(responses=WishSerializer(many=True))
    def get(self, request: Request) -> Response:
        return Response(WishSerializer(selectors.wishes_of(self.principal.user), many=True).data)

    @extend_schema(
        request={
            "application/json": {
                "type": "object",
                "additionalProperties": {
                    "type": "object",
                    "properties": {"page": {"type": "boolean"}, "mail": {"type": "boolean"}},
                },
            }
        },
        responses=WishSerializer(many=True),
    )
    def put(self, request: Request) -> Response:
        given = request.data
        if not isinstance(given, dict) or not all(_is_wish(v) for v in given.values()):
            raise Invalid('An object {kind: {"page": bool, "mail": bool}} is expected.')
        for kind, wish in given.items():
            services.preference_set(user=self.principal.user, kind=str(kind), **wish)
        return self.get(request)


class AnnouncementsView(PlatformAPIView):
    """The banners of now."""

    pagination_class = None  # short by nature: one answer

    required_platform: ClassVar = {"GET": "user"}
    limited_tokens: ClassVar = {"GET": ANY_TOKEN}

    @extend_schema(responses=AnnouncementSerializer(many=True))
    def get(self, request: Request) -> Response:
        return Response(AnnouncementSerializer(selectors.announcements_now(), many=True).data)


def _is_wish(value: Any) -> bool:
    return (
        isinstance(value, dict)
        and set(value) == {"page", "mail"}
        and all(isinstance(v, bool) for v in value.values())
    )


app_name = "notifications-api"
urlpatterns = [
    path("me/notifications", NotificationsView.as_view(), name="list"),
    path("me/notifications/read", NotificationsReadView.as_view(), name="read-all"),
    path("me/notifications/<uuid:uid>/read", NotificationReadView.as_view(), name="read"),
    path("me/notification-settings", WishesView.as_view(), name="settings"),
    path("announcements", AnnouncementsView.as_view(), name="announcements"),
]
