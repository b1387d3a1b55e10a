"""Whether a portal session still stands for a person.

``django.contrib.auth.get_user`` would renew the session under a rotated key, which must not
happen on a request that does not carry the session's cookie.
"""

from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.contrib.auth import HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.backends.base import SessionBase
from django.http import HttpRequest
from django.utils.crypto import constant_time_compare

from accounts import oidc_session
from accounts.models import User
from accounts.principal import Principal
from common.errors import NotFound

if TYPE_CHECKING:
    from rest_framework.request import Request


def stands_for(session_key: str, user: User) -> bool:
    """Return whether the session lives and would still be signed in as ``user``.

    A changed password ends it, as it does for pages.
    """
    if not session_key or not user.is_active:
        return False
    data = data_of(session_key)
    if data.get(SESSION_KEY) != str(user.pk):
        return False
    known = data.get(HASH_SESSION_KEY, "")
    hashes = [user.get_session_auth_hash(), *user.get_session_auth_fallback_hash()]
    return any(constant_time_compare(known, one) for one in hashes)


def opened_by(who: Principal, request: "Request") -> Callable[[], None]:
    """Return what raises NotFound once the session or token that opened a stream has ended."""
    session_key = "" if who.token is not None else str(request.session.session_key or "")

    def require_standing() -> None:
        who.user.refresh_from_db()
        if who.token is not None:
            who.token.refresh_from_db()
            standing = who.token.is_live
        else:
            standing = stands_for(session_key, who.user)
        if not standing:
            raise NotFound("What opened this stream has ended.")

    return require_standing


def end_if_over(session_key: str, user: User) -> None:
    """End a session whose single sign-on is over, as its next page would; else prolong it."""
    request = HttpRequest()
    request.session = _store(session_key)
    request.user = user
    if oidc_session.KEY not in request.session:
        return
    if oidc_session.is_over(request):
        oidc_session.end(request)
    elif request.session.modified:
        request.session.save()


def data_of(session_key: str) -> dict[str, Any]:
    """Return what the session holds; empty when it is over."""
    return dict(_store(session_key).load())


def _store(session_key: str) -> SessionBase:
    store: SessionBase = import_module(settings.SESSION_ENGINE).SessionStore(session_key)
    return store
