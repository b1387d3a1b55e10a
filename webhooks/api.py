# ruff: noqa: ARG002 - handlers get what is in the URL, also when the base class has used it
"""Webhooks through the API: a project's by those who manage it, and one's own."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django.urls import path
from drf_spectacular.utils import extend_schema
from rest_framework import serializers
from rest_framework.response import Response

from accounts.api.views import AccountView, NeverStored
from common.drf.serializers import StrictSerializer, given
from projects.access import Permission
from projects.api.base import ProjectAPIView
from webhooks import selectors, services
from webhooks.models import Delivery, Webhook

if TYPE_CHECKING:
    from collections.abc import Mapping
    from uuid import UUID

    from rest_framework.request import Request

    from accounts.principal import Principal
    from projects.models import Project


class WebhookOut(serializers.Serializer[Any]):
    id = serializers.UUIDField(source="uid")
    name = serializers.CharField()
    address = serializers.CharField(source="shown", help_text="Not whole: it may open something.")
    project = serializers.CharField(source="project.slug", default=None, allow_null=True)
    kinds = serializers.ListField(child=serializers.CharField(), help_text="[]: everything")
    enabled = serializers.BooleanField()
    failing_since = serializers.DateTimeField(allow_null=True)
    given_up_at = serializers.DateTimeField(
        allow_null=True, help_text="when Berth switched it off, as nothing could be delivered"
    )
    created_at = serializers.DateTimeField()


class WebhookMade(WebhookOut):
    secret = serializers.CharField(help_text="What signs deliveries; told this once.")


class WebhookSecret(serializers.Serializer[Any]):
    secret = serializers.CharField()


class WebhookChange(StrictSerializer):
    name = serializers.CharField(max_length=services.NAME_MAX, required=False)
    url = serializers.CharField(max_length=services.URL_MAX, required=False, write_only=True)
    kinds = serializers.ListField(
        child=serializers.CharField(max_length=48), max_length=100, required=False
    )
    enabled = serializers.BooleanField(required=False)


class WebhookIn(StrictSerializer):
    name = serializers.CharField(max_length=services.NAME_MAX)
    url = serializers.CharField(max_length=services.URL_MAX, write_only=True)
    kinds = serializers.ListField(
        child=serializers.CharField(max_length=48), max_length=100, default=list
    )


class DeliveryOut(serializers.Serializer[Any]):
    event = serializers.UUIDField()
    kind = serializers.CharField()
    text = serializers.SerializerMethodField()
    state = serializers.CharField(help_text="queued, sending, delivered or failed")
    attempts = serializers.IntegerField()
    status = serializers.IntegerField(allow_null=True)
    message = serializers.CharField(source="sentence")
    took_ms = serializers.IntegerField(allow_null=True)
    created_at = serializers.DateTimeField()
    due_at = serializers.DateTimeField(help_text="of one that waits: when it is tried")
    finished_at = serializers.DateTimeField(allow_null=True)

    def get_text(self, row: Delivery) -> str:
        return selectors.text_for(row)


class _Door:
    """What both doors answer; they say whose the webhooks are."""

    principal: Principal
    kwargs: dict[str, Any]

    @property
    def place(self) -> Project | None:
        raise NotImplementedError

    @property
    def row(self) -> Webhook:
        uid: UUID = self.kwargs.get("webhook") or self.kwargs["own_webhook"]
        return selectors.webhook_get(self.principal, uid, self.place)


class _ListDoor(_Door):
    @extend_schema(responses=WebhookOut(many=True))
    def get(self, request: Request, **kwargs: object) -> Response:
        rows = selectors.webhooks_of(self.principal, self.place).order_by("-id")
        view: Any = self
        page = view.paginate_queryset(rows)
        return view.get_paginated_response(WebhookOut(page, many=True).data)

    @extend_schema(request=WebhookIn, responses={201: WebhookMade})
    def post(self, request: Request, **kwargs: object) -> Response:
        said = given(WebhookIn, request)
        row, secret = services.webhook_make(principal=self.principal, project=self.place, **said)
        return Response({**WebhookOut(row).data, "secret": secret}, status=201)


class _OneDoor(_Door):
    @extend_schema(responses=WebhookOut)
    def get(self, request: Request, **kwargs: object) -> Response:
        return Response(WebhookOut(self.row).data)

    @extend_schema(request=WebhookChange, responses=WebhookOut)
    def patch(self, request: Request, **kwargs: object) -> Response:
        row, said = self.row, given(WebhookChange, request)
        row = services.webhook_change(principal=self.principal, webhook=row, changes=said)
        return Response(WebhookOut(row).data)

    @extend_schema(responses={204: None})
    def delete(self, request: Request, **kwargs: object) -> Response:
        services.webhook_delete(principal=self.principal, webhook=self.row)
        return Response(status=204)


class _SecretDoor(_Door):
    @extend_schema(request=None, responses=WebhookSecret)
    def post(self, request: Request, **kwargs: object) -> Response:
        secret = services.secret_replace(principal=self.principal, webhook=self.row)
        return Response({"secret": secret})


class _TestDoor(_Door):
    @extend_schema(request=None, responses={202: DeliveryOut})
    def post(self, request: Request, **kwargs: object) -> Response:
        made = services.webhook_test(principal=self.principal, webhook=self.row)
        return Response(DeliveryOut(made).data, status=202)


class _DeliveriesDoor(_Door):
    @extend_schema(responses=DeliveryOut(many=True))
    def get(self, request: Request, **kwargs: object) -> Response:
        view: Any = self
        page = view.paginate_queryset(selectors.deliveries_of(self.row))
        return view.get_paginated_response(DeliveryOut(page, many=True).data)


_MANAGE = Permission.WEBHOOK_MANAGE


class _OfProject(ProjectAPIView):
    serializer_class: Any = WebhookOut
    queryset = Webhook.objects.none()

    @property
    def place(self) -> Project | None:
        return self.project


class WebhookList(NeverStored, _OfProject, _ListDoor):
    """The webhooks of a project. POST makes one and tells its secret."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {"GET": _MANAGE, "POST": _MANAGE}


