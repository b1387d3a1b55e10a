"""Request id, listener rules, the content security policy, and errors as pages."""

import re
import uuid
from collections.abc import Callable
from typing import Any
from urllib.parse import urlsplit

import structlog
from django.conf import settings
from django.http import (
    HttpRequest,
    HttpResponse,
    HttpResponseBadRequest,
    HttpResponseNotFound,
    HttpResponseRedirect,
    JsonResponse,
)
from django.shortcuts import render
from django.utils.deprecation import MiddlewareMixin

from common.errors import CONTENT_TYPE, BerthError, problem_body

_REQUEST_ID = re.compile(r"\A[A-Za-z0-9-]{8,40}\Z")


def client_ip(request: HttpRequest) -> str:
    """Return the peer's address; forwarded headers count only behind a declared proxy."""
    if getattr(settings, "BERTH_TRUST_FORWARDED_FOR", False):
        forwarded = request.headers.get("X-Forwarded-For", "")
        if forwarded:
            return forwarded.split(",")[-1].strip()[:64]
    return str(request.META.get("REMOTE_ADDR", ""))[:64]


class RequestContextMiddleware(MiddlewareMixin):
    """Binds a request id to logs and events and answers it in ``X-Request-ID``."""

    def process_request(self, request: HttpRequest) -> HttpResponse | None:
        given = request.headers.get("X-Request-ID", "")
        request_id = given if _REQUEST_ID.match(given) else uuid.uuid4().hex
        structlog.contextvars.clear_contextvars()
        via = "api" if request.path.startswith("/api/") else "page"
        structlog.contextvars.bind_contextvars(request_id=request_id, via=via)
        request.request_id = request_id  # type: ignore[attr-defined]
        if "\x00" in request.path or "%00" in request.META.get("QUERY_STRING", ""):
            # PostgreSQL can't hold it and no name of ours has it: it ends here, not as a 500.
            sentence = "A NUL in an address means nothing."
            if via == "api":
                body = problem_body(400, "invalid", sentence)
                return JsonResponse(body, status=400, content_type=CONTENT_TYPE)
            return HttpResponseBadRequest(f"{sentence}\n", content_type="text/plain")
        return None

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        response["X-Request-ID"] = getattr(request, "request_id", "")
        return response


class ListenerMiddleware(MiddlewareMixin):
    """Each listener and each host answers only what belongs to it.

    The internal listener serves workloads, and only what they call: a workload can reach that
    port, and must find nothing else there. Under the hosts of workspaces the portal shows
    nothing of itself: cookies ignore ports, so its pages must never lie on such a host.
    """

    def process_request(self, request: HttpRequest) -> HttpResponse | None:
        port = str(request.META.get("SERVER_PORT", ""))
        internal = port == str(settings.BERTH_INTERNAL_PORT)
        request.is_internal = internal  # type: ignore[attr-defined]
        if internal:
            if _for_workloads(request.path):
                return None
            text = "Only /hub/api is served here.\n"
            return HttpResponseNotFound(text, content_type="text/plain")
        if _is_notebook_host(request.META.get("HTTP_HOST", "")):
            return _not_here(request)
        return None


def _for_workloads(path: str) -> bool:
    if path.startswith("/hub/api/oauth2/authorize"):  # for browsers, on the portal's own host
        return False
    return path in {"/hub/api", "/hub/424"} or path.startswith("/hub/api/")


def _is_notebook_host(host: str) -> bool:
    name = (host if host.endswith("]") else host.rsplit(":", 1)[0]).lower().rstrip(".")
    if str(settings.BERTH_NOTEBOOK_ROUTING) == "host":
        domain = str(settings.BERTH_NOTEBOOK_DOMAIN).lower()
        return name == domain or name.endswith(f".{domain}")
    portal = urlsplit(settings.BERTH_PUBLIC_URL).hostname
    return name == str(settings.BERTH_NOTEBOOK_PATH_HOST).lower() and name != portal


