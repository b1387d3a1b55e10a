"""The provider class that allauth finds by its module's name."""

# ruff: noqa: ARG002 - the signatures are allauth's

import secrets
from typing import Any

from allauth.socialaccount.providers.openid_connect.provider import OpenIDConnectProvider
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import urlencode

from accounts.oidc.adapter import OidcAdapter


class OidcProvider(OpenIDConnectProvider):
    id = "oidc"
    name = "OpenID Connect"
    oauth2_adapter_class = OidcAdapter

    def get_login_url(self, request: HttpRequest, **kwargs: Any) -> str:
        url = reverse("oidc_login")
        return f"{url}?{urlencode(kwargs)}" if kwargs else url

    def get_callback_url(self) -> str:
        return reverse("oidc_callback")

    def get_scope_from_request(self, request: HttpRequest) -> list[str]:
        return list(self.get_scope())

    def get_auth_params_from_request(self, request: HttpRequest, action: str) -> dict[str, str]:
        return {}

    def redirect(
        self,
        request: HttpRequest,
        process: str,
        next_url: str | None = None,
        data: Any = None,
        **kwargs: Any,
    ) -> HttpResponse:
        nonce = secrets.token_urlsafe(24)
        kwargs["auth_params"] = {"nonce": nonce}
        response = super().redirect(request, process, next_url, data, nonce=nonce, **kwargs)
        if not isinstance(response, HttpResponseRedirect):
            return response
        # A page that forwards, not a redirect: the policy "form-action 'self'" of the sign-in
        # page would stop a form whose answer leads to another host.
        return render(
            request,
            "socialaccount/login_redirect.html",
            {"redirect_to": response.url, "provider": self.app.name},
        )


provider_classes = [OidcProvider]
