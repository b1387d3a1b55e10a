"""The gate in the browser: who may, whether he was asked, and the code that he takes along."""

from dataclasses import dataclass
from urllib.parse import urlencode, urljoin

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from accounts.models import User
from accounts.principal import principal_of
from common.errors import Forbidden, Invalid
from hubapi import oauth
from hubapi.addresses import workload_origin
from hubapi.oauth import Gate

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
    return _away(f"{target}?{urlencode({'code': code, 'state': asked.state})}")


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


def _away(url: str) -> HttpResponse:
    response = HttpResponseRedirect(url)
    response["Referrer-Policy"] = "no-referrer"
    return response
