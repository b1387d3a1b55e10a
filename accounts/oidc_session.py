"""The session of a person who came by single sign-on ends when the provider's does.

At sign-in the provider's tokens say how long they hold. When that time is over, the portal
asks the provider with the refresh token (kept encrypted in the session row): a yes prolongs
the session and brings fresh groups, a no ends it. Without a refresh token it ends then.
``BERTH_OIDC_SESSION_MINUTES`` replaces the provider's times by a fixed one.
"""

import time
from datetime import datetime
from typing import Any

import requests
import structlog
from allauth.socialaccount.models import SocialLogin
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from django.conf import settings
from django.contrib.auth import logout
from django.core.cache import cache
from django.http import HttpRequest

from accounts import groups
from accounts.crypto import seal, unseal
from accounts.models import User
from accounts.oidc.adapter import OidcAdapter
from accounts.services.sessions import session_forget

KEY = "berth_oidc"
GRACE = 120  # seconds that a provider is forgiven who says neither yes nor no
# A no to this person (RFC 6749 5.2, OpenID Connect Core 3.1.2.6). Every other error tells of the
# client, of the provider or of what stands before it, as a rate limit does.
_NO = frozenset({"invalid_grant", "interaction_required", "login_required", "consent_required"})
_DEFAULT_LIFE = 8 * 3600  # the provider says nothing about time
_TIMEOUT = 5
_log = structlog.get_logger(__name__)


def begin(request: HttpRequest, user: User, sociallogin: SocialLogin) -> None:
    """Note in the session how long it may last, and bring the groups."""
    extra = sociallogin.account.extra_data or {}
    claims = extra.get("id_token") or {}
    said = (extra.get("userinfo") or {}) | claims
    if settings.BERTH_OIDC_GROUPS_CLAIM in said:
        groups.sync(user, groups.clean(said[settings.BERTH_OIDC_GROUPS_CLAIM]))
    token = sociallogin.token
    refresh = token.token_secret if token is not None else ""
    expires = token.expires_at if token is not None else None
    request.session[KEY] = {
        "until": _until(expires, claims),
        "refresh": seal(refresh) if refresh else "",
        "sub": str(claims.get("sub", "")),
    }


def is_over(request: HttpRequest) -> bool:
    """Whether the session must end now. Asks the provider when its time is over."""
    state = request.session.get(KEY)
    if not isinstance(state, dict) or time.time() < state["until"]:
        return False
    refresh = unseal(state["refresh"]) if state["refresh"] else None
    if settings.BERTH_OIDC_SESSION_MINUTES or not refresh:
        return True
    # Providers that rotate refresh tokens answer the second of two racing requests with a no.
    if not cache.add(f"berth-oidc-renew:{request.session.session_key}", 1, timeout=15):
        return time.time() > state["until"] + GRACE
    try:
        answer = _renew(request, refresh)
        if answer is None:
            return True
        _prolong(request, state, answer)
    except (requests.RequestException, OAuth2Error, ValueError, KeyError) as error:
        _log.warning("oidc_refresh_failed", error=type(error).__name__)
        return time.time() > state["until"] + GRACE
    return False


def end(request: HttpRequest) -> None:
    user, key = request.user, request.session.session_key
    logout(request)
    if isinstance(user, User) and key:
        session_forget(user=user, session_key=key)


def _renew(request: HttpRequest, refresh: str) -> dict[str, Any] | None:
    """Return the provider's new tokens and claims, or None when it says no to this person."""
    adapter = OidcAdapter(request)
    app = adapter.get_provider().app
    body = {"grant_type": "refresh_token", "refresh_token": refresh}
    auth = (app.client_id, app.secret) if adapter.basic_auth else None
    if auth is None:
        body |= {"client_id": app.client_id, "client_secret": app.secret}
    response = requests.post(
        adapter.access_token_url, data=body, auth=auth, timeout=_TIMEOUT, allow_redirects=False
    )
    if _says_no(response):
        return None
    response.raise_for_status()
    answer: dict[str, Any] = response.json()
    if not isinstance(answer, dict):
        raise OAuth2Error("What answers there is not where tokens are renewed.")
    claims = {}
    if isinstance(answer.get("id_token"), str):
        claims = adapter.verified_claims(app, answer["id_token"])
    return {"tokens": answer, "claims": claims}


def _says_no(response: requests.Response) -> bool:
    if not 400 <= response.status_code < 500:  # noqa: PLR2004 - HTTP
        return False
    try:
        said = response.json()
    except ValueError:
        return False
    return isinstance(said, dict) and str(said.get("error")) in _NO


def _prolong(request: HttpRequest, state: dict[str, Any], answer: dict[str, Any]) -> None:
    tokens, claims = answer["tokens"], answer["claims"]
    if claims and claims.get("sub") != state["sub"]:
        raise OAuth2Error("The renewed token tells of somebody else.")
    life = int(tokens.get("expires_in") or 0)
    until = time.time() + life if life > 0 else _until(None, claims)
    fresh = tokens.get("refresh_token")
    request.session[KEY] = state | {
        "until": until,
        "refresh": seal(fresh) if fresh else state["refresh"],
    }
    if settings.BERTH_OIDC_GROUPS_CLAIM in claims and isinstance(request.user, User):
        groups.sync(request.user, groups.clean(claims[settings.BERTH_OIDC_GROUPS_CLAIM]))


def _until(expires_at: datetime | None, claims: dict[str, Any]) -> float:
    if settings.BERTH_OIDC_SESSION_MINUTES:
        return time.time() + 60 * settings.BERTH_OIDC_SESSION_MINUTES
    said = [float(claims["exp"])] if claims.get("exp") else []
    if expires_at is not None:
        said.append(expires_at.timestamp())
    return max(said) if said else time.time() + _DEFAULT_LIFE
