"""The pages that JupyterLab links to."""

from urllib.parse import quote, urlsplit

from django.conf import settings
from django.contrib import auth
from django.contrib.auth.decorators import login_not_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render, resolve_url
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods

from accounts.principal import principal_of
from common.errors import NotFound
from hubapi import registry
from hubapi.addresses import host_routing, short_id_of_host, workload_origin
from hubapi.registry import AccessLevel
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
