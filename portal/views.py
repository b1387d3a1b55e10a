"""The frame's own requests: language, theme, project, palette, the API's description, errors."""

import sys
from functools import cache
from typing import Any, ClassVar

from allauth.account import app_settings as account_limits
from allauth.core.internal.ratelimit import parse_rates
from django.conf import settings
from django.contrib.auth.decorators import login_not_required
from django.core.exceptions import RequestDataTooBig
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.shortcuts import render
from django.template import loader
from django.utils import translation
from django.utils.decorators import method_decorator
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views import View
from django.views.generic import TemplateView
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.utils import extend_schema
from drf_spectacular.views import SpectacularAPIView
from rest_framework.request import Request

from accounts.models import Theme
from accounts.services.people import profile_update
from common.database import said_of
from common.errors import (
    CONTENT_TYPE,
    BerthError,
    Forbidden,
    Invalid,
    NotFound,
    TooLarge,
    TooManyRequests,
    problem_body,
)
from common.middleware import error_frame
from portal import palette
from projects.access import projects_visible_to
from projects.ui.base import SESSION_PROJECT, PlatformView

_YEAR = 365 * 24 * 3600


def safe_next(request: HttpRequest, fallback: str = "/") -> str:
    """Return the page to go back to; never an address of somebody else."""
    target = request.POST.get("next") or request.headers.get("Referer", "")
    hosts = {request.get_host()}
    if target and url_has_allowed_host_and_scheme(target, hosts, require_https=request.is_secure()):
        return target
    return fallback


@method_decorator(login_not_required, name="dispatch")
class Preferences(View):
    """Language and theme, for people (kept with the account) and visitors (a cookie)."""

    http_method_names = ["post"]

    def post(self, request: HttpRequest) -> HttpResponse:
        language = request.POST.get("language", "")
        theme = request.POST.get("theme", "")
        if language and language not in dict(settings.LANGUAGES):
            raise Invalid(_("Berth does not speak this language yet."))
        if theme and theme not in Theme.values:
            raise Invalid(_("There is no such theme."))
        if request.headers.get("Accept", "").startswith("application/json"):
            answer: HttpResponse = HttpResponse(status=204)
        else:
            answer = HttpResponseRedirect(safe_next(request))
        chosen: dict[str, Any] = {}
        if language:
            chosen["language"] = language
            self._cookie(answer, settings.LANGUAGE_COOKIE_NAME, language)
        if theme:
            chosen["theme"] = theme
            self._cookie(answer, "berth_theme", theme)
        who = getattr(request, "principal", None)
        if who is not None and chosen:
            profile_update(who=who, **chosen)
        return answer

    def _cookie(self, answer: HttpResponse, name: str, value: str) -> None:
        answer.set_cookie(
            name, value, max_age=_YEAR, samesite="Lax", secure=settings.BERTH_SECURE, httponly=True
        )


class ProjectSwitch(PlatformView):
    """Remember another project as the current one and go home."""

    required_platform: ClassVar[Any] = {"POST": "user"}

    def post(self, request: HttpRequest) -> HttpResponse:
        slug = request.POST.get("project", "")
        if not projects_visible_to(self.principal).filter(slug=slug).exists():
            raise NotFound(_("There is no such project, or you are not a member of it."))
        request.session[SESSION_PROJECT] = slug
        return HttpResponseRedirect("/")


class Palette(PlatformView):
    """Answers of the command palette."""

    required_platform: ClassVar[Any] = {"GET": "user"}

    def get(self, request: HttpRequest) -> HttpResponse:
        words = request.GET.get("q", "")[:80]
        slug = str(request.session.get(SESSION_PROJECT, ""))
        return JsonResponse({"groups": palette.search(self.principal, words, slug)})


