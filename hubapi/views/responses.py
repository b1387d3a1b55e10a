"""How notebook servers are answered: JSON, 403 never 401, no redirect, no cookie."""

import json
import re
from collections.abc import Callable
from functools import wraps
from typing import Any

from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.utils.cache import patch_vary_headers
from django.views.decorators.csrf import csrf_exempt

from common.errors import BerthError, Forbidden, Invalid
from hubapi.addresses import host_routing, short_id_of_host, workload_origin
from hubapi.errors import OAuthError
from hubapi.models import TokenKind
from hubapi.registry import by_short_id
from hubapi.selectors import Holder, holder_of

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
