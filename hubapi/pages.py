"""What browsers open under /hub: the pages that JupyterLab links to, the way into a workspace with
its consent, and what stands for a workspace that does not run.
"""

from dataclasses import dataclass
from urllib.parse import quote, urlencode, urljoin, urlsplit

from django.conf import settings
from django.contrib import auth
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.shortcuts import redirect, render, resolve_url
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from accounts.models import User
from accounts.principal import principal_of
from common.errors import Forbidden, Invalid, NotFound
from hubapi import oauth, registry
from hubapi.oauth import Gate
from hubapi.registry import (
    AccessLevel,
    host_routing,
    is_short_id,
    short_id_of_host,
    short_id_of_path,
    workload_origin,
)
from hubapi.services import origin_of
from runtime.protocol import Phase

_STARTING = (Phase.PENDING, Phase.STARTING)


@require_GET
def home(request: HttpRequest) -> HttpResponse:
    """File ▸ Hub Control Panel."""
    del request
    return redirect("/")


def home_of(request: HttpRequest, owner: str) -> HttpResponse:
    """A spawn link without a server's name: there is no default server here."""
    del owner
    return home(request)


@never_cache
@login_not_required
@require_http_methods(["GET", "POST"])
def logout(request: HttpRequest) -> HttpResponse:
    """File ▸ Log Out: ends the portal session, and every notebook token that came from it.

    Lab comes here by a link. A foreign page can link here too, so only a visit from a
    workspace or from the portal itself signs out at once; any other is asked.
    """
    if not request.user.is_authenticated:
        return redirect(settings.LOGIN_URL)
    if request.method == "POST" or _is_ours(request):
        auth.logout(request)
        return redirect(settings.LOGIN_URL)
    return render(request, "hubapi/logout.html")


def _is_ours(request: HttpRequest) -> bool:
    if request.headers.get("Sec-Fetch-Site") == "same-origin":
        return True
    origin = origin_of(request.headers.get("Referer", ""))
    if not host_routing():
        return origin == workload_origin("")
    short_id = short_id_of_host(urlsplit(origin).netloc)
    return bool(short_id) and origin == workload_origin(short_id)


@never_cache
@require_GET
def spawn(request: HttpRequest, server: str = "", owner: str = "") -> HttpResponse:
    """Lab's «Restart»: to the running workspace, or to the button that resumes it.

    ``owner`` is whoever looks at Lab, not necessarily the owner: only the server counts.
    """
    del owner
    user = principal_of(request).user
    info = registry.by_short_id(server)
    level = registry.access(user, info.uid) if info else AccessLevel.NONE
    if info is None or level == AccessLevel.NONE:
        raise NotFound(_("There is no such workspace, or it was not shared with you."))
    if info.phase == Phase.RUNNING:
        return redirect(info.public_url)
    context = {
        "info": info,
        "is_owner": level == AccessLevel.OWNER,
        "is_starting": info.phase in _STARTING,
    }
    return render(request, "hubapi/spawn.html", context)


@never_cache
@require_GET
def user_redirect(request: HttpRequest, path: str = "") -> HttpResponse:
    """A link that names a place but no server: the only running one, or a choice."""
    tail = quote(path, safe="/@:+~!$&'()*,;=")
    if query := request.META.get("QUERY_STRING", ""):
        tail = f"{tail}?{query}"
    found = registry.openable_by(principal_of(request).user)
    if len(found) == 1:
        return redirect(found[0].public_url + tail)
    choices = [(info, info.public_url + tail) for info in found]
    return render(request, "hubapi/choose.html", {"choices": choices})


@require_GET
@login_not_required
def login(request: HttpRequest) -> HttpResponse:
    del request
    return redirect(resolve_url(settings.LOGIN_URL))


_MAX_STATE = 8192


@dataclass(frozen=True)
class Asked:
    """The parameters of an authorization request, as they came."""

    client_id: str
    redirect_uri: str
    response_type: str
    state: str
    code_challenge: str
    code_challenge_method: str

    @classmethod
    def of(cls, values: dict[str, str]) -> "Asked":
        return cls(**{name: values.get(name, "") for name in cls.__dataclass_fields__})

    def query(self) -> str:
        return urlencode({k: v for k, v in vars(self).items() if v})


@never_cache
@require_GET
def authorize(request: HttpRequest) -> HttpResponse:
    asked = Asked.of(request.GET.dict())
    gate = _gate(request, asked)
    if not gate.is_running:
        return redirect(gate.info.page_url)
    principal = principal_of(request)
    if oauth.needs_consent(principal.user, gate):
        return _ask(request, asked, gate)
    code = oauth.code_issue(
        principal=principal,
        gate=gate,
        redirect_uri=asked.redirect_uri,
        challenge=asked.code_challenge,
        session_key=request.session.session_key or "",
    )
    target = urljoin(workload_origin(gate.info.short_id), asked.redirect_uri)
    response = HttpResponseRedirect(f"{target}?{urlencode({'code': code, 'state': asked.state})}")
    response["Referrer-Policy"] = "no-referrer"
    return response


@never_cache
@require_POST
def consent(request: HttpRequest) -> HttpResponse:
    """The visitor pressed «continue»: remember it and go through the same gate again."""
    asked = Asked.of(request.POST.dict())
    gate = _gate(request, asked)
    if str(gate.info.owner_uid) != request.POST.get("owner"):
        return _again(asked)  # it changed hands while he read
    oauth.consent_give(principal=principal_of(request), gate=gate)
    return _again(asked)


def _again(asked: Asked) -> HttpResponse:
    return HttpResponseRedirect(f"{reverse('hubapi:authorize')}?{asked.query()}")


def _ask(request: HttpRequest, asked: Asked, gate: Gate) -> HttpResponse:
    # The form's answer leads, by redirects, to the workspace's own address.
    request.csp_form_action = workload_origin(gate.info.short_id)  # type: ignore[attr-defined]
    owner = User.objects.get(pk=gate.info.owner_pk)
    context = {"asked": vars(asked), "info": gate.info, "owner": owner}
    return render(request, "hubapi/consent.html", context)


def _gate(request: HttpRequest, asked: Asked) -> Gate:
    """Return the way in, or refuse. Who may not enter learns nothing more than that."""
    user = principal_of(request).user
    gate = oauth.gate_for(user, asked.client_id)
    if gate is None:
        raise Forbidden(_("There is no such workspace, or it was not shared with you."))
    if asked.redirect_uri not in gate.client.redirect_uris:
        raise Invalid(_("This address does not belong to the workspace. Open it from Berth."))
    if asked.response_type != "code" or not 0 < len(asked.state) <= _MAX_STATE:
        raise Invalid(_("The workspace asked in a way that Berth does not understand."))
    if not oauth.challenge_ok(asked.code_challenge, asked.code_challenge_method):
        raise Invalid(_("The workspace asked in a way that Berth does not understand."))
    return gate


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
    if _is_navigation(request, path):
        context = {"portal": portal, "resume_url": resume}
        response = render(request, "hubapi/stopped.html", context, status=FAILED_DEPENDENCY)
    else:
        body = {"message": "This workspace is not running.", "resume_url": resume}
        response = JsonResponse(body, status=FAILED_DEPENDENCY)
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