class WebhookDetail(_OfProject, _OneDoor):
    """One webhook."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {
        "GET": _MANAGE,
        "PATCH": _MANAGE,
        "DELETE": _MANAGE,
    }


class Secret(NeverStored, _OfProject, _SecretDoor):
    """Replace the secret; it is told once."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {"POST": _MANAGE}


class Test(_OfProject, _TestDoor):
    """Send a test; how it went stands among the deliveries."""

    required_permissions: ClassVar[Mapping[str, Permission]] = {"POST": _MANAGE}


class Deliveries(_OfProject, _DeliveriesDoor):
    """What was sent, the newest first."""

    serializer_class = DeliveryOut
    required_permissions: ClassVar[Mapping[str, Permission]] = {"GET": _MANAGE}


class _Own(AccountView):
    serializer_class: Any = WebhookOut
    queryset = Webhook.objects.none()

    @property
    def place(self) -> Project | None:
        return None


class OwnList(NeverStored, _Own, _ListDoor):
    """One's own webhooks, which hear what oneself is told."""


class OwnDetail(_Own, _OneDoor):
    """One of one's own webhooks."""


class OwnSecret(NeverStored, _Own, _SecretDoor):
    """Replace the secret; it is told once."""


class OwnTest(_Own, _TestDoor):
    """Send a test."""


class OwnDeliveries(_Own, _DeliveriesDoor):
    """What was sent, the newest first."""

    serializer_class = DeliveryOut


_ALL, _MINE = "projects/<slug:project>/webhooks", "me/webhooks"
_ONE, _MY = f"{_ALL}/<uuid:webhook>", f"{_MINE}/<uuid:own_webhook>"

app_name = "webhooks-api"
urlpatterns = [
    path(_ALL, WebhookList.as_view(), name="list"),
    path(_ONE, WebhookDetail.as_view(), name="detail"),
    path(f"{_ONE}/secret", Secret.as_view(), name="secret"),
    path(f"{_ONE}/test", Test.as_view(), name="test"),
    path(f"{_ONE}/deliveries", Deliveries.as_view(), name="deliveries"),
    path(_MINE, OwnList.as_view(), name="own"),
    path(_MY, OwnDetail.as_view(), name="own-detail"),
    path(f"{_MY}/secret", OwnSecret.as_view(), name="own-secret"),
    path(f"{_MY}/test", OwnTest.as_view(), name="own-test"),
    path(f"{_MY}/deliveries", OwnDeliveries.as_view(), name="own-deliveries"),
]
