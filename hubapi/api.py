"""What a notebook server calls (docs/dev/hubapi.md). No trailing slashes anywhere.

Servers are answered in JSON, with 403 and never 401, no redirect, no cookie.
"""

import json
import re
from collections.abc import Callable
from datetime import UTC, datetime
from functools import wraps
from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.cache import patch_vary_headers
from django.views.decorators.csrf import csrf_exempt

from common.clock import now
from common.errors import BerthError, Forbidden, Invalid
from hubapi import activity, oauth, registry
from hubapi.models import TokenKind
from hubapi.oauth import OAuthError
from hubapi.registry import by_short_id, host_routing, short_id_of_host, workload_origin
from hubapi.selectors import Holder, holder_of, identity_of, scopes_of

# What is told to servers and to collaboration's pages; another major number is only a log line.
HUB_VERSION = "6.1.1"
MAX_BODY = 64 * 1024
_TOKEN = re.compile(r"\A(?:token|bearer) +([A-Za-z0-9_-]{20,100})\Z", re.IGNORECASE)

View = Callable[..., HttpResponse]


def hub_api(*methods: str, cors: bool = False) -> Callable[[View], View]:
    """Answer servers: these methods only, errors as JSON, nothing kept by caches."""

    def decorate(view: View) -> View:
        @wraps(view)
        def wrapped(request: HttpRequest, **kwargs: Any) -> HttpResponse:
            response = _answer(view, request, methods, cors=cors, **kwargs)
            response["X-JupyterHub-Version"] = HUB_VERSION
            response["Cache-Control"] = "no-store"
            if cors:
                _allow_workload_origin(request, response)
            return response

        return csrf_exempt(login_not_required(wrapped))

    return decorate


def _answer(
    view: View, request: HttpRequest, methods: tuple[str, ...], *, cors: bool, **kwargs: Any
) -> HttpResponse:
    if cors and request.method == "OPTIONS":
        return HttpResponse(status=204)
    if request.method not in methods:
        allowed = {"Allow": ", ".join(methods)}
        return JsonResponse(
            {"status": 405, "message": "This can't be done here."}, status=405, headers=allowed
        )
    try:
        return view(request, **kwargs)
    except OAuthError as error:
        told = {"error": error.error, "error_description": error.description}
        return JsonResponse(told, status=400)
    except BerthError as error:
        body = {"status": error.status, "message": str(error.message)}
        return JsonResponse(body, status=error.status)


def holder_from(request: HttpRequest, *kinds: TokenKind) -> Holder:
    """Return whose notebook token came, or refuse: unknown, revoked and foreign alike."""
    match = _TOKEN.match(request.headers.get("Authorization", ""))
    holder = holder_of(match[1]) if match else None
    if holder is None or (kinds and holder.kind not in kinds):
        raise Forbidden("This token is not valid here.")
    request.hub_holder = holder  # type: ignore[attr-defined]
    return holder


def body_json(request: HttpRequest, *, limit: int = MAX_BODY) -> dict[str, Any]:
    """Return the body as an object; small, and what it says it is."""
    if int(request.META.get("CONTENT_LENGTH") or 0) > limit:
        raise Invalid("The body is too large.")
    try:
        data = json.loads(request.body or b"{}")
    except (ValueError, RecursionError) as error:
        raise Invalid("The body is not JSON.") from error
    if not isinstance(data, dict):
        raise Invalid("The body must be an object.")
    return data


def _allow_workload_origin(request: HttpRequest, response: HttpResponse) -> None:
    """Let the page of a workload read answers to its own token; nobody else's page."""
    origin = request.headers.get("Origin", "")
    patch_vary_headers(response, ["Origin"])
    if not origin or not _is_workload_origin(request, origin):
        return
    response["Access-Control-Allow-Origin"] = origin
    response["Access-Control-Allow-Headers"] = "Authorization, Content-Type"
    response["Access-Control-Allow-Methods"] = "GET, POST, PATCH, OPTIONS"
    response["Access-Control-Max-Age"] = "600"


def _is_workload_origin(request: HttpRequest, origin: str) -> bool:
    holder: Holder | None = getattr(request, "hub_holder", None)
    if holder is not None:
        return origin == workload_origin(holder.info.short_id)
    short_id = short_id_of_host(origin.partition("://")[2])  # a preflight carries no token
    if not host_routing():
        return origin == workload_origin("")
    return origin == workload_origin(short_id) and by_short_id(short_id) is not None


__all__ = ["HUB_VERSION", "body_json", "holder_from", "hub_api"]


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
    holder = holder_of(secret)
    if holder is None:
        raise OAuthError("invalid_grant", "The right to open this workspace was just taken back.")
    return JsonResponse(
        {"access_token": secret, "token_type": "Bearer", "scope": " ".join(scopes_of(holder))}
    )


_TOKEN_FIELDS = (
    *("client_id", "client_secret", "grant_type"),
    *("code", "redirect_uri", "code_verifier"),
)


def _field(request: HttpRequest, name: str) -> str:
    value = request.POST.get(name, "")
    if len(value) > _MAX_FIELD:
        raise OAuthError("invalid_request", f"{name} is too long.")
    return value


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
    people = [{"kind": "user", "name": name} for name in sorted(_names(holder))]
    return JsonResponse(people, safe=False)


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
