"""Request id, listener rules and the content security policy."""

import re
import uuid
from collections.abc import Callable

import structlog
from django.conf import settings
from django.http import HttpRequest, HttpResponse, HttpResponseNotFound
from django.utils.deprecation import MiddlewareMixin

_REQUEST_ID = re.compile(r"\A[A-Za-z0-9-]{8,40}\Z")
GetResponse = Callable[[HttpRequest], HttpResponse]


def client_ip(request: HttpRequest) -> str:
    """Return the peer's address; forwarded headers count only behind a declared proxy."""
    if getattr(settings, "BERTH_TRUST_FORWARDED_FOR", False):
        forwarded = request.headers.get("X-Forwarded-For", "")
        if forwarded:
            return forwarded.split(",")[-1].strip()[:64]
    return str(request.META.get("REMOTE_ADDR", ""))[:64]


class RequestContextMiddleware(MiddlewareMixin):
    """Binds a request id to logs and events and answers it in ``X-Request-ID``."""

    def process_request(self, request: HttpRequest) -> None:
        given = request.headers.get("X-Request-ID", "")
        request_id = given if _REQUEST_ID.match(given) else uuid.uuid4().hex
        structlog.contextvars.clear_contextvars()
        via = "api" if request.path.startswith("/api/") else "page"
        structlog.contextvars.bind_contextvars(request_id=request_id, via=via)
        request.request_id = request_id  # type: ignore[attr-defined]

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        response["X-Request-ID"] = getattr(request, "request_id", "")
        return response


class ListenerMiddleware(MiddlewareMixin):
    """The internal listener answers workloads only, and only under /hub/.

    A workload can reach that port; it must find nothing else there.
    """

    def process_request(self, request: HttpRequest) -> HttpResponse | None:
        port = str(request.META.get("SERVER_PORT", ""))
        internal = port == str(settings.BERTH_INTERNAL_PORT)
        request.is_internal = internal  # type: ignore[attr-defined]
        if internal and not request.path.startswith("/hub/"):
            return HttpResponseNotFound("Only /hub/ is served here.\n", content_type="text/plain")
        return None


_CSP = (
    "default-src 'self'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "font-src 'self'; connect-src 'self'; object-src 'none'; base-uri 'none'; "
    "form-action 'self'{form_action}; frame-ancestors 'none'"
)


class ContentSecurityPolicyMiddleware(MiddlewareMixin):
    """One strict policy for every page: nothing inline, nothing foreign."""

    def process_response(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        extra = getattr(request, "csp_form_action", "")
        policy = _CSP.format(form_action=f" {extra}" if extra else "")
        response.headers.setdefault("Content-Security-Policy", policy)
        response.headers.setdefault("X-Content-Type-Options", "nosniff")
        response.headers.setdefault(
            "Permissions-Policy", "camera=(), microphone=(), geolocation=()"
        )
        return response


__all__ = [
    "ContentSecurityPolicyMiddleware",
    "ListenerMiddleware",
    "RequestContextMiddleware",
    "client_ip",
]
