"""How the API knows who calls: a Berth token, or the portal's own session with CSRF."""

from typing import Any

from rest_framework import authentication
from rest_framework.request import Request

from accounts.principal import Principal
from common.middleware import client_ip


class SessionAuthentication(authentication.SessionAuthentication):
    def authenticate(self, request: Request) -> tuple[Any, Any] | None:
        found = super().authenticate(request)
        if found is not None:
            request._request.principal = Principal(user=found[0], ip=client_ip(request._request))
        return found


class TokenAuthentication(authentication.BaseAuthentication):
    """``Authorization: Bearer berth_…``; the accounts owner completes this."""

    def authenticate(self, request: Request) -> tuple[Any, Any] | None:
        return None