def _problem(request: HttpRequest, error: BerthError) -> HttpResponse:
    fragment = bool(getattr(request, "htmx", False))
    if request.path.startswith("/api/"):
        body = problem_body(error.status, error.code, error.message)
        answer: HttpResponse = JsonResponse(body, status=error.status, content_type=CONTENT_TYPE)
    else:
        name = "errors/_problem.html" if fragment else "errors/problem.html"
        answer = render(request, name, error_frame(request, error), status=error.status)
    for header, value in error.headers.items():
        answer[header] = value
    return answer


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    if isinstance(exception, RequestDataTooBig):
        most = settings.DATA_UPLOAD_MAX_MEMORY_SIZE // 1024**2
        message = _("More was sent than a form may have (%(most)d MiB). Send less.")
        return _problem(request, TooLarge(message % {"most": most}))
    return _problem(request, Invalid(_("Berth could not read this request.")))


def denied(request: HttpRequest, exception: Exception) -> HttpResponse:  # noqa: ARG001
    return _problem(request, Forbidden(_("You may not do this.")))


def too_many(request: HttpRequest) -> HttpResponse:
    """Answer who signs in, or asks for a mail, too often (allauth's limits)."""
    action = (request.resolver_match.view_name if request.resolver_match else "") or ""
    limits = account_limits.RATE_LIMITS.get(action.removeprefix("account_"))
    wait_s = int(max((rate.duration for rate in parse_rates(limits)), default=60))
    minutes = -(-wait_s // 60)
    message = ngettext(
        "This was asked too often in a short time. Wait a minute, then try again.",
        "This was asked too often in a short time. Wait %(minutes)d minutes, then try again.",
        minutes,
    )
    error = TooManyRequests(message % {"minutes": minutes})
    error.retry_after_s = wait_s
    return _problem(request, error)


def csrf_failed(request: HttpRequest, reason: str = "") -> HttpResponse:  # noqa: ARG001
    message = _("This form is too old or came from another site. Load the page again and repeat.")
    return _problem(request, Forbidden(message, code="csrf"))


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:  # noqa: ARG001
    return _problem(request, NotFound(_("There is no such page, or it is not yours to see.")))


def broken(request: HttpRequest) -> HttpResponse:
    """Must work when nothing else does: no database, no context processor."""
    request_id = getattr(request, "request_id", "")
    said = said_of(problem) if (problem := sys.exception()) else None  # the one that led here
    status, code = (said.status, said.code) if said else (500, "internal")
    headers = said.headers if said else None
    if request.path.startswith("/api/"):
        detail = said.message if said else _("Something went wrong inside Berth. It was logged.")
        body = problem_body(status, code, detail, extra={"request_id": request_id})
        return JsonResponse(body, status=status, content_type=CONTENT_TYPE, headers=headers)
    html = loader.render_to_string("errors/500.html", {"request_id": request_id, "said": said})
    return HttpResponse(html, status=status, headers=headers)


NOTATIONS = {renderer.format: renderer for renderer in SpectacularAPIView.renderer_classes}


@method_decorator(login_not_required, name="dispatch")
class SchemaView(SpectacularAPIView):
    """The document is the same as docs/openapi.yaml; it holds nothing of anybody."""

    authentication_classes = ()
    permission_classes = ()

    @extend_schema(exclude=True)
    def get(self, request: Request) -> HttpResponse:
        renderer = request.accepted_renderer
        title = settings.SPECTACULAR_SETTINGS["TITLE"]
        return HttpResponse(
            written(_language(request), renderer.format),
            content_type=f"{renderer.media_type}; charset=utf-8",
            headers={"Content-Disposition": f'inline; filename="{title}.{renderer.format}"'},
        )


def _language(request: Request) -> str:
    asked = request.GET.get("lang", "")
    return asked if asked in dict(settings.LANGUAGES) else translation.get_language()


@cache
def written(language: str, notation: str) -> bytes:
    """Return the document as it is sent.

    It takes half a second of a processor and anybody may ask: it is made once for a language and
    a notation, and does not change while a process runs.
    """
    with translation.override(language):
        document = SchemaGenerator().get_schema(public=True)
        text = NOTATIONS[notation]().render(document)
    return text.encode() if isinstance(text, str) else bytes(text)


class DocsView(TemplateView):
    """Swagger UI from the sidecar package; our script starts it, as the strict policy wants."""

    template_name = "portal/api_docs.html"
