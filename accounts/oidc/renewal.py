"""Asking the provider again: what it answers to a refresh token."""

import time
from datetime import datetime
from typing import Any

import requests
from allauth.socialaccount.adapter import get_adapter
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from django.conf import settings

from accounts import groups
from accounts.oidc.adapter import OidcAdapter

# A no to this person (RFC 6749 5.2, OpenID Connect Core 3.1.2.6). Every other error tells of the
# client, of the provider or of what stands before it, as a rate limit does.
_NO = frozenset({"invalid_grant", "interaction_required", "login_required", "consent_required"})
_DEFAULT_LIFE = 8 * 3600  # the provider says nothing about time
TIMEOUT = 5
# What may go wrong without a yes or a no.
TROUBLE = (requests.RequestException, OAuth2Error, ValueError, KeyError)


class Refused(Exception):  # noqa: N818 - an answer, and no fault
    """The provider says no to this person. ``error`` is its word for it."""

    def __init__(self, error: str, description: str = "") -> None:
        super().__init__(error)
        self.error = error
        self.description = description


class SomebodyElse(OAuth2Error):  # noqa: N818 - as Refused
    """The new tokens are another person's."""


def renew(adapter: OidcAdapter, refresh: str) -> dict[str, Any]:
    """Return the provider's new tokens; Refused is its no, one of TROUBLE is neither."""
    app = adapter.get_provider().app
    body = {"grant_type": "refresh_token", "refresh_token": refresh}
    auth = (app.client_id, app.secret) if adapter.basic_auth else None
    if auth is None:
        body |= {"client_id": app.client_id, "client_secret": app.secret}
    with get_adapter().get_requests_session() as session:
        response = session.post(
            adapter.access_token_url, data=body, auth=auth, timeout=TIMEOUT, allow_redirects=False
        )
    _raise_for_no(response)
    response.raise_for_status()
    answer: dict[str, Any] = response.json()
    if not isinstance(answer, dict):
        raise OAuth2Error("What answers there is not where tokens are renewed.")
    return answer


def claims_of(adapter: OidcAdapter, tokens: dict[str, Any], sub: str) -> dict[str, Any]:
    """Return the claims of the new id_token, if there is one; it must tell of the same person."""
    if not isinstance(tokens.get("id_token"), str):
        return {}
    claims = adapter.verified_claims(adapter.get_provider().app, tokens["id_token"])
    if claims.get("sub") != sub:
        raise SomebodyElse("The renewed token tells of somebody else.")
    return claims


def groups_of(
    adapter: OidcAdapter, tokens: dict[str, Any], claims: dict[str, Any], sub: str
) -> list[str] | None:
    """Return the person's groups by renewed tokens with these ``claims``; None: nothing was said.

    Many providers tell groups at userinfo only, and some bring no id_token here.
    """
    if not settings.BERTH_OIDC_GROUPS_CLAIM or settings.BERTH_OIDC_GROUPS_CLAIM in claims:
        return groups.said_in(claims)
    said = adapter.userinfo(str(tokens.get("access_token") or ""), sub) | claims
    return groups.said_in(said) if said else None


def good_until(tokens: dict[str, Any], claims: dict[str, Any]) -> float:
    """Return when new tokens end, in seconds since the epoch."""
    life = int(tokens.get("expires_in") or 0)
    return time.time() + life if life > 0 else end_of(None, claims)


def end_of(expires_at: datetime | None, claims: dict[str, Any]) -> float:
    said = [float(claims["exp"])] if claims.get("exp") else []
    if expires_at is not None:
        said.append(expires_at.timestamp())
    return max(said) if said else time.time() + _DEFAULT_LIFE


def _raise_for_no(response: requests.Response) -> None:
    if not 400 <= response.status_code < 500:  # noqa: PLR2004 - HTTP
        return
    try:
        said = response.json()
    except ValueError:
        return
    if isinstance(said, dict) and str(said.get("error")) in _NO:
        raise Refused(said["error"], str(said.get("error_description") or ""))
