"""Puts the acting principal, language and time zone of the person on the request."""

import time
import zoneinfo
from collections import OrderedDict
from collections.abc import Callable
from ipaddress import ip_address
from threading import Lock

from allauth.usersessions.models import UserSession
from django.contrib.auth.models import AnonymousUser
from django.http import HttpRequest, HttpResponse
from django.utils import timezone, translation

from accounts import fair_use, oidc_session
from accounts.principal import Principal
from common.clock import now
from common.middleware import client_ip

_EVERY = 60.0
_MOST = 20_000  # sessions remembered by this process
_seen: OrderedDict[str, float] = OrderedDict()
_lock = Lock()


def note_session(request: HttpRequest) -> None:
    """Write the session down if this process has not done so within the last minute."""
    key = request.session.session_key
    if not key or not _is_due(key):
        return
    changed = UserSession.objects.filter(session_key=key).update(
        last_seen_at=now(), ip=stored_ip(request)
    )
    if not changed:
        UserSession.objects.create_from_request(request)


def stored_ip(request: HttpRequest) -> str:
    """Return an address that the column takes; a Unix socket or nonsense is 0.0.0.0."""
    ip = client_ip(request).partition("%")[0]
    try:
        return str(ip_address(ip))
    except ValueError:
        return "0.0.0.0"  # noqa: S104 - stands for "unknown", nothing listens


def forget_seen() -> None:
    """For tests."""
    with _lock:
        _seen.clear()


def _is_due(key: str) -> bool:
    at = time.monotonic()
    with _lock:
        if at - _seen.get(key, -_EVERY) < _EVERY:
            return False
        _seen[key] = at
        _seen.move_to_end(key)
        if len(_seen) > _MOST:
            _seen.popitem(last=False)
        return True


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
        note_session(request)
        if user.language:  # type: ignore[union-attr]
            translation.activate(user.language)  # type: ignore[union-attr]
            request.LANGUAGE_CODE = user.language  # type: ignore[union-attr]
        if user.timezone:  # type: ignore[union-attr]
            try:
                timezone.activate(zoneinfo.ZoneInfo(user.timezone))  # type: ignore[union-attr]
            except (KeyError, ValueError):
                timezone.deactivate()
