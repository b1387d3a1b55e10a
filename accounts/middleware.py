"""Puts the acting principal, language and time zone of the person on the request."""

import zoneinfo
from collections.abc import Callable

from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest, HttpResponse
from django.utils import timezone, translation

from accounts import activity, fair_use, oidc_session
from accounts.principal import Principal
from common.middleware import client_ip


class PrincipalMiddleware:
    """Sets ``request.principal`` for signed-in people; None for visitors.

    Synchronous on purpose: it reads the session's user. A session that single sign-on began
    ends here when the provider's time is over.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        request.principal = None  # type: ignore[attr-defined]
        try:
            if request.user.is_authenticated:
                self._enter(request)
            return self.get_response(request)
        finally:
            timezone.deactivate()
            fair_use.leave(request)

    def _enter(self, request: HttpRequest) -> None:
        if oidc_session.is_over(request):
            oidc_session.end(request)
            request.user = AnonymousUser()
            return
        user = request.user
        request.principal = Principal(user=user, ip=client_ip(request))  # type: ignore[attr-defined,arg-type]
        activity.note(request)
        if user.language:  # type: ignore[union-attr]
            translation.activate(user.language)  # type: ignore[union-attr]
            request.LANGUAGE_CODE = user.language  # type: ignore[union-attr]
        if user.timezone:  # type: ignore[union-attr]
            try:
                timezone.activate(zoneinfo.ZoneInfo(user.timezone))  # type: ignore[union-attr]
            except (KeyError, ValueError):
                timezone.deactivate()
