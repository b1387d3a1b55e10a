"""The own account, all people for operators, and how a terminal signs in. Below /api/v1/."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, ClassVar
from uuid import UUID

from django.db import transaction
from django.http import HttpRequest
from django.urls import path
from drf_spectacular.extensions import OpenApiAuthenticationExtension
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.generics import GenericAPIView
from rest_framework.permissions import AllowAny
from rest_framework.request import Request
from rest_framework.response import Response

from accounts import selectors
from accounts.api.serializers import (
    DeviceIn,
    DeviceOut,
    DeviceTokenIn,
    DeviceTokenOut,
    MeIn,
    MeOut,
    SessionOut,
    SshKeyIn,
    SshKeyOut,
    TokenIn,
    TokenMadeOut,
    TokenOut,
    UserIn,
    UserOut,
    UserPatch,
)
from accounts.models import ApiToken, SshKey, User
from accounts.principal import ACCOUNT, Principal
from accounts.services.people import (
    profile_update,
    set_platform_role,
    user_create,
    user_disable,
    user_enable,
    user_rename,
)
from accounts.services.sessions import device_exchange, device_start, session_revoke
from accounts.services.tokens import ssh_key_add, ssh_key_remove, token_create, token_revoke
from common.drf.serializers import given
from common.drf.views import ANY_TOKEN, PlatformAPIView
from common.middleware import client_ip


class AccountView(PlatformAPIView):
    """The own account. A limited token needs ``account:read`` or ``account:manage``."""

    required_platform: ClassVar[str | Mapping[str, str]] = "user"
    limited_tokens: ClassVar[Mapping[str, str]] = ACCOUNT
    principal: Principal


class NeverStored:
    """Answers with a secret must not be kept for Idempotency-Key: every call acts anew."""

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Any:
        request.META.pop("HTTP_IDEMPOTENCY_KEY", None)
        request.__dict__.pop("headers", None)
        response = super().dispatch(request, *args, **kwargs)  # type: ignore[misc]
        response["Cache-Control"] = "no-store"
        return response


class MeView(AccountView):
    """Who the caller is: every token may ask, so that whoever holds it knows whose it is."""

    serializer_class = MeOut
    limited_tokens: ClassVar[Mapping[str, str]] = {**ACCOUNT, "GET": ANY_TOKEN}

    @extend_schema(operation_id="me_get", responses=MeOut)
    def get(self, request: Request) -> Response:  # noqa: ARG002
        return Response(MeOut(self.principal.user).data)

    @extend_schema(operation_id="me_update", request=MeIn, responses=MeOut)
    def patch(self, request: Request) -> Response:
        user = profile_update(who=self.principal, **given(MeIn, request))
        return Response(MeOut(user).data)


class TokensView(NeverStored, AccountView):
    serializer_class = TokenOut
    queryset = ApiToken.objects.none()

    @extend_schema(operation_id="me_tokens_list", responses=TokenOut(many=True))
    def get(self, request: Request) -> Response:  # noqa: ARG002
        page = self.paginate_queryset(selectors.tokens_of(self.principal))
        return self.get_paginated_response(TokenOut(page, many=True).data)

    @extend_schema(operation_id="me_tokens_create", request=TokenIn, responses={201: TokenMadeOut})
    def post(self, request: Request) -> Response:
        data = given(TokenIn, request)
        data["project_uids"] = [str(uid) for uid in data.get("project_uids", [])]
        token, secret = token_create(who=self.principal, **data)
        return Response({**TokenOut(token).data, "token": secret}, status=201)


class TokenView(AccountView):
    serializer_class = TokenOut

    @extend_schema(operation_id="me_tokens_revoke", request=None, responses={204: None})
    def delete(self, request: Request, uid: UUID) -> Response:  # noqa: ARG002
        token_revoke(who=self.principal, uid=uid)
        return Response(status=204)


class SessionsView(AccountView):
    serializer_class = SessionOut
    pagination_class = None

    @extend_schema(operation_id="me_sessions_list", responses=SessionOut(many=True))
    def get(self, request: Request) -> Response:
        current = ""
        if self.principal.token is None:
            current = request.session.session_key or ""
        found = selectors.sessions_of(self.principal, current)
        return Response(SessionOut(found, many=True).data)


class SessionView(AccountView):
    serializer_class = SessionOut

    @extend_schema(operation_id="me_sessions_end", request=None, responses={204: None})
    def delete(self, request: Request, session_id: int) -> Response:  # noqa: ARG002
        session_revoke(who=self.principal, session_id=session_id)
        return Response(status=204)


class SshKeysView(AccountView):
    serializer_class = SshKeyOut
    queryset = SshKey.objects.none()

    @extend_schema(operation_id="me_ssh_keys_list", responses=SshKeyOut(many=True))
    def get(self, request: Request) -> Response:  # noqa: ARG002
        page = self.paginate_queryset(selectors.ssh_keys_of(self.principal))
        return self.get_paginated_response(SshKeyOut(page, many=True).data)

    @extend_schema(operation_id="me_ssh_keys_add", request=SshKeyIn, responses={201: SshKeyOut})
    def post(self, request: Request) -> Response:
        key = ssh_key_add(who=self.principal, **given(SshKeyIn, request))
        return Response(SshKeyOut(key).data, status=201)


class SshKeyView(AccountView):
    serializer_class = SshKeyOut

    @extend_schema(operation_id="me_ssh_keys_remove", request=None, responses={204: None})
    def delete(self, request: Request, uid: UUID) -> Response:  # noqa: ARG002
        ssh_key_remove(who=self.principal, uid=uid)
        return Response(status=204)


class _OpenView(NeverStored, GenericAPIView):
    """For visitors: nobody is signed in here, so no cookie can be misused."""

    authentication_classes = ()
    permission_classes = (AllowAny,)


class DeviceView(_OpenView):
    serializer_class = DeviceOut

    @extend_schema(
        operation_id="auth_device_start", request=DeviceIn, responses={200: DeviceOut}, auth=[]
    )
    def post(self, request: Request) -> Response:
        data = given(DeviceIn, request)
        started = device_start(client=data["client"], ip=client_ip(request._request))  # noqa: SLF001
        return Response(asdict(started))


class DeviceTokenView(_OpenView):
    serializer_class = DeviceTokenOut

    @extend_schema(
        operation_id="auth_device_token",
        request=DeviceTokenIn,
        auth=[],
        responses=DeviceTokenOut,
        description=(
            "428: nobody has approved it yet, ask again. 429: ask less often. "
            "410: expired, refused or used."
        ),
    )
    def post(self, request: Request) -> Response:
        token, secret = device_exchange(
            device_code=given(DeviceTokenIn, request)["device_code"],
            ip=client_ip(request._request),  # noqa: SLF001
        )
        return Response({"token": secret, "expires_at": token.expires_at})


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


class TokenScheme(OpenApiAuthenticationExtension):
    target_class = "accounts.api.authentication.TokenAuthentication"
    name = "token"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:  # noqa: ARG002
        return {"type": "http", "scheme": "bearer", "bearerFormat": "berth_…"}


class SessionScheme(OpenApiAuthenticationExtension):
    target_class = "accounts.api.authentication.SessionAuthentication"
    name = "session"

    def get_security_definition(self, auto_schema: Any) -> dict[str, str]:  # noqa: ARG002
        from django.conf import settings

        return {"type": "apiKey", "in": "cookie", "name": settings.SESSION_COOKIE_NAME}


urlpatterns = [
    path("auth/device", DeviceView.as_view(), name="api-auth-device"),
    path("auth/device/token", DeviceTokenView.as_view(), name="api-auth-device-token"),
    path("me", MeView.as_view(), name="api-me"),
    path("me/tokens", TokensView.as_view(), name="api-me-tokens"),
    path("me/tokens/<uuid:uid>", TokenView.as_view(), name="api-me-token"),
    path("me/sessions", SessionsView.as_view(), name="api-me-sessions"),
    path("me/sessions/<int:session_id>", SessionView.as_view(), name="api-me-session"),
    path("me/ssh-keys", SshKeysView.as_view(), name="api-me-ssh-keys"),
    path("me/ssh-keys/<uuid:uid>", SshKeyView.as_view(), name="api-me-ssh-key"),
    path("users", UsersView.as_view(), name="api-users"),
    path("users/<uuid:uid>", UserView.as_view(), name="api-user"),
]
