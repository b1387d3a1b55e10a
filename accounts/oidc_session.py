"""The session of a person who came by single sign-on ends when the provider's does.

At sign-in the provider's tokens say how long they hold. When that time is over, the portal
asks the provider with the refresh token (kept encrypted in the session row): a yes prolongs
the session and brings fresh groups, a no ends it. Without a refresh token it ends then.
``BERTH_OIDC_SESSION_MINUTES`` replaces the provider's times by a fixed one.

While ``BERTH_OIDC_REFUSED`` is ``person`` the token is kept once for the person instead, and a
duty of the worker asks (accounts.oidc_grants): sessions last as long as it hears yes.
"""

import time
from datetime import datetime
from typing import Any

import structlog
from allauth.socialaccount.models import SocialLogin
from django.conf import settings
from django.contrib.auth import logout
from django.core.cache import cache
from django.http import HttpRequest

from accounts import hooks, oidc_grants
from accounts.crypto import seal, unseal
from accounts.models import User
from accounts.oidc.provider import OidcAdapter
from accounts.oidc_grants import TROUBLE, Refused, claims_of, end_of, good_until, groups_of, renew
from accounts.services.sessions import session_forget

KEY = "berth_oidc"
GRACE = 120  # seconds that a provider is forgiven who says neither yes nor no
_log = structlog.get_logger(__name__)


def begin(request: HttpRequest, user: User, sociallogin: SocialLogin) -> None:
    """Note in the session how long it may last, and bring the groups."""
    extra = sociallogin.account.extra_data or {}
    claims = extra.get("id_token") or {}
    said = (extra.get("userinfo") or {}) | claims
    hooks.sync_groups(user, hooks.groups_in(said))
    token = sociallogin.token
    refresh = token.token_secret if token is not None else ""
    expires = token.expires_at if token is not None else None
    is_kept = oidc_grants.is_on() and oidc_grants.keep(
        user, sociallogin.account, refresh, end_of(expires, claims)
    )
    if oidc_grants.is_on() and not is_kept:
        _log.warning("oidc_no_refresh_token", user=str(user.uid))
    request.session[KEY] = {
        "until": _until(expires, claims),
        "refresh": seal(refresh) if refresh and not is_kept else "",
        "sub": str(claims.get("sub", "")),
        "is_kept": is_kept,
    }


def is_over(request: HttpRequest) -> bool:
    """Whether the session must end now. Asks the provider when its time is over."""
    state = request.session.get(KEY)
    if not isinstance(state, dict) or time.time() < state["until"]:
        return False
    if settings.BERTH_OIDC_SESSION_MINUTES:
        return True
    if state.get("is_kept"):
        return _is_kept_over(request, state)
    return _is_refused(request, state)


def end(request: HttpRequest) -> None:
    user, key = request.user, request.session.session_key
    logout(request)
    if isinstance(user, User) and key:
        session_forget(user=user, session_key=key)


def _is_refused(request: HttpRequest, state: dict[str, Any]) -> bool:
    refresh = unseal(state["refresh"]) if state["refresh"] else None
    if not refresh:
        return True
    # Providers that rotate refresh tokens answer the second of two racing requests with a no.
    if not cache.add(f"berth-oidc-renew:{request.session.session_key}", 1, timeout=15):
        return time.time() > state["until"] + GRACE
    try:
        _renew(request, state, refresh)
    except Refused:
        return True
    except TROUBLE as error:
        _log.warning("oidc_refresh_failed", error=type(error).__name__)
        return time.time() > state["until"] + GRACE
    return False


def _is_kept_over(request: HttpRequest, state: dict[str, Any]) -> bool:
    """Whether nobody has heard a yes about the person for longer than is forgiven."""
    until = oidc_grants.lasts_until(request.user) if isinstance(request.user, User) else 0.0
    if time.time() > until + GRACE:
        return True
    if until > state["until"]:
        request.session[KEY] = state | {"until": until}
    return False


def _renew(request: HttpRequest, state: dict[str, Any], refresh: str) -> None:
    adapter = OidcAdapter(request)
    tokens = renew(adapter, refresh)
    claims = claims_of(adapter, tokens, state["sub"])
    fresh = tokens.get("refresh_token")
    request.session[KEY] = state | {
        "until": good_until(tokens, claims),
        "refresh": seal(fresh) if fresh else state["refresh"],
    }
    try:  # the session goes on, whatever becomes of this
        found = groups_of(adapter, tokens, claims, state["sub"])
    except TROUBLE as error:
        _log.warning("oidc_groups_not_told", error=type(error).__name__)
        return
    if isinstance(request.user, User):
        hooks.sync_groups(request.user, found)


def _until(expires_at: datetime | None, claims: dict[str, Any]) -> float:
    if settings.BERTH_OIDC_SESSION_MINUTES:
        return time.time() + 60 * settings.BERTH_OIDC_SESSION_MINUTES
    return end_of(expires_at, claims)
