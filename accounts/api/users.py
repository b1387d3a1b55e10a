"""All people, for operators; auditors may read."""

from collections.abc import Mapping
from typing import Any, ClassVar
from uuid import UUID

from django.db import transaction
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from accounts import selectors
from accounts.api.me import given
from accounts.api.serializers import UserIn, UserOut, UserPatch
from accounts.models import User
from accounts.principal import Principal
from accounts.services import (
    set_platform_role,
    user_create,
    user_disable,
    user_enable,
    user_rename,
)
from common.drf.viewsets import PlatformAPIView

_YES = {"true": True, "false": False}


class UsersView(PlatformAPIView):
    required_platform: ClassVar[Mapping[str, str]] = {"GET": "auditor", "POST": "operator"}
    serializer_class = UserOut
    queryset = User.objects.none()
    principal: Principal

    @extend_schema(
        operation_id="users_list",
        parameters=[
            OpenApiParameter("search", str),
            OpenApiParameter("is_active", bool),
            OpenApiParameter("platform_role", str),
        ],
        responses=UserOut(many=True),
    )
    def get(self, request: Request) -> Response:
        found = selectors.users_all(
            search=request.query_params.get("search", "").replace("\0", "")[:80],
            is_active=_YES.get(request.query_params.get("is_active", "").lower()),
            platform_role=request.query_params.get("platform_role"),
        )
        return self.get_paginated_response(UserOut(self.paginate_queryset(found), many=True).data)

    @extend_schema(operation_id="users_create", request=UserIn, responses={201: UserOut})
    def post(self, request: Request) -> Response:
        user = user_create(who=self.principal, **given(UserIn, request))
        return Response(UserOut(user).data, status=201)


class UserView(PlatformAPIView):
    required_platform: ClassVar[Mapping[str, str]] = {"GET": "auditor", "PATCH": "operator"}
    serializer_class = UserOut
    principal: Principal

    @extend_schema(operation_id="users_get", responses=UserOut)
    def get(self, request: Request, uid: UUID) -> Response:  # noqa: ARG002
        return Response(UserOut(selectors.user_get(uid)).data)

    @extend_schema(operation_id="users_update", request=UserPatch, responses=UserOut)
    def patch(self, request: Request, uid: UUID) -> Response:
        data = given(UserPatch, request)
        user = selectors.user_get(uid)
        with transaction.atomic():
            self._apply(user, data)
        return Response(UserOut(user).data)

    def _apply(self, user: User, data: dict[str, Any]) -> None:
        who = self.principal
        if "display_name" in data:
            user_rename(who=who, user=user, display_name=data["display_name"])
        if "platform_role" in data:
            set_platform_role(who=who, user=user, platform_role=data["platform_role"])
        if data.get("is_active") is False:
            user_disable(who=who, user=user)
        elif data.get("is_active") is True:
            user_enable(who=who, user=user)
