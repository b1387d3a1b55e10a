"""Puts the acting principal, language and time zone of the person on the request."""

import zoneinfo
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse
from django.utils import timezone, translation

from accounts.principal import Principal
from common.middleware import client_ip


class PrincipalMiddleware:
    """Sets ``request.principal`` for signed-in people; None for visitors.

    Synchronous on purpose: it reads the session's user.
    """

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        user = request.user
        request.principal = None  # type: ignore[attr-defined]
        if not user.is_authenticated:
            return self.get_response(request)
        request.principal = Principal(user=user, ip=client_ip(request))  # type: ignore[attr-defined,arg-type]
        if user.language:
            translation.activate(user.language)
            request.LANGUAGE_CODE = user.language  # type: ignore[attr-defined]
        if user.timezone:
            try:
                timezone.activate(zoneinfo.ZoneInfo(user.timezone))
            except (KeyError, ValueError):
                timezone.deactivate()
        try:
            return self.get_response(request)
        finally:
            timezone.deactivate()
