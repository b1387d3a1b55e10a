"""What a workspace's address answers while no workspace is behind it.

The proxy asks for this page and passes it on under the workspace's host: it carries no
cookie, names nothing and nobody, and is the same for stopped, unknown and foreign ones.
Lab shows its «server is gone, restart?» dialog for 424 only (or 503).
"""

from typing import Any
from urllib.parse import quote

from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt

from hubapi.addresses import short_id_of_host, short_id_of_path
from hubapi.registry import is_short_id

FAILED_DEPENDENCY = 424
_CSP = (
    "default-src 'none'; style-src {portal}; img-src {portal}; base-uri 'none'; "
    "form-action 'none'; frame-ancestors 'none'"
)


@csrf_exempt
@never_cache
@login_not_required
def stopped(request: HttpRequest) -> HttpResponse:
    host, path = request.GET.get("host", ""), request.GET.get("path", "")
    short_id = short_id_of_host(host) or short_id_of_path(path)
    portal = str(settings.BERTH_PUBLIC_URL)
    resume = f"{portal}/hub/spawn/-/{quote(short_id)}" if is_short_id(short_id) else f"{portal}/"
    response = _page(request, portal, resume) if _is_navigation(request, path) else _json(resume)
    response["Content-Security-Policy"] = _CSP.format(portal=portal)
    response["Referrer-Policy"] = "no-referrer"
    return response


def _is_navigation(request: HttpRequest, path: str) -> bool:
    """Whether a person will read it. Plain-http origins send no Sec-Fetch headers."""
    mode = request.headers.get("Sec-Fetch-Mode", "")
    if mode:
        return mode == "navigate"
    is_script = request.headers.get("X-Requested-With", "") == "XMLHttpRequest"
    wants_page = "text/html" in request.headers.get("Accept", "")
    return wants_page and not is_script and "/api/" not in path


def _page(request: HttpRequest, portal: str, resume: str) -> HttpResponse:
    context: dict[str, Any] = {"portal": portal, "resume_url": resume}
    return render(request, "hubapi/stopped.html", context, status=FAILED_DEPENDENCY)


def _json(resume: str) -> HttpResponse:
    body = {"message": "This workspace is not running.", "resume_url": resume}
    return JsonResponse(body, status=FAILED_DEPENDENCY)
