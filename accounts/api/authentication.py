"""How the API knows who calls: a Berth token, or the portal's own session with CSRF."""

from typing import Any

import structlog
from django.http import HttpRequest
from django.utils.translation import gettext as _
from rest_framework import authentication
from rest_framework.exceptions import AuthenticationFailed, PermissionDenied
from rest_framework.request import Request

from accounts.models import ApiToken, User
from accounts.principal import Principal
from accounts.services.sessions import record_denied
from accounts.services.tokens import token_authenticate
from common.disk import DiskFull
from common.errors import Forbidden
from common.middleware import client_ip, is_foreign

SAFE = {"GET", "HEAD", "OPTIONS"}
_MAX_HEADER = 256


def _require_room(plain: HttpRequest) -> None:
    """Refuse what the portal's full disk has no room for, now that it is known who asks."""
    if getattr(plain, "short_of_room", False):
        raise DiskFull


class TokenAuthentication(authentication.BaseAuthentication):
    """``Authorization: Bearer berth_…``, and nowhere else: never a query or a cookie."""

    def authenticate(self, request: Request) -> tuple[User, ApiToken] | None:
        header = request.headers.get("Authorization", "")
        scheme, _sep, secret = header.partition(" ")
        if scheme.lower() != "bearer":
            return None
        plain = request._request  # noqa: SLF001 - principal_of reads the plain request
        ip = client_ip(plain)
        token = None
        if len(header) <= _MAX_HEADER:
            token = token_authenticate(secret=secret.strip(), ip=ip)
        if token is None:
            record_denied(verb="token.denied", ip=ip)
            raise AuthenticationFailed(
                _("This token is unknown, expired or revoked."), code="invalid-token"
            )
        who = Principal(user=token.user, token=token, ip=ip)
        plain.principal = who  # type: ignore[attr-defined]
        structlog.contextvars.bind_contextvars(user=token.user.username)
        view = (request.parser_context or {}).get("view")
        # unsafe methods by which the view lets people read, and nothing else
        reading: frozenset[str] = getattr(view, "reading_methods", frozenset())
        if token.read_only and plain.method not in SAFE | reading:
            record_denied(verb="token.write-denied", ip=ip, who=who)
            raise PermissionDenied(_("This token may only read."))
        _require_room(plain)
        return token.user, token

    def authenticate_header(self, request: Request) -> str:  # noqa: ARG002
        return 'Bearer realm="berth"'


class SessionAuthentication(authentication.SessionAuthentication):
    """The portal's own pages, and no others; every unsafe request needs the CSRF token."""

    def authenticate(self, request: Request) -> tuple[Any, Any] | None:
        found = super().authenticate(request)
        if found is not None:
            plain = request._request  # noqa: SLF001
            if plain.method in SAFE and is_foreign(plain):
                raise Forbidden(_("Only pages of the portal may do this."), code="foreign-origin")
            plain.principal = Principal(user=found[0], ip=client_ip(plain))  # type: ignore[attr-defined]
            _require_room(plain)
        return found
