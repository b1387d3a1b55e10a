# ruff: noqa: ARG002 - the signatures are allauth's
"""What is checked of an answer of the provider before anybody is signed in."""

import hmac
import secrets
from typing import Any

import jwt
from allauth.account.internal.decorators import login_not_required
from allauth.socialaccount.adapter import get_adapter
from allauth.socialaccount.models import SocialApp, SocialLogin, SocialToken
from allauth.socialaccount.providers.oauth2.client import OAuth2Error
from allauth.socialaccount.providers.oauth2.views import OAuth2CallbackView, OAuth2LoginView
from allauth.socialaccount.providers.openid_connect.provider import OpenIDConnectProvider
from allauth.socialaccount.providers.openid_connect.views import OpenIDConnectOAuth2Adapter
from allauth.utils import build_absolute_uri
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import render
from django.urls import reverse
from django.utils.http import urlencode
from requests import RequestException

from common.errors import Unavailable

SIGNATURES = ["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "EdDSA"]
_LEEWAY = 30  # seconds that the two clocks may differ


class OidcAdapter(OpenIDConnectOAuth2Adapter):
    """``login_state`` is set by the callback view before ``complete_login`` is called."""

    login_state: dict[str, Any] | None = None

    def __init__(self, request: HttpRequest, provider_id: str = "oidc") -> None:
        super().__init__(request, provider_id)

    @property
    def openid_config(self) -> dict[str, Any]:
        config: dict[str, Any] = super().openid_config
        issuer = self.get_provider().app.settings["server_url"]
        if str(config.get("issuer", "")).rstrip("/") != issuer:
            raise OAuth2Error("The provider calls itself by another issuer than the settings do.")
        return config

    @property
    def basic_auth(self) -> bool:
        # A provider that lists nothing speaks Basic (OpenID Connect Discovery, section 3).
        methods = self.openid_config.get("token_endpoint_auth_methods_supported")
        return "client_secret_post" not in (methods or ["client_secret_basic"])

    def complete_login(
        self, request: HttpRequest, app: SocialApp, token: SocialToken, **kwargs: Any
    ) -> SocialLogin:
        raw = kwargs["response"].get("id_token")
        if not isinstance(raw, str):
            raise OAuth2Error("The provider sent no id_token.")
        claims = self.verified_claims(app, raw)
        sent = str((self.login_state or {}).get("nonce", ""))
        if not sent or not hmac.compare_digest(sent, str(claims.get("nonce", ""))):
            raise OAuth2Error("The nonce of the id_token is not the one of this sign-in.")
        data = claims | self.userinfo(token.token, claims.get("sub"))
        return self.get_provider().sociallogin_from_response(
            request, {"userinfo": data, "id_token": claims}
        )

    def userinfo(self, access_token: str, sub: Any) -> dict[str, Any]:
        """Return what the provider says there of the person; nothing where it has no userinfo."""
        if not self.openid_config.get("userinfo_endpoint"):
            return {}
        said: dict[str, Any] = self._fetch_user_info(access_token)
        if said.get("sub") != sub:
            raise OAuth2Error("userinfo tells of somebody else than the id_token.")
        return said

    def verified_claims(self, app: SocialApp, raw: str) -> dict[str, Any]:
        """Return the claims of a token whose signature, issuer, audience and time are right."""
        config = self.openid_config
        try:
            claims: dict[str, Any] = jwt.decode(
                raw,
                key=self._key(jwt.get_unverified_header(raw)),
                algorithms=SIGNATURES,
                issuer=config["issuer"],
                audience=app.client_id,
                leeway=_LEEWAY,
                options={"require": ["sub", "exp", "iat", "iss", "aud"], "strict_aud": False},
            )
        except (jwt.PyJWTError, KeyError, TypeError, ValueError) as error:
            raise OAuth2Error(f"The id_token is refused ({type(error).__name__}).") from error
        authorised = claims.get("azp", app.client_id)
        if authorised != app.client_id:
            raise OAuth2Error("The id_token was made for another client.")
        return claims

    def _key(self, header: dict[str, Any]) -> jwt.PyJWK:
        """Return the provider's key that ``header`` names, or its only key."""
        with get_adapter().get_requests_session() as session:
            response = session.get(self.openid_config["jwks_uri"])
            response.raise_for_status()
        keys = [k for k in jwt.PyJWKSet.from_dict(response.json()).keys if k.key_type != "oct"]
        kid = header.get("kid")
        if kid is not None:
            keys = [k for k in keys if k.key_id == kid]
        if len(keys) != 1:
            raise OAuth2Error("The provider has no such key.")
        return keys[0]

    def get_callback_url(self, request: HttpRequest, app: SocialApp) -> str:
        return str(build_absolute_uri(request, reverse("oidc_callback")))


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


class CallbackView(OAuth2CallbackView):
    adapter: OidcAdapter

    def _get_state(self, request: HttpRequest, provider: Any) -> tuple[Any, Any]:
        state, response = super()._get_state(request, provider)
        self.adapter.login_state = state
        return state, response


@login_not_required
def login(request: HttpRequest) -> HttpResponse:
    try:
        return OAuth2LoginView.adapter_view(OidcAdapter(request))(request)
    except SocialApp.DoesNotExist as error:
        raise Http404 from error
    except (RequestException, OAuth2Error, ValueError, KeyError) as error:
        raise Unavailable("Single sign-on does not answer. Try again in a minute.") from error


@login_not_required
def callback(request: HttpRequest) -> HttpResponse:
    try:
        return CallbackView.adapter_view(OidcAdapter(request))(request)
    except SocialApp.DoesNotExist as error:
        raise Http404 from error
