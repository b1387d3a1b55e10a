"""The own account: profile, tokens, sessions, keys."""

from collections.abc import Mapping
from typing import Any, ClassVar
from uuid import UUID

from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from accounts import scopes, selectors
from accounts.api.base import AccountView, NeverStored
from accounts.api.serializers import (
    MeIn,
    MeOut,
    SessionOut,
    SshKeyIn,
    SshKeyOut,
    TokenIn,
    TokenMadeOut,
    TokenOut,
)
from accounts.models import ApiToken, SshKey
from accounts.services import (
    profile_update,
    session_revoke,
    ssh_key_add,
    ssh_key_remove,
    token_create,
    token_revoke,
)
from common.drf.serializers import StrictSerializer
from common.drf.viewsets import ANY_TOKEN


def given(serializer: type[StrictSerializer], request: Request) -> dict[str, Any]:
    """Return the checked input, or raise what becomes a 400."""
    filled = serializer(data=request.data)
    filled.is_valid(raise_exception=True)
    return dict(filled.validated_data)


class MeView(AccountView):
    """Who the caller is: every token may ask, so that whoever holds it knows whose it is."""

    serializer_class = MeOut
    limited_tokens: ClassVar[Mapping[str, str]] = {**scopes.ACCOUNT, "GET": ANY_TOKEN}

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
