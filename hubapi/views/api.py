"""What a notebook server calls (docs/dev/hubapi.md). No trailing slashes anywhere."""

from datetime import UTC, datetime
from typing import Any

from django.http import HttpRequest, HttpResponse, JsonResponse

from common.clock import now
from common.errors import Forbidden, Invalid
from hubapi import activity, oauth, registry
from hubapi.errors import OAuthError
from hubapi.models import TokenKind
from hubapi.selectors import Holder, identity_of, scopes_of
from hubapi.views.responses import HUB_VERSION, body_json, holder_from, hub_api

_MAX_FIELD = 2048


@hub_api("GET", cors=True)
def root(request: HttpRequest) -> HttpResponse:
    del request
    return JsonResponse({"version": HUB_VERSION})


@hub_api("GET", cors=True)
def user(request: HttpRequest) -> HttpResponse:
    return JsonResponse(identity_of(holder_from(request)))


@hub_api("POST")
def token(request: HttpRequest) -> HttpResponse:
    """Redeem a code. What is read from the answer is the access token."""
    form = {name: _field(request, name) for name in _TOKEN_FIELDS}
    client = oauth.client_authenticate(form["client_id"], form["client_secret"])
    if form["grant_type"] != "authorization_code":
        raise OAuthError("unsupported_grant_type", "Only authorization codes are redeemed here.")
    secret = oauth.code_redeem(
        client=client,
        code=form["code"],
        redirect_uri=form["redirect_uri"],
        verifier=form["code_verifier"],
    )
    holder = _holder_now(secret)
    return JsonResponse(
        {"access_token": secret, "token_type": "Bearer", "scope": " ".join(scopes_of(holder))}
    )


_TOKEN_FIELDS = (
    "client_id",
    "client_secret",
    "grant_type",
    "code",
    "redirect_uri",
    "code_verifier",
)


def _field(request: HttpRequest, name: str) -> str:
    value = request.POST.get(name, "")
    if len(value) > _MAX_FIELD:
        raise OAuthError("invalid_request", f"{name} is too long.")
    return value


def _holder_now(secret: str) -> Holder:
    from hubapi.selectors import holder_of

    holder = holder_of(secret)
    if holder is None:
        raise OAuthError("invalid_grant", "The right to open this workspace was just taken back.")
    return holder


@hub_api("POST")
def activity_push(request: HttpRequest, name: str) -> HttpResponse:
    """A server tells of its last activity: its own, under its owner's name, and no other."""
    holder = holder_from(request, TokenKind.SERVER)
    if name != holder.info.owner_username:
        raise Forbidden("This token is not valid here.")
    servers = body_json(request).get("servers", {})
    if not isinstance(servers, dict):
        raise Invalid("servers must be an object.")
    if set(servers) - {holder.info.short_id}:
        raise Forbidden("This token is not valid here.")
    mine = servers.get(holder.info.short_id, {})
    last = _moment(mine.get("last_activity") if isinstance(mine, dict) else None)
    activity.note_push(uid=holder.info.workload_uid, last_activity=last)
    return JsonResponse({})


def _moment(value: Any) -> datetime | None:
    """Return a time that a server told; one in the future counts as now."""
    if value is None:
        return None
    try:
        moment = datetime.fromisoformat(value)
        moment = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
        return min(moment.astimezone(UTC), now())
    except (TypeError, ValueError, OverflowError) as error:
        raise Invalid("last_activity is not a time.") from error


@hub_api("GET", cors=True)
def users(request: HttpRequest) -> HttpResponse:
    """Whom the share dialog may offer: those who already are in, nobody else's name."""
    holder = holder_from(request, TokenKind.USER)
    return JsonResponse([_person(name) for name in sorted(_names(holder))], safe=False)


@hub_api("GET", cors=True)
def groups(request: HttpRequest) -> HttpResponse:
    holder_from(request, TokenKind.USER)
    return JsonResponse([], safe=False)


@hub_api("GET", "POST", "PATCH", cors=True)
def shares(request: HttpRequest, owner: str, server: str) -> HttpResponse:
    """Who was let in. It is changed on the workspace's page, by its owner's own session."""
    holder = holder_from(request, TokenKind.USER)
    if (owner, server) != (holder.info.owner_username, holder.info.short_id):
        raise Forbidden("This token is not valid here.")
    if request.method != "GET":
        raise Forbidden("Sharing is changed on the workspace's page in Berth.")
    names = sorted(_names(holder) - {owner}) if holder.user.pk == holder.info.owner_pk else []
    items = [
        {
            "server": {"name": server, "user": {"name": owner}},
            "user": {"name": name},
            "kind": "user",
        }
        for name in names
    ]
    page = {"offset": 0, "limit": len(items), "total": len(items), "next": None}
    return JsonResponse({"items": items, "_pagination": page})


def _names(holder: Holder) -> set[str]:
    names = {holder.user.username, holder.info.owner_username}
    if holder.user.pk == holder.info.owner_pk:
        names |= {visitor.username for visitor in registry.visitors(holder.info.uid)}
    return names


def _person(name: str) -> dict[str, str]:
    return {"kind": "user", "name": name}
