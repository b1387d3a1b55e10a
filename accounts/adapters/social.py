"""Single sign-on: who gets an account, and which one."""

# ruff: noqa: ARG002 - the signatures are allauth's

from typing import Any

import requests
from allauth.account.models import EmailAddress
from allauth.core.exceptions import ImmediateHttpResponse
from allauth.socialaccount.adapter import DefaultSocialAccountAdapter
from allauth.socialaccount.models import SocialApp, SocialLogin
from allauth.socialaccount.providers.base.constants import AuthProcess
from django.conf import settings
from django.db import transaction
from django.http import HttpRequest
from django.shortcuts import render

from accounts.models import User
from accounts.names import free_username
from accounts.principal import Principal
from accounts.services import record_denied
from accounts.services.refusals import user_readmit
from common.middleware import client_ip
from common.outbound.sessions import Believing
from events import services as events


class SocialAccountAdapter(DefaultSocialAccountAdapter):
    """One provider from the settings; accounts are made at the first sign-in.

    An address that the provider does not call verified is dropped before anything looks at it.
    A verified one links to the account that verified the same address itself, and to no other.
    """

    def get_requests_session(self) -> requests.Session:
        """As allauth's, and it believes the operator's own authority too."""
        session: requests.Session = super().get_requests_session()
        session.mount("https://", Believing())
        return session

    def list_apps(
        self, request: HttpRequest, provider: str | None = None, client_id: str | None = None
    ) -> list[SocialApp]:
        if not (settings.BERTH_OIDC_ISSUER and settings.BERTH_OIDC_CLIENT_ID):
            return []
        if provider not in {None, "oidc"} or client_id not in {None, settings.BERTH_OIDC_CLIENT_ID}:
            return []
        app = SocialApp(
            provider="oidc",
            provider_id="oidc",
            name=settings.BERTH_OIDC_NAME,
            client_id=settings.BERTH_OIDC_CLIENT_ID,
            secret=settings.BERTH_OIDC_CLIENT_SECRET,
        )
        app.settings = {
            "server_url": settings.BERTH_OIDC_ISSUER.rstrip("/"),
            "oauth_pkce_enabled": True,
            "scope": list(settings.BERTH_OIDC_SCOPES),
        }
        return [app]

    def is_open_for_signup(self, request: HttpRequest, sociallogin: SocialLogin) -> bool:
        return True  # the provider decides who may come; sign-up by form stays closed

    def is_auto_signup_allowed(self, request: HttpRequest, sociallogin: SocialLogin) -> bool:
        return True

    def populate_user(
        self, request: HttpRequest, sociallogin: SocialLogin, data: dict[str, Any]
    ) -> User:
        user = sociallogin.user
        # Some providers write the claim as a word; anything else than a clear yes is a no.
        kept = [e for e in sociallogin.email_addresses if e.verified in {True, "true"}]
        for address in kept:
            address.email, address.verified = address.email.lower(), True
        sociallogin.email_addresses = kept
        verified = [e.email for e in kept]
        name = str(data.get("name") or "")[:120]
        user.username = str(data.get("username") or "")[:64]
        user.email = verified[0] if verified else ""
        user.display_name = name if name.isprintable() else ""
        return user

    def pre_social_login(self, request: HttpRequest, sociallogin: SocialLogin) -> None:
        """Refuse when the verified address belongs to an account that never verified it.

        Somebody whom the provider had refused is let in again: this is its yes.
        """
        connects = sociallogin.state.get("process") == AuthProcess.CONNECT
        if sociallogin.is_existing and not connects and sociallogin.user.is_refused:
            user_readmit(user=sociallogin.user, ip=client_ip(request))
        if connects or sociallogin.is_existing or not sociallogin.email_addresses:
            return
        email = sociallogin.email_addresses[0].email
        if User.objects.filter(email__iexact=email).exists() or (
            EmailAddress.objects.filter(email__iexact=email).exists()
        ):
            record_denied(
                verb="user.sign-in-denied",
                ip=client_ip(request),
                name=email,
                message="single sign-on: the address belongs to another account",
            )
            page = render(request, "socialaccount/address_taken.html", {"email": email}, status=409)
            raise ImmediateHttpResponse(page)

    def authenticate_by_email(self, sociallogin: SocialLogin) -> tuple[User, str] | None:
        if not settings.BERTH_OIDC_LINK_VERIFIED_EMAIL:
            return None
        for address in sociallogin.email_addresses:
            own = (
                EmailAddress.objects.select_related("user")
                .filter(email__iexact=address.email, verified=True)
                .first()
            )
            if own is not None:
                return own.user, own.email
        return None

    def save_user(self, request: HttpRequest, sociallogin: SocialLogin, form: Any = None) -> User:
        with transaction.atomic():
            user = sociallogin.user
            # allauth has emptied a name that is taken, so it is read from the claims again.
            said = (sociallogin.account.extra_data or {}).get("userinfo") or {}
            wanted = str(said.get("preferred_username") or "") or user.email.partition("@")[0]
            user.username = free_username(wanted)
            user.set_unusable_password()
            sociallogin.save(request)
            events.record(
                actor=Principal(user=user, ip=client_ip(request)),
                verb="user.created",
                target=user,
                message="single sign-on",
            )
        return user

    def on_authentication_error(
        self, request: HttpRequest, provider: Any, error: Any = None, **kwargs: Any
    ) -> None:
        record_denied(
            verb="user.sign-in-denied",
            ip=client_ip(request),
            message=f"single sign-on: {error} {kwargs.get('exception') or ''}"[:200],
        )