# What operators' tools ask by address; none of it sets or reads a cookie.
_PROBES = frozenset({"/livez", "/readyz", "/metrics"})


def _not_here(request: HttpRequest) -> HttpResponse | None:
    """Send people to the portal's own host; tell everybody else that no workspace is here."""
    if request.path in _PROBES:
        return None
    is_page = request.method == "GET" and "text/html" in request.headers.get("Accept", "")
    if is_page and str(settings.BERTH_NOTEBOOK_ROUTING) != "host":
        return HttpResponseRedirect(settings.BERTH_PUBLIC_URL + request.get_full_path())
    body = '{"message": "No workspace answers here."}\n'
    return HttpResponse(body, status=424, content_type="application/json")


_CSP = (
    "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'{gate}; object-src 'none'; base-uri 'none'; "
    "form-action 'self'{form_action}; frame-ancestors 'none'"
)


class ContentSecurityPolicyMiddleware(MiddlewareMixin):
    """One strict policy for every page: nothing inline, nothing foreign but the gate's streams."""

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        extra = getattr(request, "csp_form_action", "")
        form_action = f" {extra}" if extra else ""
        # the gate as pages reach it, where it is another origin than theirs
        gate = str(getattr(settings, "BERTH_GATE_PAGES_URL", ""))
        if gate and gate != settings.BERTH_PUBLIC_URL:
            gate = f" {gate} ws{gate.removeprefix('http')}"
        else:
            gate = ""
        policy = _CSP.format(form_action=form_action, gate=gate)
        response.headers.setdefault("Content-Security-Policy", policy)
        response.headers.setdefault("X-Content-Type-Options", "nosniff")
        response.headers.setdefault(
            "Permissions-Policy", "camera=(), microphone=(), geolocation=()"
        )
        return response


# Whether a request with a person's cookies was made by a page of the portal itself.
#
# The cookies come along from any page of the same site, and a workspace's pages are of the portal's
# site. What changes something is refused by Django's check of the CSRF token and the Origin. What
# only reads can't be read there, but a stream that stays open takes one of the few that its person
# may have.


def is_foreign(request: HttpRequest) -> bool:
    """Whether another page's script or element asks; a link that a person follows is not foreign,
    but a frame that a page fills with it is.

    Told by the browser: by Sec-Fetch-Site where it says so (TLS, and localhost), else by the Origin
    that comes with what a script of another page wants to read.
    """
    if site := request.headers.get("Sec-Fetch-Site"):
        goes = request.headers.get("Sec-Fetch-Mode") == "navigate"
        follows = goes and request.headers.get("Sec-Fetch-Dest", "document") == "document"
        return site not in {"same-origin", "none"} and not follows
    origin = request.headers.get("Origin")
    return origin is not None and origin != f"{request.scheme}://{request.get_host()}"


class BerthErrorMiddleware:
    """A BerthError that leaves an HTML view becomes a page with its sentence and status."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        return self.get_response(request)

    def process_exception(self, request: HttpRequest, error: Exception) -> HttpResponse | None:
        if not isinstance(error, BerthError):
            return None
        request.berth_error = error  # type: ignore[attr-defined]  # projects.middleware records it
        partial = "_" if getattr(request, "htmx", False) else ""
        template = f"errors/{partial}problem.html"
        page = render(request, template, error_frame(request, error), status=error.status)
        for name, value in error.headers.items():
            page[name] = value
        return page


def error_frame(request: HttpRequest, error: BerthError) -> dict[str, Any]:
    """Return the context of an error's page.

    Who is signed in keeps the rail and the project; the faults of the portal itself need
    nothing of it, not even its database.
    """
    signed_in = getattr(request, "principal", None) is not None
    is_fault = error.status >= 500  # noqa: PLR2004 - HTTP
    return {
        "error": error,
        "layout": "base.html" if signed_in and not is_fault else "base_auth.html",
    }
